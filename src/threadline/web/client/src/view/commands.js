// The commands that fit to what is typed.

import { useLayoutEffect, useRef } from "preact/hooks";
import { bare } from "../completion.js";
import { html } from "./html.js";
import { Inline } from "./inline.js";

export function Commands({ commands, picked, onPick }) {
  const list = useRef(null);
  useLayoutEffect(() => list.current.children[picked]?.scrollIntoView({ block: "nearest" }), [picked, commands]);
  return html`<ul class="commands" id="commands" role="listbox" aria-label="Commands" tabindex="0" ref=${list}>${commands.map(
    (one, at) => html`<li key=${one.name} id=${`command-${at}`} role="option" aria-selected=${String(at === picked)}
      onPointerDown=${(event) => {
        event.preventDefault();
        onPick(one);
      }}>
      <span class="command-name">${one.usage || `/${bare(one)}`}</span>${" "}
      <span class="command-help"><${Inline} text=${one.help} /></span>
    </li>`,
  )}</ul>`;
}
