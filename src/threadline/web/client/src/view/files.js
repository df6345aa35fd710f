// The files that go with a message.

import { fileSize } from "../format.js";
import { isPicture } from "../uploads.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function Files({ attachments }) {
  if (!attachments?.length) return null;
  return html`<ul class="files" aria-label="Attachments">${attachments.map(
    (one, at) => html`<li key=${at}><${FileLink} file=${one} /></li>`,
  )}</ul>`;
}

// A file whose content the server does not have has no id, and can't be fetched.
function FileLink({ file: { id, name, mime, size } }) {
  const href = id ? `/api/attachments/${encodeURIComponent(id)}` : undefined;
  const picture = href && isPicture(mime) && html`<img src=${href} alt="" width="40" height="40" loading="lazy" />`;
  const words = html`${picture || html`<${Icon} name="file" />`}
    <span class="file-name">${name || "File"}</span>
    ${size !== null && html`<span class="file-size">${fileSize(size)}</span>`}`;
  if (!href) return html`<span class="file">${words}</span>`;
  return html`<a class="file" href=${href} download=${name || "file"}>${words}</a>`;
}
