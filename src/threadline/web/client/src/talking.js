// The open conversation: shown, followed, answered.

import { call, conversationPath, freshId, query } from "./api.js";
import { isCommand } from "./completion.js";
import { refresh, rowChanged, rowGone } from "./listing.js";
import { onProgress, put, unsentOf, withdraw } from "./outbox.js";
import { readRoute, talkRoute } from "./route.js";
import { changeTalk, get, set } from "./store.js";
import { openStream } from "./stream.js";
import { addEarlier, addPending, applyEvent, dropPending, markPending, newTalk } from "./talk.js";

const PAGE = 50;
const LONG_PAGE = 200;
const PATIENCE = 1200;
let stream = null;
let patience = null;
// What waits behind its `#` until the conversation is stored.
const unborn = new Set();

// Shows what the address names.
export function followAddress() {
  const route = readRoute(location.hash);
  const { talk } = get();
  set({ isDrawerOpen: false, editing: null, goal: route.at ?? null });
  if (route.kind !== "talk") {
    set({ talk: null });
    return follow(null);
  }
  if (talk && talk.id === route.id && talk.session === route.session) return route.at ? seek(route.at) : undefined;
  const unsent = unsentOf(route.id).map((one) => ({ ...one, state: "sending", problem: null, after: null }));
  set({ talk: { ...newTalk(route.id, { session: route.session }), pending: unsent } });
  if (route.session) return showEnded(route);
  follow(route.id);
}

// One stream a tab: it follows the open conversation, and the list of all of them.
function follow(conversation) {
  stream?.close();
  let wasLost = false;
  stream = openStream(conversation, {
    event: (type, event) => take(conversation, type, event),
    state(name) {
      if (name === "open" && wasLost) comeBack();
      wasLost = name === "lost";
      clearTimeout(patience);
      // A stream that comes back at once was hardly lost.
      patience = setTimeout(() => set({ connection: name }), wasLost ? PATIENCE : 0);
    },
    missing() {
      // Its first message may still be on the way; then it comes into being with that.
      if (unsentOf(conversation).length) unborn.add(conversation);
      else changeTalk(conversation, (talk) => ({ ...talk, state: "missing" }));
      follow(null);
    },
  });
}

// Much may have changed meanwhile: the list, and who answers here.
function comeBack() {
  refresh();
  call("GET", "/api/me").then(
    (me) => set({ me }),
    () => null,
  );
}

function take(conversation, type, event) {
  if (type === "conversation") return rowChanged(event);
  if (type === "gone") return rowGone(event.id, event.session_id ?? null);
  if (conversation === null) return;
  changeTalk(conversation, (talk) => (talk.session === null ? applyEvent(talk, type, event) : talk));
  const { talk, goal } = get();
  if (talk?.id !== conversation) return;
  if (talk.isTorn) stream.restart();
  // A short answer may be whole before this stream has begun: the snapshot is then the first to name the conversation.
  if ((type === "settled" || type === "snapshot") && event.conversation) rowChanged(event.conversation);
  if (type === "snapshot" && goal) seek(goal);
}

async function showEnded({ id, session, at }) {
  follow(null);
  try {
    const snapshot = await call("GET", conversationPath(id) + query({ session, limit: PAGE }));
    // A session that goes on is shown as the conversation that it is.
    if (!snapshot.conversation.ended) return location.replace(talkRoute(id, { at }));
    changeTalk(id, (talk) => (talk.session === session ? applyEvent(talk, "snapshot", snapshot) : talk));
    if (at) await seek(at);
  } catch (error) {
    changeTalk(id, (talk) => ({ ...talk, state: error.status === 404 ? "missing" : "failed" }));
  }
}

// Puts an earlier page before what is shown. One at a time.
let isReading = false;
export async function loadEarlier(limit = PAGE) {
  const { talk } = get();
  if (!talk?.hasEarlier || isReading) return;
  isReading = true;
  try {
    const before = talk.messages[0].ref;
    const page = await call("GET", conversationPath(talk.id) + query({ session: talk.session, before, limit }));
    changeTalk(talk.id, (now) => (now.messages[0]?.ref === before ? addEarlier(now, page) : now));
  } catch (error) {
    set({ toast: error.message });
    throw error;
  } finally {
    isReading = false;
  }
}

// Reads back until the message is there; the page then shows it.
async function seek(ref) {
  const isThere = () => get().talk?.messages.some((one) => one.ref === ref);
  while (!isThere() && get().talk?.hasEarlier && get().goal === ref) {
    if (isReading) return;
    try {
      await loadEarlier(LONG_PAGE);
    } catch {
      return;
    }
  }
  set({ goal: isThere() ? ref : null });
}

// --- Saying something ---

onProgress((conversation, id, state, problem) => {
  const { talk } = get();
  const message = talk?.pending.find((one) => one.id === id);
  if (state === "accepted" && unborn.delete(conversation) && talk?.id === conversation) follow(conversation);
  if (!message || talk.id !== conversation) return;
  // What was to be taken back is still there.
  if (state === "failed" && message.insteadOf) stream.restart();
  const isOver = state === "accepted" && isCommand(message.text);
  changeTalk(conversation, (now) => (isOver ? dropPending(now, id) : markPending(now, id, state, problem)));
});

// Shows the message at once and sees to it that it arrives. Without an open conversation it begins one.
export function say(text, attachments = [], insteadOf = null) {
  const id = get().talk?.id ?? begin();
  const message = { id: freshId(), text, attachments, insteadOf };
  changeTalk(id, (talk) => addPending(insteadOf ? withoutFrom(talk, insteadOf) : talk, message));
  set({ editing: null, toEnd: get().toEnd + 1 });
  put(id, message);
}

function begin() {
  const id = freshId();
  unborn.add(id);
  set({ talk: newTalk(id, { state: "new" }) });
  history.pushState(null, "", talkRoute(id));
  return id;
}

// What an edited message takes back is gone from sight at once; the server's answer confirms it.
function withoutFrom(talk, ref) {
  const at = talk.messages.findIndex((one) => one.ref === ref);
  return at < 0 ? talk : { ...talk, messages: talk.messages.slice(0, at) };
}

// A command by its button. It is not shown as a message.
export function command(text) {
  const { talk } = get();
  if (talk) put(talk.id, { id: freshId(), text, attachments: [], insteadOf: null });
}

export function giveUp(id) {
  const { talk } = get();
  withdraw(talk.id, id);
  changeTalk(talk.id, (now) => dropPending(now, id));
}

export function sayAgain(message) {
  giveUp(message.id);
  say(message.text, message.attachments, message.insteadOf);
}

export async function press(value) {
  const { talk } = get();
  try {
    await call("POST", conversationPath(talk.id, "/buttons"), { id: freshId(), value });
  } catch (error) {
    set({ toast: error.message });
  }
}

export async function fork(ref) {
  const { talk } = get();
  const id = freshId();
  try {
    rowChanged(
      await call("POST", conversationPath(talk.id, "/fork"), {
        id,
        upto: ref,
        ...(talk.session ? { session: talk.session } : {}),
      }),
    );
    location.hash = talkRoute(id);
    set({ toast: "This is a conversation of its own now." });
  } catch (error) {
    set({ toast: error.message });
  }
}

export function continueHere() {
  const { talk } = get();
  const { id, session } = talk;
  put(id, { id: freshId(), text: `/resume ${session}`, attachments: [], insteadOf: null });
  location.hash = talkRoute(id);
}
