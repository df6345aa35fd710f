// From the state of a conversation to the rows that are drawn, top to bottom. Pure.

import { isCommand } from "./completion.js";
import { partsOf } from "./parts.js";
import { instant } from "./format.js";

// Rows: {kind: "user"|"answer"|"notice"|"system", key, ...}. An answer is all that follows a user's words until the next.
// Rows of stored messages are made once per list of messages, so that a running turn costs nothing per stored message.
export function makeEntries() {
  let of = null;
  let rows = [];
  return function entries(talk) {
    if (of === null || of.messages !== talk.messages || of.notices !== talk.notices || of.drawnAs !== talk.drawnAs) {
      const before = new Map(rows.map((row) => [row.key, row]));
      rows = withNotices(storedRows(talk), talk.notices).map((row) => same(before.get(row.key), row));
      of = { messages: talk.messages, notices: talk.notices, drawnAs: talk.drawnAs };
    }
    return rows;
  };
}

// The row as it was, where nothing of it has changed: what is drawn for it then stays untouched.
function same(before, row) {
  if (!before || before.kind !== row.kind) return row;
  if (row.kind === "notice") return before.notice === row.notice ? before : row;
  const isSame = before.messages.length === row.messages.length && row.messages.every((one, at) => one === before.messages[at]);
  return isSame ? before : row;
}

function storedRows(talk) {
  const rows = [];
  for (const message of talk.messages) {
    const last = rows.at(-1);
    if (message.role === "user" || message.role === "system") {
      rows.push({ kind: message.role, key: message.ref, at: message.at, ref: message.ref, messages: [message] });
    } else if (last?.kind === "answer" && !(message.ref in talk.drawnAs)) {
      last.messages.push(message);
      last.ref = message.ref;
    } else {
      const key = talk.drawnAs[message.ref] ?? message.ref;
      rows.push({ kind: "answer", key, at: message.at, ref: message.ref, messages: [message] });
    }
  }
  for (const row of rows) if (row.kind === "answer") row.parts = partsOf(row.messages);
  return rows;
}

// A notice stands where it came in time, and never within an answer.
function withNotices(rows, notices) {
  const waiting = [...notices].sort((a, b) => instant(a.at) - instant(b.at));
  const out = [];
  for (const row of rows) {
    while (row.kind !== "answer" && waiting.length && instant(waiting[0].at) < instant(row.at))
      out.push(noticeRow(waiting.shift()));
    out.push(row);
  }
  return [...out, ...waiting.map(noticeRow)];
}

function noticeRow(notice) {
  return { kind: "notice", key: `notice ${notice.id}`, at: notice.at, notice };
}

// A command that is carried out at once and says nothing itself; `/retry` lets the agent answer.
const isQuick = ({ text }) => isCommand(text) && !/^\s*\/retry\b/i.test(text);
const isSpoken = ({ text }) => !isCommand(text);

// What stands below the stored rows. Commands that are just carried out are not shown: they would flash and be gone.
// `place` is what `/queue drop` calls a waiting message.
export function underway(talk) {
  const { live, ask } = talk;
  const said = live?.said ?? [];
  const isRunning = live !== null && (live.parts.length > 0 || said.length === 0 || !said.every(isQuick));
  const isQueued = isRunning || ask !== null;
  const waiting = talk.waiting.map((message, at) => ({ message, place: at + 1 }));
  const isAwaited = talk.waiting.some((one) => !isQuick(one)) || talk.pending.some(expects);
  return {
    said: said.filter(isSpoken),
    isRunning,
    isQueued,
    waiting: isQueued ? waiting : waiting.filter(({ message }) => isSpoken(message)),
    isExpecting: !isQueued && isAwaited,
  };
}

const expects = (message) => message.state !== "failed" && message.state !== "retrying" && isSpoken(message);
