// The page as a whole.

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { openKey } from "../listing.js";
import { get, set, subscribe } from "../store.js";
import { continueHere } from "../talking.js";
import { isBusy } from "../talk.js";
import { Announcer } from "./announcer.js";
import { Composer } from "./composer.js";
import { Dialog } from "./dialogs.js";
import { Head } from "./head.js";
import { html } from "./html.js";
import { Log } from "./log.js";
import { labelOf } from "./row.js";
import { Side } from "./side.js";
import { SignedOut, Welcome } from "./welcome.js";

const LOST = "No connection to Threadline. What you write is kept and sent when it is back.";

export function App() {
  const [state, setState] = useState(get());
  // Before anything is asked: a plain effect runs after the first paint, and an answer that is faster would never be drawn.
  useLayoutEffect(() => subscribe(setState), []);
  useEffect(() => {
    const row = state.talk?.conversation;
    document.title = row ? `${labelOf(row)} · Threadline` : "Threadline";
  }, [state.talk?.conversation]);
  if (state.signedOut) return html`<${SignedOut} message=${state.signedOut.message} />`;
  if (!state.me) return state.connection === "lost" ? html`<${Lost} />` : null;
  return html`<div class="page">
    <a class="skip" href="#main" onClick=${skip}>To the talk</a>
    <${Side}
      me=${state.me}
      list=${state.list}
      open=${openKey(state.talk)}
      search=${state.search}
      isOpen=${state.isDrawerOpen}
      theme=${state.theme}
    />
    ${state.isDrawerOpen && html`<div class="shade" onClick=${() => set({ isDrawerOpen: false })}></div>`}
    <${Main} state=${state} />
    <${Dialog} dialog=${state.dialog} />
    <${Toast} text=${state.toast} />
    <${Announcer} talk=${state.talk} toast=${state.toast} />
  </div>`;
}

// The address belongs to the conversation, so the link moves the focus alone.
function skip(event) {
  event.preventDefault();
  (document.getElementById("composer") ?? document.getElementById("main")).focus();
}

function Lost() {
  return html`<main class="door">
    <section class="card">
      <h1>Threadline can't be reached</h1>
      <p>The page tries again by itself. Is <code>threadline serve</code> running?</p>
    </section>
  </main>`;
}

function Main({ state }) {
  const { me, talk } = state;
  const [isOver, setOver] = useState(false);
  const [dropped, setDropped] = useState(null);
  const id = talk?.id ?? null;
  const isRunning = talk !== null && isBusy(talk);
  const canWrite = talk === null || (talk.session === null && talk.state !== "missing");
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer.files.length) setDropped([...event.dataTransfer.files]);
  };
  const over = (event) => {
    if (!canWrite || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const left = (event) => event.currentTarget.contains(event.relatedTarget) || setOver(false);
  const writing = { id, me, isBusy: isRunning, editing: state.editing, dropped, onTaken: setDropped };
  const dragging = { onDragOver: over, onDragLeave: left, onDrop: drop };
  return html`<main class="main" id="main" tabindex="-1" inert=${state.isDrawerOpen} ...${dragging}>
    <${Head} key=${talk ? `${talk.id} ${talk.session}` : "home"} talk=${talk} isRunning=${isRunning} />
    ${state.connection === "lost" && html`<p class="banner" role="status">${LOST}</p>`}
    <${Middle} state=${state} />
    <div class="foot">
      ${canWrite ? html`<${Composer} key=${id ?? "home"} ...${writing} />` : html`<${Ended} talk=${talk} />`}
    </div>
    ${isOver && html`<div class="drop-here"><p>Drop files to attach them</p></div>`}
  </main>`;
}

function Middle({ state: { me, talk, goal, toEnd, editing } }) {
  if (talk === null) return html`<${Welcome} me=${me} />`;
  if (talk.state === "missing")
    return html`<${Nothing} title="This conversation is not here.">
      It was deleted, or the address is wrong. <a href="#/">Begin a new one</a>
    <//>`;
  if (talk.state === "failed") return html`<${Nothing} title="This can't be shown now.">Load the page again in a moment.<//>`;
  if (talk.state === "loading" && !talk.pending.length) return html`<div class="log-frame" aria-busy="true"></div>`;
  if (isSilent(talk)) return html`<${Welcome} me=${{ ...me, card: null }} />`;
  return html`<${Log} key=${`${talk.id} ${talk.session}`} talk=${talk} goal=${goal} toEnd=${toEnd} editing=${editing} />`;
}

function Nothing({ title, children }) {
  return html`<div class="welcome"><p class="hello">${title}</p><p class="quiet">${children}</p></div>`;
}

function isSilent({ state, messages, notices, pending, waiting, live, ask }) {
  return (
    state === "ready" &&
    live === null &&
    ask === null &&
    [messages, notices, pending, waiting].every((rows) => rows.length === 0)
  );
}

function Ended({ talk }) {
  if (talk.session === null) return null;
  return html`<div class="ended-bar">
    <span>This conversation has ended.</span>
    <button type="button" class="strong" onClick=${continueHere}>Continue here</button>
  </div>`;
}

function Toast({ text }) {
  useEffect(() => {
    if (!text) return undefined;
    const timer = setTimeout(() => set({ toast: null }), 4000);
    return () => clearTimeout(timer);
  }, [text]);
  return text ? html`<p class="toast" aria-hidden="true">${text}</p>` : null;
}
