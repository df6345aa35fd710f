// Shortcuts that work everywhere on the page.

import { neighbour } from "./list.js";
import { openKey, openRow } from "./listing.js";
import { get, set } from "./store.js";
import { isBusy } from "./talk.js";
import { command } from "./talking.js";

const isTyping = (element) =>
  element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

function focusSearch() {
  if (matchMedia("(max-width: 760px)").matches) set({ isDrawerOpen: true });
  // The drawer must be drawn before its field can be reached.
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("search")?.select()));
}

function newConversation() {
  location.hash = "#/";
  requestAnimationFrame(() => document.getElementById("composer")?.focus());
}

function step(by) {
  const { list, talk } = get();
  openRow(neighbour(list.rows, openKey(talk), by));
}

function escape() {
  const { isDrawerOpen, talk } = get();
  if (isDrawerOpen) return set({ isDrawerOpen: false });
  if (talk && talk.session === null && isBusy(talk)) command("/stop");
}

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    const { me, dialog } = get();
    if (event.defaultPrevented || event.isComposing || !me || dialog) return;
    const does = shortcut(event);
    if (!does) return;
    event.preventDefault();
    does();
  });
}

function shortcut(event) {
  const isMain = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (isMain && !event.shiftKey && key === "k") return focusSearch;
  if (isMain && event.shiftKey && key === "o") return newConversation;
  if (event.altKey && !isMain && key === "arrowup") return () => step(-1);
  if (event.altKey && !isMain && key === "arrowdown") return () => step(1);
  if (key === "escape") return escape;
  if (key === "?" && !isMain && !isTyping(event.target)) return () => set({ dialog: { kind: "shortcuts" } });
  return null;
}
