// The state of one conversation, and what each event of the server makes of it. Pure: nothing here waits or looks at a page.
//
// Events may come twice or late. Messages are known by `ref`, notices by `id`, a running turn by (turn_id, attempt, upto),
// so what was applied already changes nothing.

import { foldEvents } from "./parts.js";

export const EMPTY_USAGE = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  reasoning_tokens: 0,
  cost_micros: 0,
  cost_status: "unknown",
  model: null,
};

// A conversation before anything is known of it. `state`: "new" (nothing stored yet), "loading", "ready", "missing" or "failed".
export function newTalk(id, { session = null, state = "loading" } = {}) {
  return {
    id,
    session,
    state,
    conversation: null,
    messages: [],
    hasEarlier: false,
    live: null,
    ask: null,
    waiting: [],
    notices: [],
    usage: EMPTY_USAGE,
    canRedo: false,
    pending: [],
    // What the running turn was drawn as; the stored answer takes that place, so that nothing is drawn anew.
    drawnAs: {},
    // Something is missing between what is shown and what came: the whole must be asked for again.
    isTorn: false,
  };
}

const APPLY = {
  snapshot: applySnapshot,
  live: applyLive,
  settled: applySettled,
  messages: (talk, { messages }) => covered({ ...talk, messages: withNew(talk.messages, messages) }),
  state: (talk, event) => covered({ ...talk, ...standing(talk, event) }),
  notice: (talk, notice) => ({ ...talk, notices: withNotice(talk.notices, notice) }),
};

// The conversation after `event`. Unknown types change nothing.
export function applyEvent(talk, type, event) {
  const apply = APPLY[type];
  return apply ? apply(talk, event) : talk;
}

function applySnapshot(talk, snapshot) {
  return covered({
    ...talk,
    state: "ready",
    isTorn: false,
    conversation: snapshot.conversation,
    messages: withEarlier(talk, snapshot),
    hasEarlier: keepsEarlier(talk, snapshot) ? talk.hasEarlier : snapshot.has_earlier,
    live: snapshot.live ? begin(snapshot.live) : null,
    ask: snapshot.ask ?? null,
    waiting: snapshot.waiting ?? [],
    notices: snapshot.notices ?? [],
    usage: snapshot.usage ?? EMPTY_USAGE,
    canRedo: Boolean(snapshot.can_redo),
    pending: talk.pending.filter((one) => one.state !== "accepted"),
  });
}

// Earlier pages that the reader has opened stay, where the snapshot goes on from them without a gap.
function keepsEarlier(talk, snapshot) {
  const first = snapshot.messages[0]?.ref;
  return first !== undefined && talk.messages.findIndex((one) => one.ref === first) > 0;
}

function withEarlier(talk, snapshot) {
  if (!keepsEarlier(talk, snapshot)) return snapshot.messages;
  const first = snapshot.messages[0].ref;
  return [
    ...talk.messages.slice(
      0,
      talk.messages.findIndex((one) => one.ref === first),
    ),
    ...snapshot.messages,
  ];
}

function begin({ turn_id, attempt, upto, said, events }) {
  return { turn_id, attempt, upto, said: said ?? [], parts: foldEvents([], events ?? []) };
}

function applyLive(talk, event) {
  const live = talk.live;
  const isSame = live !== null && live.turn_id === event.turn_id && live.attempt === event.attempt;
  if (isSame && event.upto <= live.upto && event.upto > 0) return seen(talk, event.said);
  if (!isSame || event.first === 0) {
    const next = begin(event);
    if (event.first > 0) return { ...talk, isTorn: true };
    return covered({ ...talk, live: { ...next, said: event.said?.length ? event.said : isSame ? live.said : [] } });
  }
  if (event.first !== live.upto) return { ...talk, isTorn: true };
  const said = event.said?.length ? event.said : live.said;
  return covered({ ...talk, live: { ...live, upto: event.upto, said, parts: foldEvents(live.parts, event.events) } });
}

