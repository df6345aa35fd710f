// Finding what was said.

import { clockTime } from "../format.js";
import { talkRoute } from "../route.js";
import { searchFor } from "../searching.js";
import { get, set } from "../store.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

// The list may not know yet whether the session of a hit has ended: its own address shows it either way.
function routeOfHit(hit) {
  const isCurrent = get().list.rows.some((row) => row.session_id === hit.session_id && !row.ended);
  return talkRoute(hit.conversation, { session: isCurrent ? null : hit.session_id, at: hit.ref });
}

function labelIn(hit) {
  return get().list.rows.find((row) => row.session_id === hit.session_id)?.label || "Without a name";
}

function open(hit) {
  location.hash = routeOfHit(hit);
  set({ isDrawerOpen: false });
}

function pressedInField(event) {
  const { search } = get();
  if (event.key === "Enter" && search.hits?.length) open(search.hits[0]);
  else if (event.key === "ArrowDown") document.querySelector(".hit")?.focus();
  else if (event.key === "Escape" && search.query) searchFor("");
  else return;
  event.preventDefault();
}

export function SearchField({ search }) {
  return html`<div class="search" role="search">
    <${Icon} name="search" />
    <input id="search" type="search" placeholder="Search" aria-label="Search all conversations" autocomplete="off"
      value=${search.query}
      onInput=${(event) => searchFor(event.target.value)} onKeyDown=${pressedInField} />
    <kbd aria-hidden="true">${/Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K"}</kbd>
  </div>`;
}

function pressedInHits(event) {
  const hits = [...event.currentTarget.querySelectorAll(".hit")];
  const at = hits.indexOf(document.activeElement);
  if (event.key === "ArrowDown") hits[Math.min(hits.length - 1, at + 1)]?.focus();
  else if (event.key === "ArrowUp") (at <= 0 ? document.getElementById("search") : hits[at - 1]).focus();
  else if (event.key === "Escape") document.getElementById("search").focus();
  else return;
  event.preventDefault();
}

function drawHit(hit) {
  const at = clockTime(hit.at, Date.now(), navigator.language);
  return html`<li key=${`${hit.session_id} ${hit.ref}`}>
    <a class="hit" href=${routeOfHit(hit)} onClick=${() => set({ isDrawerOpen: false })}>
      <span class="hit-head"><span class="hit-title">${hit.title || labelIn(hit)}</span> <time>${at}</time></span>
      <span class="snippet">${hit.snippet.map(({ text, hit: isHit }) => (isHit ? html`<mark>${text}</mark>` : text))}</span>
    </a>
  </li>`;
}

export function Hits({ search }) {
  if (search.problem) return html`<p class="rows quiet pad">${search.problem}</p>`;
  if (search.hits === null) return html`<div class="rows"></div>`;
  if (!search.hits.length) return html`<p class="rows quiet pad" role="status">Nothing found. Try fewer or other words.</p>`;
  return html`<ul class="rows hits" aria-label="Found" onKeyDown=${pressedInHits}>${search.hits.map(drawHit)}</ul>`;
}
