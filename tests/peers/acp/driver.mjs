// An editor on the official SDK. It does what it is told on standard input, a line each, and tells on standard output all that
// happens: the raw wire both ways, what the SDK made of it, and what the SDK could not make anything of.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const found = createRequire(`${process.cwd()}/`).resolve("@agentclientprotocol/sdk/unstable");
const { client, methods, ndJsonStream } = await import(pathToFileURL(found));

const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
// What the SDK can't read it only complains about.
console.error = (...words) => tell({ is: "fault", text: words.map(String).join(" ") });
console.warn = console.error;

function tapped(is) {
  let rest = "";
  const decoder = new TextDecoder();
  return new TransformStream({
    transform(chunk, controller) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) tell({ is, line });
      controller.enqueue(chunk);
    },
  });
}

const [command, ...args] = process.argv.slice(2);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const output = tapped("sent");
output.readable.pipeTo(Writable.toWeb(agent.stdin)).catch(() => {});
const input = Readable.toWeb(agent.stdout).pipeThrough(tapped("heard"));

const asked = new Map();
const app = client({ name: "driver" })
  .onNotification(methods.client.session.update, ({ params }) => tell({ is: "update", params }))
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const number = asked.size + 1;
    tell({ is: "permission", number, params });
    return new Promise((resolve) => asked.set(number, resolve));
  });
const connection = app.connect(ndJsonStream(output.writable, input));
tell({ is: "started", pid: agent.pid });
agent.on("exit", (code, signal) => tell({ is: "ended", code, signal }));

async function request({ number, method, params }) {
  try {
    tell({ is: "answer", number, result: await connection.agent.request(method, params) });
  } catch (error) {
    tell({ is: "answer", number, error: { code: error.code ?? 0, message: error.message, data: error.data } });
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const told = JSON.parse(line);
    if (told.do === "request") request(told);
    else if (told.do === "notify") connection.agent.notify(told.method, told.params);
    else if (told.do === "decide") asked.get(told.number)({ outcome: told.outcome });
  })
  .on("close", () => {
    agent.stdin.end();
    agent.on("exit", () => process.exit(0));
    if (agent.exitCode !== null || agent.signalCode !== null) process.exit(0);
  });
