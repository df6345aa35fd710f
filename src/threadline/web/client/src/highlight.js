// Colours for code: comments, texts, numbers and the words of the language. It reads no grammar, so it never fails. Pure.

const HASH = new Set(
  "py python sh bash shell zsh yaml yml toml rb ruby r perl dockerfile make makefile ini nix elixir ex".split(" "),
);
const DASHES = new Set("sql postgres postgresql sqlite lua haskell hs".split(" "));
const PLAIN = new Set(["", "text", "txt", "plain", "markdown", "md", "csv", "log", "console", "output", "diff"]);

const WORDS = new Set(
  `and as async await break case catch class const continue def default delete do elif else enum except export extends
    false finally fn for from func function if impl import in insert interface into is lambda let match mut new not null of
    or pass pub raise return select self static struct switch this throw true try type update var void where while with
    yield True False None`.split(/\s+/),
);

const COMMENTS = {
  hash: "#[^\\n]*",
  dashes: "--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)",
  slashes: "//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)",
};
const TEXTS = [
  '"""[\\s\\S]*?(?:"""|$)',
  "'''[\\s\\S]*?(?:'''|$)",
  '"(?:\\\\.|[^"\\\\\\n])*"?',
  "'(?:\\\\.|[^'\\\\\\n])*'?",
  "`(?:\\\\.|[^`\\\\])*`?",
].join("|");
const REST = "\\b\\d[\\w.]*|[A-Za-z_$][\\w$]*";

function family(lang) {
  if (HASH.has(lang)) return "hash";
  return DASHES.has(lang) ? "dashes" : "slashes";
}

// [{kind: ""|"comment"|"text"|"number"|"word"|"call", text}], which joined are the code again.
export function coloured(code, lang) {
  const name = (lang ?? "").toLowerCase();
  if (PLAIN.has(name)) return [{ kind: "", text: code }];
  const pattern = new RegExp(`(${COMMENTS[family(name)]})|(${TEXTS})|(${REST})`, "g");
  const out = [];
  let from = 0;
  for (const found of code.matchAll(pattern)) {
    if (found.index > from) add(out, "", code.slice(from, found.index));
    from = found.index + found[0].length;
    add(out, kindOf(found, code[from], name), found[0]);
  }
  if (from < code.length) add(out, "", code.slice(from));
  return out;
}

function kindOf([whole, comment, text], next, lang) {
  if (comment !== undefined) return "comment";
  if (text !== undefined) return "text";
  if (/^\d/.test(whole)) return "number";
  if (WORDS.has(DASHES.has(lang) ? whole.toLowerCase() : whole)) return "word";
  return next === "(" ? "call" : "";
}

function add(out, kind, text) {
  const last = out.at(-1);
  if (last && last.kind === kind) last.text += text;
  else out.push({ kind, text });
}
