// The page's own modules, and the markdown reader that is bundled with them.

import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const own = (name) => import(pathToFileURL(join(ROOT, "src/threadline/web/client/src", name)));

export const sse = await own("sse.js");
export const talk = await own("talk.js");
export const parts = await own("parts.js");
export const entries = await own("entries.js");
export const blocks = await own("blocks.js");
export const list = await own("list.js");
export const route = await own("route.js");
export const format = await own("format.js");
export const completion = await own("completion.js");
export const highlight = await own("highlight.js");
export const backoff = await own("backoff.js");

const { Marked } = await import(pathToFileURL(join(ROOT, "build/web/node_modules/marked/lib/marked.esm.js")));
const marked = new Marked({ gfm: true, breaks: true });
export const lex = (text) => marked.lexer(text);

// Numbers that look random and are the same in every run.
export function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}
