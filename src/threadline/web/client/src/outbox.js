// Messages on their way to the server: one after the other in each conversation, each under one name until it is taken in.

import { call, conversationPath, Refused } from "./api.js";
import { delayAfter, pause } from "./backoff.js";
import { keepUnsent, unsent } from "./kept.js";

const waiting = new Map();
const running = new Set();
let told = () => {};

// `listener(conversation, id, state, problem)` hears how it goes: "sending", "retrying", "accepted", "failed".
export function onProgress(listener) {
  told = listener;
}

export function put(conversation, message) {
  waiting.set(conversation, [...(waiting.get(conversation) ?? []), message]);
  keep();
  pump(conversation);
}

// What was not taken in yet; after a reload as well.
export function unsentOf(conversation) {
  return waiting.get(conversation) ?? [];
}

// Begins again with what an earlier visit of this tab has left.
export function resumeUnsent() {
  for (const [conversation, messages] of Object.entries(unsent())) {
    waiting.set(conversation, messages);
    pump(conversation);
  }
}

export function withdraw(conversation, id) {
  const rest = unsentOf(conversation).filter((one) => one.id !== id);
  if (rest.length) waiting.set(conversation, rest);
  else waiting.delete(conversation);
  keep();
}

export function withdrawAll() {
  waiting.clear();
  keep();
}

function keep() {
  keepUnsent(Object.fromEntries(waiting));
}

async function pump(conversation) {
  if (running.has(conversation)) return;
  running.add(conversation);
  try {
    for (let next = unsentOf(conversation)[0]; next; next = unsentOf(conversation)[0]) {
      if (!(await deliver(conversation, next))) return;
    }
  } finally {
    running.delete(conversation);
  }
}

const isOurs = (conversation, id) => unsentOf(conversation).some((one) => one.id === id);

// Whether the next one may follow.
async function deliver(conversation, message) {
  for (let failures = 1; isOurs(conversation, message.id); failures++) {
    try {
      const { verdict } = await call("POST", conversationPath(conversation, "/messages"), bodyOf(message));
      withdraw(conversation, message.id);
      if (verdict === "refused") told(conversation, message.id, "failed", "It was not taken in.");
      else told(conversation, message.id, "accepted", null);
      return true;
    } catch (error) {
      if (isSignedOut(error)) return false;
      if (isGivenUp(error)) {
        withdraw(conversation, message.id);
        told(conversation, message.id, "failed", error.message);
        return true;
      }
      told(conversation, message.id, "retrying", null);
      await pause(delayAfter(failures));
    }
  }
  return true;
}

// Whoever is signed out may come back: what they wrote is kept until then.
const isSignedOut = (error) => error instanceof Refused && error.status === 401;

// A fault of the server and "too many" pass; any other no stays a no.
function isGivenUp(error) {
  return error instanceof Refused && error.status < 500 && error.status !== 429;
}

function bodyOf({ id, text, attachments, insteadOf }) {
  return { id, text, attachments: (attachments ?? []).map((one) => one.id), instead_of: insteadOf ?? null };
}
