// What stands where nothing was said yet, and where nobody may read.

import { html } from "./html.js";
import { Inline } from "./inline.js";

export function Welcome({ me }) {
  return html`<div class="welcome">
    <img src="/static/icon.svg" alt="" width="44" height="44" />
    <p class="hello">${me.name && me.user_id !== "owner" ? `Hello, ${me.name}.` : "Hello."}</p>
    <p class="quiet keys-only">Write below and press <kbd>Enter</kbd>. Type <kbd>/</kbd> for commands, <kbd>?</kbd> for keys.</p>
    <p class="quiet touch-only">Write below. Type <kbd>/</kbd> for commands.</p>
    ${me.card && html`<${Card} card=${me.card} />`}
  </div>`;
}

function Card({ card }) {
  return html`<section class="card" aria-labelledby="card-title">
    <h2 id="card-title">${card.title}</h2>
    <p><${Inline} text=${card.text} /></p>
    ${card.steps?.length > 0 && html`<ol>${card.steps.map((step) => html`<li key=${step}><${Inline} text=${step} /></li>`)}</ol>`}
  </section>`;
}

export function SignedOut({ message }) {
  return html`<main class="door">
    <section class="card">
      <img src="/static/icon.svg" alt="" width="44" height="44" />
      <h1>You are not signed in</h1>
      ${message && html`<p>${message}</p>`}
      <p>On the machine where Threadline runs, type</p>
      <pre tabindex="0"><code>threadline web link</code></pre>
      <p>and open the address that it prints. Were you invited? Then ask for a new link.</p>
    </section>
  </main>`;
}
