// Files beside the text that is being written.

import { useState } from "preact/hooks";
import { freshId } from "../api.js";
import { fileSize } from "../format.js";
import { upload } from "../uploads.js";
import { html } from "./html.js";
import { Icon, IconButton } from "./icons.js";

// {files, ready: [Attachment], isBusy, failed, add(files), drop(key), replace(attachments)}
export function useUploads(limits) {
  const [files, setFiles] = useState([]);
  const change = (key, patch) => setFiles((now) => now.map((one) => (one.key === key ? { ...one, ...patch } : one)));

  function add(chosen) {
    const room = Math.max(0, limits.attachments - files.length);
    const fresh = chosen
      .slice(0, room)
      .map((file) => ({ key: freshId(), name: file.name || "pasted", size: file.size, state: "sending", preview: null, file }));
    setFiles((now) => [...now, ...fresh]);
    for (const one of fresh) {
      upload(one.file, limits).then(
        ({ attachment, preview }) => change(one.key, { state: "ready", attachment, preview }),
        (error) => change(one.key, { state: "failed", problem: error.message }),
      );
    }
  }

  return {
    files,
    ready: files.filter((one) => one.state === "ready").map((one) => one.attachment),
    isBusy: files.some((one) => one.state === "sending"),
    failed: files.filter((one) => one.state === "failed").length,
    add,
    drop: (key) => setFiles((now) => now.filter((one) => one.key !== key)),
    replace: (attachments) =>
      setFiles(
        attachments.map((one) => ({
          key: one.id,
          name: one.name,
          size: one.size,
          state: "ready",
          attachment: one,
          preview: null,
        })),
      ),
  };
}

export function Chips({ uploads, onDrop }) {
  if (!uploads.files.length) return null;
  return html`<ul class="files" aria-label="Files to send">${uploads.files.map(
    (one) => html`<li key=${one.key} class=${`file ${one.state}`}>
      ${one.preview ? html`<img src=${one.preview} alt="" width="40" height="40" />` : html`<${Icon} name="file" />`}
      <span class="file-name">${one.name}</span>
      <span class="file-size">${one.state === "failed" ? one.problem : fileSize(one.size)}</span>
      <${IconButton} icon="close" label=${`Remove ${one.name}`} onClick=${() => {
        onDrop();
        uploads.drop(one.key);
      }} />
    </li>`,
  )}</ul>`;
}
