import assert from "node:assert/strict";
import test from "node:test";
import { entries, parts, talk } from "./sources.mjs";

const message = (seq, role, text, more = {}) => ({
  ref: `s:${seq}`,
  role,
  at: `2026-01-01T00:00:${String(seq).padStart(2, "0")}Z`,
  text,
  thoughts: null,
  tool_calls: [],
  tool_call_id: null,
  tool_name: null,
  redacted: false,
  attachments: [],
  ...more,
});
const notice = (id, second) => ({ id, text: id, at: `2026-01-01T00:00:${second}Z`, buttons: [] });

const EVENTS = [
  { type: "thought", text: "Look " },
  { type: "thought", text: "first." },
  { type: "tool_call", call_id: "c1", name: "find", arguments: '{"q": "x"}' },
  { type: "tool_result", call_id: "c1", content: "found" },
  { type: "usage", input_tokens: 3 },
  { type: "text", text: "It is " },
  { type: "text", text: "here." },
  { type: "file", attachment: { handle: "file:1a", name: "a.txt", mime: "text/plain", size: 3 } },
  { type: "file", attachment: { handle: "file:2b", name: "b.png", mime: "image/png", size: 4 } },
  { type: "done" },
];
const FILES = [
  { id: "1a", name: "a.txt", mime: "text/plain", size: 3 },
  { id: "2b", name: "b.png", mime: "image/png", size: 4 },
];
const STORED = [
  message(2, "assistant", "", { thoughts: "Look first.", tool_calls: [{ id: "c1", name: "find", arguments: '{"q": "x"}' }] }),
  message(3, "tool", "found", { tool_call_id: "c1", tool_name: "find" }),
  message(4, "assistant", "It is here.", { attachments: FILES }),
];

test("a running answer and the stored one are drawn alike", () => {
  assert.deepEqual(parts.foldEvents([], EVENTS), parts.partsOf(STORED));
});

test("it does not matter in which portions events come", () => {
  const whole = parts.foldEvents([], EVENTS);
  for (let cut = 0; cut <= EVENTS.length; cut++) {
    assert.deepEqual(parts.foldEvents(parts.foldEvents([], EVENTS.slice(0, cut)), EVENTS.slice(cut)), whole);
  }
});

test("a result without its call is shown all the same", () => {
  const [part] = parts.partsOf([message(1, "tool", "late", { tool_call_id: "c9", tool_name: "find" })]);
  assert.deepEqual([part.name, part.result], ["find", "late"]);
});

test("what was removed says so, and nothing more", () => {
  assert.deepEqual(parts.partsOf([message(1, "assistant", "[removed]", { redacted: true })]), [{ kind: "removed" }]);
});

test("an answer is one row; a notice stands in its time, and never within an answer", () => {
  const state = {
    ...talk.newTalk("c"),
    messages: [message(1, "user", "hi"), ...STORED, message(9, "user", "more")],
    notices: [notice("late", "59"), notice("mid", "03")],
  };
  const rows = entries.makeEntries()(state);
  assert.deepEqual(
    rows.map((one) => one.kind),
    ["user", "answer", "notice", "user", "notice"],
  );
  assert.equal(rows[1].ref, "s:4");
});

test("rows that did not change stay the same objects", () => {
  const make = entries.makeEntries();
  const state = { ...talk.newTalk("c"), messages: [message(1, "user", "hi"), ...STORED] };
  const before = make(state);
  const now = make({ ...state, messages: [...state.messages, message(5, "user", "more")] });
  assert.equal(now[0], before[0]);
  assert.equal(now[1], before[1]);
});

const waits = (text) => ({ id: text, text, at: "2026-01-01T00:00:00Z", attachments: [] });
const running = (said, parts = []) => ({ turn_id: "t", attempt: 1, upto: 0, said, parts });

test("a command that is just carried out does not flash", () => {
  const idle = talk.newTalk("c");
  const waiting = entries.underway({ ...idle, waiting: [waits("/undo")] });
  assert.deepEqual([waiting.waiting, waiting.isExpecting], [[], false]);
  const carriedOut = entries.underway({ ...idle, live: running([waits("/undo 2")]) });
  assert.deepEqual([carriedOut.said, carriedOut.isRunning], [[], false]);
});

test("an answer that is asked for again is expected, without the command", () => {
  const idle = talk.newTalk("c");
  const waiting = entries.underway({ ...idle, waiting: [waits("/retry")] });
  assert.deepEqual([waiting.waiting, waiting.isExpecting], [[], true]);
  const again = entries.underway({ ...idle, live: running([waits("/retry")]) });
  assert.deepEqual([again.said, again.isRunning], [[], true]);
});

test("whatever waits behind a running turn is shown with its place, commands too", () => {
  const queue = entries.underway({
    ...talk.newTalk("c"),
    live: running([waits("hi")]),
    waiting: [waits("/title x"), waits("more")],
  });
  assert.deepEqual(
    queue.waiting.map(({ message, place }) => [message.text, place]),
    [
      ["/title x", 1],
      ["more", 2],
    ],
  );
  assert.equal(queue.isExpecting, false);
});

test("a path is something that somebody said", () => {
  const waiting = entries.underway({ ...talk.newTalk("c"), waiting: [waits("/etc/hosts is where?")] });
  assert.deepEqual([waiting.waiting.length, waiting.isExpecting], [1, true]);
});
