// What rows of both sides have.

import { copyText } from "../copying.js";
import { clockTime, instant } from "../format.js";
import { set } from "../store.js";
import { fork } from "../talking.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";

export function Time({ at }) {
  if (!at) return null;
  return html`<time datetime=${new Date(instant(at)).toISOString()}>${clockTime(at, Date.now(), navigator.language)}</time>`;
}

async function copy(text) {
  await copyText(text);
  set({ toast: "Copied." });
}

export function CopyButton({ what, text }) {
  return html`<${IconButton} icon="copy" label=${`Copy this ${what}`} onClick=${() => copy(text())} />`;
}

export function ForkButton({ at }) {
  return html`<${IconButton} icon="fork" label="Fork the conversation from here" onClick=${() => fork(at)} />`;
}
