import assert from "node:assert/strict";
import test from "node:test";
import { talk } from "./sources.mjs";

const { addEarlier, addPending, applyEvent, markPending, newTalk } = talk;
const row = { id: "c", session_id: "s", title: null, label: "", updated_at: "2026-01-01T00:00:00Z", ended: false, busy: false };
const said = (id, text = id) => ({ id, text, at: "2026-01-01T00:00:00Z", attachments: [] });
const stored = (seq, role, text) => ({
  ref: `s:${seq}`,
  role,
  at: "2026-01-01T00:00:00Z",
  text,
  thoughts: null,
  tool_calls: [],
  tool_call_id: null,
  tool_name: null,
  redacted: false,
  attachments: [],
});
const snapshot = (more = {}) => ({
  conversation: row,
  messages: [],
  has_earlier: false,
  live: null,
  ask: null,
  waiting: [],
  notices: [],
  usage: null,
  can_redo: false,
  ...more,
});
const live = (first, upto, text, more = {}) => ({
  turn_id: "t",
  attempt: 1,
  first,
  upto,
  events: [{ type: "text", text }],
  said: [],
  ...more,
});
const settled = (messages, more = {}) => ({
  turn_id: "t",
  messages,
  usage: null,
  waiting: [],
  ask: null,
  conversation: row,
  ...more,
});
const after = (...events) => events.reduce((now, [type, event]) => applyEvent(now, type, event), newTalk("c"));
const words = (state) => state.live.parts.map((part) => part.text).join("");

test("a running turn grows by what follows it", () => {
  assert.equal(words(after(["snapshot", snapshot()], ["live", live(0, 1, "Hel")], ["live", live(1, 3, "lo")])), "Hello");
});

test("what came twice is shown once", () => {
  const events = [
    ["snapshot", snapshot()],
    ["live", live(0, 1, "Hel")],
    ["live", live(1, 3, "lo")],
    ["notice", { id: "n", text: "x", at: "2026-01-01T00:00:00Z", buttons: [] }],
    ["settled", settled([stored(1, "user", "hi"), stored(2, "assistant", "Hello")])],
    ["messages", { messages: [stored(2, "assistant", "Hello"), stored(3, "user", "more")] }],
  ];
  const once = after(...events);
  const twice = after(...events.flatMap((event) => (event[0] === "snapshot" ? [event] : [event, event])));
  assert.deepEqual(twice, once);
  assert.deepEqual(
    once.messages.map((one) => one.ref),
    ["s:1", "s:2", "s:3"],
  );
});

test("another attempt begins the answer anew", () => {
  const state = after(["snapshot", snapshot()], ["live", live(0, 1, "wrong")], ["live", live(0, 1, "right", { attempt: 2 })]);
  assert.equal(words(state), "right");
});

test("a gap asks for the whole again, and shows nothing wrong", () => {
  const state = after(["snapshot", snapshot()], ["live", live(0, 1, "a")], ["live", live(4, 5, "z")]);
  assert.equal(state.isTorn, true);
  assert.equal(words(state), "a");
  assert.equal(after(["snapshot", snapshot()], ["live", live(3, 4, "z")]).isTorn, true);
  assert.equal(applyEvent(state, "snapshot", snapshot()).isTorn, false);
});

test("the stored answer takes the place of the running one in one step", () => {
  const state = after(
    ["snapshot", snapshot()],
    ["live", live(0, 1, "Hello")],
    ["settled", settled([stored(1, "user", "hi"), stored(2, "assistant", "Hello")])],
  );
  assert.equal(state.live, null);
  assert.deepEqual(state.drawnAs, { "s:2": "t" });
});

test("the end of one turn leaves another alone", () => {
  const state = after(
    ["snapshot", snapshot()],
    ["live", live(0, 1, "new", { turn_id: "u" })],
    ["settled", settled([stored(1, "assistant", "old")])],
  );
  assert.equal(words(state), "new");
});

test("a message of ours is shown until the server shows it, and never twice", () => {
  const sent = addPending(after(["snapshot", snapshot()]), said("m"));
  assert.equal(sent.pending.length, 1);
  assert.equal(applyEvent(sent, "state", { waiting: [said("m")] }).pending.length, 0);
  assert.equal(applyEvent(sent, "live", live(0, 0, "", { said: [said("m")] })).pending.length, 0);
  const quick = applyEvent(sent, "settled", settled([stored(1, "user", "m"), stored(2, "assistant", "yes")]));
  assert.equal(quick.pending.length, 1);
  assert.equal(markPending(quick, "m", "accepted").pending.length, 0);
});

test("an accepted message survives news that are about others", () => {
  const sent = markPending(addPending(after(["snapshot", snapshot()]), said("m")), "m", "accepted");
  assert.equal(applyEvent(sent, "state", { waiting: [] }).pending.length, 1);
});

test("a message that failed stays until somebody decides", () => {
  const sent = markPending(addPending(after(["snapshot", snapshot()]), said("m")), "m", "failed", "Too long.");
  const later = applyEvent(applyEvent(sent, "snapshot", snapshot()), "settled", settled([]));
  assert.equal(later.pending[0].problem, "Too long.");
});

test("a snapshot keeps the earlier pages that it goes on from, and no others", () => {
  const opened = addEarlier(after(["snapshot", snapshot({ messages: [stored(3, "user", "c")], has_earlier: true })]), {
    messages: [stored(1, "user", "a"), stored(2, "assistant", "b")],
    has_earlier: false,
  });
  const same = applyEvent(opened, "snapshot", snapshot({ messages: [stored(3, "user", "c")], has_earlier: true }));
  assert.deepEqual(
    same.messages.map((one) => one.ref),
    ["s:1", "s:2", "s:3"],
  );
  assert.equal(same.hasEarlier, false);
  const other = applyEvent(opened, "snapshot", snapshot({ messages: [stored(9, "user", "z")], has_earlier: true }));
  assert.deepEqual(
    other.messages.map((one) => one.ref),
    ["s:9"],
  );
  assert.equal(other.hasEarlier, true);
});

test("an unknown event changes nothing", () => {
  const state = after(["snapshot", snapshot()]);
  assert.equal(applyEvent(state, "weather", {}), state);
});

test("what was told during a turn stands behind the message that it answers", () => {
  const at = "2026-01-01T00:00:05Z";
  const state = after(
    ["snapshot", snapshot()],
    ["live", live(0, 1, "Hello", { said: [{ ...said("m"), at }] })],
    ["settled", settled([stored(1, "user", "m"), stored(2, "assistant", "Hello")])],
  );
  assert.equal(state.messages[0].at, at);
});
