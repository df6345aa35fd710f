// Starts telegram-test-api at the port that is given, and ends when its input does.
const { createRequire } = require("node:module");

const TelegramServer = createRequire(`${process.cwd()}/`)("telegram-test-api");
const server = new TelegramServer({ host: "127.0.0.1", port: Number(process.argv[2]) });

process.stdin.on("end", () => process.exit(0)).resume();
server.start().then(() => process.stdout.write("ready\n"));
