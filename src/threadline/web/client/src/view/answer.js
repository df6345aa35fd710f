// What was answered. A stored answer and a running one are one view: when the one takes the place of the other, nothing is
// drawn anew.

import { spokenText } from "../parts.js";
import { html, memo } from "./html.js";
import { IconButton } from "./icons.js";
import { Part } from "./parts.js";
import { CopyButton, ForkButton, Time } from "./shared.js";

export const AnswerEntry = memo(({ row, isLive, isLast, isReadOnly, isFaded, onRetry }) => {
  const kind = `entry answer${isFaded ? " faded" : ""}${isLast ? " last" : ""}${isLive ? " live" : ""}`;
  const end = row.parts.length - 1;
  return html`<article class=${kind} data-key=${row.key} aria-label="Answer">
    <div class="parts">${row.parts.map(
      (part, at) => html`<${Part} key=${at} part=${part} isLive=${isLive} isLast=${at === end} />`,
    )}</div>
    ${isLive && html`<div class="entry-tools shown"><span class="working">${workOf(row)}</span></div>`}
    ${!isLive && html`<${AnswerTools} row=${row} onRetry=${isLast && !isReadOnly ? onRetry : null} />`}
  </article>`;
});

function AnswerTools({ row, onRetry }) {
  return html`<div class="entry-tools">
    <${CopyButton} what="answer" text=${() => spokenText(row.parts)} />
    ${onRetry && html`<${IconButton} icon="again" label="Answer again" onClick=${onRetry} />`}
    <${ForkButton} at=${row.ref} />
    <${Time} at=${row.messages.at(-1).at} />
  </div>`;
}

function workOf({ parts, isAsking }) {
  if (isAsking) return "Waiting for your word";
  return parts.length ? "Writing" : "Thinking";
}
