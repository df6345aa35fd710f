// Light, dark, or as the system has it.

import { keepTheme, theme } from "./kept.js";
import { get, set } from "./store.js";

const ORDER = ["auto", "light", "dark"];

export function applyTheme() {
  set({ theme: theme() });
  show(theme());
}

function show(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function nextTheme() {
  const name = ORDER[(ORDER.indexOf(get().theme) + 1) % ORDER.length];
  keepTheme(name);
  show(name);
  set({ theme: name });
}
