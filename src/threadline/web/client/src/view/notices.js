// Quiet lines between what is said and answered, and the buttons that may stand under them.

import { useState } from "preact/hooks";
import { press } from "../talking.js";
import { html, memo } from "./html.js";
import { Inline } from "./inline.js";

export const NoticeEntry = memo(
  ({ notice }) => html`<div class="entry notice" data-key=${`notice ${notice.id}`}>
    <p><${Inline} text=${notice.text} /></p>
    <${Buttons} buttons=${notice.buttons} />
  </div>`,
);

export const SystemEntry = memo(
  ({ row }) => html`<div class="entry notice" data-key=${row.key}><p>${row.messages[0].text}</p></div>`,
);

const SETTLING = 4000;

// One press is enough; where nothing came of it, one may press again.
export function Buttons({ buttons }) {
  const [isPressed, setPressed] = useState(false);
  if (!buttons?.length) return null;
  const choose = async (value) => {
    setPressed(true);
    await press(value);
    setTimeout(() => setPressed(false), SETTLING);
  };
  const draw = ({ label, value }, at) => html`<button
    type="button" class=${at === 0 ? "strong" : "plain"} key=${value} disabled=${isPressed} onClick=${() => choose(value)}>
    ${label}
  </button>`;
  return html`<div class="buttons">${buttons.map(draw)}</div>`;
}
