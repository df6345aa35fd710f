// Markdown from a model, made into HTML that can do nothing. What a model writes is never trusted.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const KEPT_TAGS = /^<\/?(br|sub|sup|kbd|mark|u|s)\s*\/?>$/i;
const LINK = /^(https?:|mailto:)/i;

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML is shown as it was written; a few harmless tags without attributes do what they say.
    html: ({ text }) => (KEPT_TAGS.test(text.trim()) ? text : escaped(text)),
    // A remote picture would tell its server who reads, and when.
    image({ href, text }) {
      const name = escaped(text || "Picture");
      return LINK.test(href) ? `<a href="${escaped(href)}">${name}</a>` : name;
    },
    // The page has one heading above the talk; those of an answer stand right below it, whatever their size.
    heading({ tokens, depth }) {
      return `<h2 class="h${depth}">${this.parser.parseInline(tokens)}</h2>`;
    },
    code({ text, lang }) {
      return codeHtml(text, (lang ?? "").split(/\s/)[0]);
    },
    checkbox: ({ checked }) => `<span role="img" aria-label="${checked ? "done" : "open"}">${checked ? "☑" : "☐"}</span> `,
    table(token) {
      const row = (cells, tag) =>
        `<tr>${cells.map((cell, at) => cellHtml(this.parser, cell, tag, token.align[at])).join("")}</tr>`;
      const head = row(token.header, "th");
      const body = token.rows.map((cells) => row(cells, "td")).join("");
      return `<div class="wide" tabindex="0"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>`;
    },
  },
});

function cellHtml(parser, cell, tag, align) {
  const side = align ? ` align="${align}"` : "";
  const scope = tag === "th" ? ' scope="col"' : "";
  return `<${tag}${side}${scope}>${parser.parseInline(cell.tokens)}</${tag}>`;
}

function codeHtml(text, lang) {
  const name = lang ? `<span class="code-name">${escaped(lang)}</span>` : "";
  const head = `<div class="code-head">${name}<button type="button" class="copy">Copy</button></div>`;
  return `<div class="code">${head}<pre tabindex="0"><code>${escaped(text)}</code></pre></div>`;
}

const RULES = {
  ALLOWED_TAGS: [
    "a",
    "p",
    "br",
    "hr",
    "em",
    "strong",
    "del",
    "s",
    "u",
    "sub",
    "sup",
    "kbd",
    "mark",
    "code",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "div",
    "span",
    "button",
  ],
  ALLOWED_ATTR: ["href", "title", "align", "start", "class", "tabindex", "type", "scope", "role", "aria-label"],
  ALLOWED_URI_REGEXP: LINK,
  // These hold no address; without this line they would be measured as one, and dropped.
  ADD_URI_SAFE_ATTR: ["align", "start", "tabindex", "type", "scope", "aria-label"],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

export function lex(text) {
  return marked.lexer(text);
}

const made = new WeakMap();

// The safe HTML of one block, made once.
export function blockHtml(token) {
  let html = made.get(token);
  if (html === undefined) {
    html = DOMPurify.sanitize(marked.parser([token]), RULES);
    made.set(token, html);
  }
  return html;
}
