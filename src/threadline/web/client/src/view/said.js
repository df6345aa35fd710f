// What people said: stored, being answered, waiting, or on its way.

import { useState } from "preact/hooks";
import { set } from "../store.js";
import { giveUp, sayAgain } from "../talking.js";
import { Files } from "./files.js";
import { html, memo } from "./html.js";
import { IconButton } from "./icons.js";
import { CopyButton, ForkButton, Time } from "./shared.js";

const LONG_LINES = 30;
const LONG_CHARS = 3000;

// A long text that somebody pasted shows its beginning, and the rest on demand.
const SaidText = memo(({ text }) => {
  const [isWhole, setWhole] = useState(false);
  const lines = text.split("\n");
  const isLong = lines.length > LONG_LINES || text.length > LONG_CHARS;
  if (!isLong || isWhole) return html`<p class="said-text">${text}</p>`;
  const beginning = lines.slice(0, LONG_LINES / 2).join("\n");
  return html`<p class="said-text">${beginning.slice(0, LONG_CHARS / 2)}…</p>
    <button type="button" class="link small" onClick=${() => setWhole(true)}>
      Show all ${text.length.toLocaleString()} characters
    </button>`;
});

function EditButton({ message: { ref, text, attachments } }) {
  const edit = () => set({ editing: { ref, text, attachments: attachments ?? [] } });
  return html`<${IconButton} icon="pencil" label="Edit this message and send it again" onClick=${edit} />`;
}

export const UserEntry = memo(({ row, canEdit, isFaded, onRetry }) => {
  const message = row.messages[0];
  return html`<article class=${`entry user${isFaded ? " faded" : ""}`} data-key=${row.key} aria-label="You">
    <div class="said">
      ${message.redacted && html`<p class="removed">This was removed.</p>`}
      ${!message.redacted && message.text && html`<${SaidText} text=${message.text} />`}
      <${Files} attachments=${message.attachments} />
    </div>
    <div class="entry-tools">
      <${Time} at=${row.at} />
      <${CopyButton} what="message" text=${() => message.text} />
      ${canEdit && html`<${EditButton} message=${message} />`}
      ${onRetry && html`<${IconButton} icon="again" label="Answer this" onClick=${onRetry} />`}
      <${ForkButton} at=${row.ref} />
    </div>
  </article>`;
});

// What is not in the transcript yet. `children` are what can be done about it.
export function SaidEntry({ message, note, children }) {
  return html`<article class="entry user" aria-label="You">
    <div class="said">
      ${message.text && html`<${SaidText} text=${message.text} />`}
      <${Files} attachments=${message.attachments} />
    </div>
    <div class=${`entry-tools${note || children ? " shown" : ""}`}>
      ${note && html`<span class="note">${note}</span>`}${children}
    </div>
  </article>`;
}

const NOTES = { sending: "", accepted: "", retrying: "No connection. It is sent as soon as there is one." };

export function PendingEntry({ message }) {
  const isFailed = message.state === "failed";
  const isStuck = isFailed || message.state === "retrying";
  return html`<${SaidEntry} message=${message} note=${isFailed ? message.problem : NOTES[message.state]}>
    ${isFailed && html`<button type="button" class="link" onClick=${() => sayAgain(message)}>Try again</button>`}
    ${isStuck && html`<button type="button" class="link" onClick=${() => giveUp(message.id)}>Discard</button>`}
  <//>`;
}
