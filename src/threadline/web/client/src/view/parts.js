// What an answer is made of: words, thoughts, tools, files.

import { gist, readableJson } from "../format.js";
import { Files } from "./files.js";
import { html, memo } from "./html.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";

const Thought = memo(
  ({ text, isLast }) => html`<details class="fold thought">
    <summary><${Icon} name="chevron" /><span class=${isLast ? "at-work" : ""}>${isLast ? "Thinking" : "Thoughts"}</span></summary>
    <div class="fold-body thought-text">${text}</div>
  </details>`,
);

function Result({ part: { result, isError } }) {
  return html`<p class="fold-title">${isError ? "Failed with" : "Gave back"}</p>
    <pre tabindex="0">${result || "(nothing)"}</pre>`;
}

const Tool = memo(({ part, isLive }) => {
  const isOpen = isLive && part.result === null;
  return html`<details class="fold tool">
    <summary>
      <${Icon} name="chevron" /><span class=${isOpen ? "tool-name at-work" : "tool-name"}>${part.name}</span>
      <span class="gist">${gist(part.arguments)}</span>
      ${part.isError && html`<span class="failed">failed</span>`}
    </summary>
    <div class="fold-body">
      <p class="fold-title">Called with</p>
      <pre tabindex="0">${readableJson(part.arguments)}</pre>
      ${part.result !== null && html`<${Result} part=${part} />`}
    </div>
  </details>`;
});

export const Part = memo(({ part, isLive, isLast }) => {
  if (part.kind === "text") return html`<${Markdown} text=${part.text} isGrowing=${isLive && isLast} />`;
  if (part.kind === "thought") return html`<${Thought} text=${part.text} isLast=${isLive && isLast} />`;
  if (part.kind === "files") return html`<${Files} attachments=${part.files} />`;
  if (part.kind === "tool") return html`<${Tool} part=${part} isLive=${isLive} />`;
  return html`<p class="removed">This was removed.</p>`;
});
