import assert from "node:assert/strict";
import test from "node:test";
import { numbers, sse } from "./sources.mjs";

function read(...pieces) {
  const out = [];
  const take = sse.eventReader((event) => out.push(event));
  for (const piece of pieces) take(piece);
  return out;
}

const STREAM =
  'retry: 1000\n\nid: 7\nevent: live\ndata: {"a":\ndata: 1}\n\n: still here\n\nevent: notice\r\ndata: ü\r\n\r\ndata: x\rdata\r\r';
const EVENTS = [
  { id: "7", type: "live", data: '{"a":\n1}' },
  { id: "7", type: "notice", data: "ü" },
  { id: "7", type: "message", data: "x\n" },
];

test("a whole stream gives its events, and comments none", () => {
  assert.deepEqual(read(STREAM, "\n"), EVENTS);
});

test("it does not matter where a stream is cut", () => {
  const next = numbers(1);
  for (let run = 0; run < 200; run++) {
    const cuts = Array.from({ length: 8 }, () => Math.floor(next() * STREAM.length)).sort((a, b) => a - b);
    const pieces = [0, ...cuts].map((from, at, all) => STREAM.slice(from, all[at + 1] ?? STREAM.length));
    assert.deepEqual(read(...pieces, "\n"), EVENTS);
  }
});

test("an event that is not complete is not told", () => {
  assert.deepEqual(read("data: half\n"), []);
});
