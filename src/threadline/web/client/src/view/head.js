// Above the talk: what it is called, what it cost, and what can be done with it.

import { useState } from "preact/hooks";
import { money, shortCount } from "../format.js";
import { set } from "../store.js";
import { command } from "../talking.js";
import { html } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { askToErase, labelOf, NameField } from "./row.js";

function Usage({ usage }) {
  const tokens = usage.input_tokens + usage.output_tokens;
  if (!tokens) return null;
  const cost = money(usage);
  const whole = [
    `${usage.input_tokens.toLocaleString()} tokens read`,
    `${usage.output_tokens.toLocaleString()} written`,
    usage.cache_read_tokens ? `${usage.cache_read_tokens.toLocaleString()} from the cache` : null,
    usage.reasoning_tokens ? `${usage.reasoning_tokens.toLocaleString()} for thinking` : null,
    usage.model,
  ];
  return html`<span class="usage" title=${whole.filter(Boolean).join(", ")}>
    ${shortCount(tokens)} tokens${cost && html`<span class="cost">${cost}</span>`}
  </span>`;
}

const openDrawer = () => set({ isDrawerOpen: true });

function Title({ row, onRename }) {
  if (!row) return html`<h1 class="title hidden">${labelOf(row)}</h1>`;
  return html`<h1 class="title">
    <button type="button" class="title-button" title="Rename" onClick=${onRename}>${labelOf(row)}</button>
  </h1>`;
}

export function Head({ talk, isRunning }) {
  const [isNaming, setNaming] = useState(false);
  const row = talk?.conversation;
  const canUndo = Boolean(row) && talk.session === null && !isRunning && talk.messages.length > 0;
  return html`<header class="head">
    <${IconButton} icon="menu" class="phone-only" label="Show the conversations" aria-controls="side" onClick=${openDrawer} />
    ${
      isNaming && row
        ? html`<${NameField} row=${row} onDone=${() => setNaming(false)} />`
        : html`<${Title} row=${row} onRename=${() => setNaming(true)} />`
    }
    <span class="space"></span>
    ${talk && html`<${Usage} usage=${talk.usage} />`}
    ${
      row &&
      talk.session === null &&
      html`<span class="head-tools">
      <${IconButton} icon="undo" label="Undo the last exchange" disabled=${!canUndo} onClick=${() => command("/undo")} />
      <${IconButton} icon="redo" label="Redo" disabled=${!talk.canRedo || isRunning} onClick=${() => command("/redo")} />
    </span>`
    }
    ${row && html`<${More} row=${row} onRename=${() => setNaming(true)} />`}
  </header>`;
}

function More({ row, onRename }) {
  const hide = () => document.getElementById("more").hidePopover();
  return html`<${IconButton} icon="more" label="More" popovertarget="more" />
    <div id="more" class="more" popover>
      <button type="button" onClick=${() => {
        hide();
        onRename();
      }}><${Icon} name="pencil" /> Rename</button>
      <button type="button" onClick=${() => {
        hide();
        askToErase(row);
      }}><${Icon} name="bin" /> Delete</button>
    </div>`;
}
