// An answer's text: blocks of markdown, of which only the growing end is drawn again.

import { useMemo } from "preact/hooks";
import { blockReader, steady } from "../blocks.js";
import { coloured } from "../highlight.js";
import { blockHtml, lex } from "../markdown.js";
import { html, memo } from "./html.js";

const drawPiece = ({ kind, text }) => (kind ? html`<span class=${`c-${kind}`}>${text}</span>` : text);

const Code = memo(({ text, lang, isOpen }) => {
  // Colours wait until the code is complete: they move nothing, and cost nothing while it grows.
  const pieces = isOpen ? [{ kind: "", text }] : coloured(text, lang);
  return html`<div class="code">
    <div class="code-head">
      ${lang && html`<span class="code-name">${lang}</span>`}
      <button type="button" class="copy">Copy</button>
    </div>
    <pre tabindex="0"><code>${pieces.map(drawPiece)}</code></pre>
  </div>`;
});

const Block = memo(({ token, isOpen }) => {
  if (token.type === "code")
    return html`<${Code} text=${token.text} lang=${(token.lang ?? "").split(/\s/)[0]} isOpen=${isOpen} />`;
  return html`<div class="block" dangerouslySetInnerHTML=${{ __html: blockHtml(token) }}></div>`;
});

export const Markdown = memo(({ text, isGrowing }) => {
  const read = useMemo(() => blockReader(lex), []);
  const blocks = read(text, isGrowing ? steady(text) : text);
  return html`<div class="markdown">${blocks.map(
    ({ key, token }, at) => html`<${Block} key=${key} token=${token} isOpen=${isGrowing && at === blocks.length - 1} />`,
  )}</div>`;
});
