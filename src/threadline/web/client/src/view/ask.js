// A question to somebody: may this be done? The whole call is shown; nobody agrees to what they can't see.

import { readableJson } from "../format.js";
import { html } from "./html.js";
import { Inline } from "./inline.js";
import { Buttons } from "./notices.js";

export function AskCard({ ask }) {
  return html`<section class="ask" aria-labelledby="ask-title">
    <h2 id="ask-title">May I use <code>${ask.tool}</code>?</h2>
    ${ask.reason && html`<p><${Inline} text=${ask.reason} /></p>`}
    <pre tabindex="0">${readableJson(ask.arguments)}</pre>
    ${ask.may_answer && html`<${Buttons} buttons=${ask.buttons} />`}
    ${!ask.may_answer && html`<p class="quiet">Somebody with another role must answer this.</p>`}
  </section>`;
}
