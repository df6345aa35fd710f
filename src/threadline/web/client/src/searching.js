// Search over all conversations: as one types, and never an old answer over a newer question.

import { call, query } from "./api.js";
import { get, set } from "./store.js";

const PATIENCE = 160;
let timer = null;
let running = null;

export function searchFor(text) {
  clearTimeout(timer);
  running?.abort();
  const isEmpty = text.trim() === "";
  set({ search: { ...get().search, query: text, problem: null, ...(isEmpty ? { hits: null } : {}) } });
  if (!isEmpty) timer = setTimeout(() => ask(text), PATIENCE);
}

async function ask(text) {
  running = new AbortController();
  try {
    const { hits } = await call("GET", `/api/search${query({ q: text, limit: 20 })}`, undefined, { signal: running.signal });
    if (get().search.query === text) set({ search: { query: text, hits, problem: null } });
  } catch (error) {
    if (error.name !== "AbortError") set({ search: { query: text, hits: [], problem: error.message } });
  }
}
