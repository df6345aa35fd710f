// Dialogs of our own. The browser keeps the focus inside, and Escape closes.

import { useLayoutEffect, useRef } from "preact/hooks";
import { set } from "../store.js";
import { html } from "./html.js";

const close = () => set({ dialog: null });

const LEAVING = "To come back, you need a link: `threadline web link` shows it on the machine where Threadline runs.";

export const SHORTCUTS = [
  ["Enter", "Send"],
  ["Shift Enter", "A new line"],
  ["/", "Commands, at the beginning of a message"],
  ["↑", "Edit your last message, when the field is empty"],
  ["Esc", "Stop the answer; close what is open"],
  ["Ctrl K", "Search"],
  ["Ctrl Shift O", "A new conversation"],
  ["Alt ↑ / Alt ↓", "The conversation above or below"],
  ["?", "This list"],
];

export function Dialog({ dialog }) {
  if (dialog === null) return null;
  if (dialog.kind === "shortcuts") return html`<${Shortcuts} />`;
  if (dialog.kind === "leave") {
    return html`<${Confirm} title="Sign out?" text=${LEAVING} word="Sign out" onConfirm=${dialog.confirm} />`;
  }
  const text = `“${dialog.name}” and all that was said in it are gone for good.`;
  return html`<${Confirm} title="Delete this conversation?" text=${text} word="Delete" onConfirm=${dialog.confirm} />`;
}

function Frame({ title, children }) {
  const box = useRef(null);
  // With the drawing, not after it: nothing that is typed meanwhile goes astray. Closing gives the focus back.
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog class="dialog" ref=${box} aria-labelledby="dialog-title" onCancel=${(event) => {
    event.preventDefault();
    close();
  }}
    onClick=${(event) => event.target === box.current && close()}>
    <div class="dialog-body"><h2 id="dialog-title">${title}</h2>${children}</div>
  </dialog>`;
}

function Confirm({ title, text, word, onConfirm }) {
  return html`<${Frame} title=${title}>
    <p>${text.split("`").map((piece, at) => (at % 2 ? html`<code>${piece}</code>` : piece))}</p>
    <div class="buttons end">
      <button type="button" class="plain" onClick=${close}>Cancel</button>
      <button type="button" class="danger" onClick=${() => {
        close();
        onConfirm();
      }}>${word}</button>
    </div>
  <//>`;
}

function Keys({ keys }) {
  const isChoice = (key) => key === "/" && keys !== "/";
  return keys.split(" ").map((key) => (isChoice(key) ? " or " : html`<kbd>${key}</kbd> `));
}

function Shortcuts() {
  return html`<${Frame} title="Keyboard">
    <dl class="shortcuts">${SHORTCUTS.map(
      ([keys, does]) => html`<div key=${keys}><dt><${Keys} keys=${keys} /></dt><dd>${does}</dd></div>`,
    )}</dl>
    <div class="buttons end"><button type="button" class="plain" onClick=${close}>Close</button></div>
  <//>`;
}
