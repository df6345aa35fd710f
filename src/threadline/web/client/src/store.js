// The one state of the page. Whoever changes it sets parts of it; what is drawn follows once per frame.

import { newList } from "./list.js";

let state = {
  // null until the server was asked who reads here.
  me: null,
  // {message} once the server has said that it does not know us.
  signedOut: null,
  list: newList(),
  talk: null,
  // The message to show when its conversation is there.
  goal: null,
  connection: "connecting",
  search: { query: "", hits: null, problem: null },
  isDrawerOpen: false,
  dialog: null,
  editing: null,
  toast: null,
  theme: "auto",
  // Counts up whenever the log should move to its end although the reader was elsewhere.
  toEnd: 0,
};
const listeners = new Set();
// The frame and the timer that will draw next; null where nothing has changed.
let planned = null;

export function get() {
  return state;
}

export function set(patch) {
  state = { ...state, ...patch };
  // A tab may get no frames: hidden, or hidden before the frame came. It must not grow old in the meantime.
  planned ??= [requestAnimationFrame(tell), setTimeout(tell, 250)];
}

function tell() {
  cancelAnimationFrame(planned[0]);
  clearTimeout(planned[1]);
  planned = null;
  for (const listener of listeners) listener(state);
}

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Changes the open conversation, if it is still the one that is meant.
export function changeTalk(id, change) {
  if (state.talk?.id === id) set({ talk: change(state.talk) });
}
