// Files on their way into a message.

import { call } from "./api.js";
import { fileSize } from "./format.js";

const PREVIEW = /^image\/(png|jpeg|gif|webp|avif)$/;
const PREVIEW_BYTES = 3_000_000;

// Stores a file on the server. Gives {attachment, preview}; raises with a sentence that says why not.
export async function upload(file, limits) {
  if (file.size > limits.attachment_bytes) throw new Error(`This file is larger than ${fileSize(limits.attachment_bytes)}.`);
  const url = await asUrl(file);
  const content = url.slice(url.indexOf(",") + 1);
  const attachment = await call("POST", "/api/attachments", {
    name: file.name || "pasted",
    mime: file.type || "application/octet-stream",
    content,
  });
  return { attachment, preview: PREVIEW.test(file.type) && file.size <= PREVIEW_BYTES ? url : null };
}

function asUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error("This file can't be read."));
    reader.readAsDataURL(file);
  });
}

export const isPicture = (mime) => PREVIEW.test(mime);
