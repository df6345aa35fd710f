// One conversation in the list: opened, renamed in its place, deleted.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { erase, rename } from "../listing.js";
import { routeOfRow } from "../route.js";
import { set } from "../store.js";
import { html, memo } from "./html.js";
import { IconButton } from "./icons.js";

export const labelOf = (row) => row?.title || row?.label || "New conversation";

export function askToErase(row) {
  set({ dialog: { kind: "erase", name: labelOf(row), confirm: () => erase(row) } });
}

export const Row = memo(({ row, isOpen }) => {
  const [isNaming, setNaming] = useState(false);
  if (isNaming) return html`<li class="row naming"><${NameField} row=${row} onDone=${() => setNaming(false)} /></li>`;
  return html`<li class=${`row${isOpen ? " open" : ""}${row.ended ? " ended" : ""}`}>
    <a href=${routeOfRow(row)} aria-current=${isOpen ? "page" : undefined} title=${labelOf(row)}>
      <span class="row-label">${labelOf(row)}</span>
      ${row.busy && html`<span class="dot" role="img" aria-label="being answered"></span>`}
      ${row.ended && html`<span class="hidden">, ended</span>`}
    </a>
    <span class="row-tools">
      <${IconButton} icon="pencil" label=${`Rename ${labelOf(row)}`} onClick=${() => setNaming(true)} />
      <${IconButton} icon="bin" label=${`Delete ${labelOf(row)}`} onClick=${() => askToErase(row)} />
    </span>
  </li>`;
});

// Enter keeps the name, Escape leaves it as it was, and so does an unchanged one.
export function NameField({ row, onDone }) {
  const field = useRef(null);
  const isOver = useRef(false);
  useLayoutEffect(() => field.current.select(), []);
  function end(isKept) {
    if (isOver.current) return;
    isOver.current = true;
    if (isKept) rename(row, field.current.value);
    onDone();
  }
  function pressed(event) {
    if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
    event.preventDefault();
    end(event.key === "Enter");
  }
  const listening = { onKeyDown: pressed, onBlur: () => end(true) };
  return html`<input class="name-field" ref=${field} type="text" maxlength="200" value=${row.title || row.label}
    aria-label="Name of the conversation" ...${listening} />`;
}
