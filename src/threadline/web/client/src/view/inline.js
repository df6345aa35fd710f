// A sentence of the server's: plain text in which `what to type` stands out.

import { html } from "./html.js";

export function Inline({ text }) {
  return text.split(/(`[^`\n]+`)/).map((piece) => (/^`[^`]+`$/.test(piece) ? html`<code>${piece.slice(1, -1)}</code>` : piece));
}
