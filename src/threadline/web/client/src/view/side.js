// The conversations at the side, with what belongs to the whole page below them.

import { useEffect, useRef } from "preact/hooks";
import { byDay } from "../list.js";
import { loadMore, rowKey } from "../listing.js";
import { get, set } from "../store.js";
import { signOut } from "../signing.js";
import { nextTheme } from "../theme.js";
import { html, memo } from "./html.js";
import { IconButton } from "./icons.js";
import { Row } from "./row.js";
import { Hits, SearchField } from "./search.js";

const THEMES = { auto: ["auto", "Theme: as the system has it"], light: ["sun", "Theme: light"], dark: ["moon", "Theme: dark"] };

// Drawn for its own changes alone: not once for each word of an answer.
export const Side = memo(({ me, list, open, search, isOpen, theme }) => {
  const [icon, label] = THEMES[theme];
  const close = useRef(null);
  useEffect(() => {
    if (isOpen) close.current.querySelector("button").focus();
  }, [isOpen]);
  return html`<nav class=${`side${isOpen ? " open" : ""}`} id="side" aria-label="Conversations">
    <div class="side-head" ref=${close}>
      <a class="brand" href="#/"><img src="/static/icon.svg" alt="" width="24" height="24" /> Threadline</a>
      <${IconButton} icon="close" class="phone-only" label="Close the list" onClick=${() => set({ isDrawerOpen: false })} />
    </div>
    <a class="new" href="#/" onClick=${() => set({ isDrawerOpen: false })}>New conversation</a>
    <${SearchField} search=${search} />
    ${search.hits || search.query.trim() ? html`<${Hits} search=${search} />` : html`<${Rows} list=${list} open=${open} />`}
    <div class="side-foot">
      <span class="who" title=${me.role}>${me.name || me.user_id}</span>
      <${IconButton} icon="keys" label="Keyboard shortcuts" onClick=${() => set({ dialog: { kind: "shortcuts" } })} />
      <${IconButton} icon=${icon} label=${label} onClick=${nextTheme} />
      <${IconButton} icon="leave" label="Sign out" onClick=${() => set({ dialog: { kind: "leave", confirm: signOut } })} />
    </div>
  </nav>`;
});

function Failed({ problem }) {
  return html`<p class="quiet pad">${problem} <button type="button" class="link" onClick=${loadMore}>Try again</button></p>`;
}

function Rows({ list, open }) {
  const end = useRef(null);
  const scroller = useRef(null);
  useEffect(() => {
    // What came in and is not drawn yet may have moved the end out of sight.
    const isDrawn = () => list.rows.length === get().list.rows.length;
    const watcher = new IntersectionObserver(([seen]) => seen.isIntersecting && isDrawn() && loadMore(), {
      root: scroller.current,
      rootMargin: "400px",
    });
    watcher.observe(end.current);
    return () => watcher.disconnect();
    // A page that does not fill the side leaves its end in sight: watching anew asks for the next.
  }, [list.rows.length]);
  return html`<div class="rows" ref=${scroller}>
    ${byDay(list.rows, Date.now(), navigator.language).map(
      ({ day, rows }) => html`<section key=${day}>
        <h2 class="day">${day}</h2>
        <ul>${rows.map((row) => html`<${Row} key=${rowKey(row)} row=${row} isOpen=${rowKey(row) === open} />`)}</ul>
      </section>`,
    )}
    ${list.isLoaded && !list.rows.length && html`<p class="quiet pad">What you talk about will stand here.</p>`}
    ${list.problem && html`<${Failed} problem=${list.problem} />`}
    <div ref=${end} class="rows-end"></div>
  </div>`;
}
