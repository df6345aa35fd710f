// The signs of the page, drawn on a grid of 20.

import { html } from "./html.js";

const PATHS = {
  search: "M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12Zm4.5-1.5L17 17",
  menu: "M3 6h14M3 10h14M3 14h9",
  send: "M10 16V4.5M5 9l5-5 5 5",
  clip: "M15.5 9.5 10 15a3.5 3.5 0 0 1-5-5l6-6a2.4 2.4 0 0 1 3.4 3.4l-5.9 5.9a1.2 1.2 0 0 1-1.7-1.7l5-5",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  pencil: "M4 16l.8-3.4L13.2 4.2a1.6 1.6 0 0 1 2.6 2.6L7.4 15.2 4 16Z",
  bin: "M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  fork: "M6 3v14M6 12.5c0-4 8-2.5 8-8.5M11.5 6.5 14 4l2.5 2.5",
  again: "M15.5 6.5A6.5 6.5 0 1 0 16.5 10M16 3v4h-4",
  undo: "M4 8h8a4 4 0 0 1 0 8H8M7 4.5 3.5 8 7 11.5",
  redo: "M16 8H8a4 4 0 0 0 0 8h4M13 4.5 16.5 8 13 11.5",
  sun: "M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM10 2v2M10 16v2M2 10h2M16 10h2M4.3 4.3l1.4 1.4M14.3 14.3l1.4 1.4M4.3 15.7l1.4-1.4M14.3 5.7l1.4-1.4",
  moon: "M16 12.5A6.8 6.8 0 0 1 7.5 4 6.8 6.8 0 1 0 16 12.5Z",
  auto: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14Zm0 0v14M10 6.5h4.6M10 10h5.8M10 13.5h4.6",
  more: "M5 9.4v1.2M10 9.4v1.2M15 9.4v1.2",
  close: "M5 5l10 10M15 5 5 15",
  chevron: "M8 5l5 5-5 5",
  down: "M10 4v11.5M5 11l5 5 5-5",
  file: "M5 3h6l4 4v10H5zM11 3v4h4",
  keys: "M3 6h14v9H3zM6 9h.01M9 9h.01M12 9h.01M14.5 9h.01M6.5 12h7",
  leave: "M8 4H4v12h4M12.5 6.5 16 10l-3.5 3.5M16 10H8",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

// A button that is a sign alone. `label` is its name, shown on hover and read aloud.
export function IconButton({ icon, label, class: extra = "", ...rest }) {
  return html`<button type="button" class=${`icon-button ${extra}`} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} />
  </button>`;
}