function seen(talk, said) {
  return said?.length && talk.live.said.length !== said.length ? covered({ ...talk, live: { ...talk.live, said } }) : talk;
}

// The stored messages take the place of the running turn in one step.
function applySettled(talk, event) {
  const isShown = talk.live !== null && talk.live.turn_id === event.turn_id;
  const known = new Set(talk.messages.map((one) => one.ref));
  const answer = event.messages.find((one) => !known.has(one.ref) && one.role !== "user");
  const drawnAs = isShown && answer ? { ...talk.drawnAs, [answer.ref]: event.turn_id } : talk.drawnAs;
  return covered({
    ...talk,
    ...standing(talk, event),
    drawnAs,
    messages: withNew(talk.messages, isShown ? saidWhen(event.messages, talk.live.said) : event.messages),
    // What was undone can't come back once something else was said.
    canRedo: event.can_redo ?? (talk.canRedo && event.messages.length === 0),
    live: isShown ? null : talk.live,
    pending: talk.pending.filter((one) => one.state !== "accepted"),
  });
}

// A message stands where it was said: what was told while it was answered comes behind it, as it did before.
function saidWhen(messages, said) {
  const times = said.map((one) => one.at);
  return messages.map((one) => (one.role === "user" && times.length ? { ...one, at: times.shift() } : one));
}

function standing(talk, event) {
  return {
    conversation: event.conversation ?? talk.conversation,
    waiting: event.waiting ?? talk.waiting,
    ask: event.ask === undefined ? talk.ask : event.ask,
    usage: event.usage ?? talk.usage,
    canRedo: event.can_redo === undefined ? talk.canRedo : event.can_redo,
  };
}

function withNew(messages, more) {
  const known = new Set(messages.map((one) => one.ref));
  const fresh = more.filter((one) => !known.has(one.ref));
  return fresh.length ? [...messages, ...fresh] : messages;
}

function withNotice(notices, notice) {
  const at = notices.findIndex((one) => one.id === notice.id);
  return at < 0 ? [...notices, notice] : notices.map((one, place) => (place === at ? notice : one));
}

// Puts an earlier page before what is shown.
export function addEarlier(talk, page) {
  const known = new Set(talk.messages.map((one) => one.ref));
  const fresh = page.messages.filter((one) => !known.has(one.ref));
  return { ...talk, messages: [...fresh, ...talk.messages], hasEarlier: page.has_earlier && fresh.length > 0 };
}

// --- What this tab has said and the server has not shown yet ---

export function addPending(talk, message) {
  const after = talk.messages.at(-1)?.ref ?? null;
  return {
    ...talk,
    state: talk.state === "new" ? "ready" : talk.state,
    pending: [...talk.pending, { ...message, after, state: "sending", problem: null }],
  };
}

// `state`: "sending", "retrying" (no connection), "accepted", "failed" (with the sentence that says why).
export function markPending(talk, id, state, problem = null) {
  const pending = talk.pending.map((one) => (one.id === id ? { ...one, state, problem } : one));
  return covered({ ...talk, pending });
}

export function dropPending(talk, id) {
  return { ...talk, pending: talk.pending.filter((one) => one.id !== id) };
}

// Lets go of every message of ours that the server now shows itself: waiting, being answered, or in the transcript.
function covered(talk) {
  if (!talk.pending.length) return talk;
  const shown = new Set([...talk.waiting, ...(talk.live?.said ?? [])].map((one) => one.id));
  const pending = talk.pending.filter((one) => !shown.has(one.id) && !(one.state === "accepted" && isStored(talk, one)));
  return pending.length === talk.pending.length ? talk : { ...talk, pending };
}

function isStored(talk, message) {
  const from = talk.messages.findIndex((one) => one.ref === message.after) + 1;
  return talk.messages.slice(from).some((one) => one.role === "user" && message.text !== "" && one.text.includes(message.text));
}

// Whether something runs or waits here that can be stopped.
export function isBusy(talk) {
  return talk.live !== null || talk.waiting.length > 0 || Boolean(talk.conversation?.busy);
}
