// Growing markdown as a row of blocks. While an answer grows, only its end is read again. Pure: the lexer is an argument.

// A list takes in what follows it after a blank line, a paragraph becomes a heading by the line under it: the last two
// blocks may still change, those before them can't.
const OPEN_BLOCKS = 2;

// Gives `read(text, shown)`: the blocks of `shown`, each {key, token}; `shown` is `text`, or what `steady` leaves of it.
// Where `text` is the last one with more behind it, finished blocks are the same objects as before.
export function blockReader(lex) {
  let text = "";
  let drawn = "";
  let done = [];
  let doneLength = 0;
  let last = [];

  return function read(next, shown = next) {
    if (next === text && shown === drawn) return last;
    if (!next.startsWith(text) || hasDefinitions(next)) {
      done = [];
      doneLength = 0;
    }
    text = next;
    drawn = shown;
    const tokens = lex(shown.slice(doneLength));
    const visible = tokens.filter((token) => token.type !== "space" && token.type !== "def");
    const fresh = visible.map((token, at) => ({ key: done.length + at, token }));
    last = [...done, ...fresh];
    settle(tokens, visible, fresh);
    return last;
  };

  function settle(tokens, visible, fresh) {
    const closing = visible.length - OPEN_BLOCKS;
    if (closing <= 0) return;
    const upto = tokens.indexOf(visible[closing]);
    doneLength += tokens.slice(0, upto).reduce((sum, token) => sum + token.raw.length, 0);
    done = [...done, ...fresh.slice(0, closing)];
  }
}

// `[name]: address` at the end changes links above it, so such a text is always read as a whole.
function hasDefinitions(text) {
  return /^ {0,3}\[[^\]\n]+\]:/m.test(text);
}

// What may be shown of a text that still grows. A line of mere signs at its end may become anything (a list, a heading,
// a table): shown too early it would be drawn one way and at once another. No pattern here looks at the text more than once:
// it runs for every frame, on what a stranger may have written.
export function steady(text) {
  const cut = text.lastIndexOf("\n") + 1;
  const line = text.slice(cut);
  if (/^\s*([-=*+_#>~]+|`{1,2}|\d+[.)]?)\s*$/.test(line)) return text.slice(0, cut);
  if (line.startsWith("|")) return text.slice(0, tableEnd(text, cut));
  return isInFence(text) ? text : closed(text.slice(0, cut), line);
}

// Where a text ends that may be shown: behind a row of a table, and before what is not known to be one yet.
function tableEnd(text, cut) {
  let start = cut;
  for (;;) {
    const before = text.lastIndexOf("\n", start - 2) + 1;
    if (start === 0 || text[before] !== "|") return start;
    if (isRuler(text.slice(before, start))) return text.length;
    start = before;
  }
}

const isRuler = (row) => row.includes("-") && /^[|:\s-]+$/.test(row);

function isInFence(text) {
  return (text.match(/^ {0,3}(```|~~~)/gm) ?? []).length % 2 === 1;
}

// Signs that are open in the last line are closed, so that what is bold is bold from its first letter on. Of a link that is
// not complete only its words are shown: its address would take room, and give it back.
function closed(before, line) {
  const link = /!?\[([^[\]]*)\]\([^()\s]*$/.exec(line);
  if (link) return before + line.slice(0, link.index) + link[1];
  const trimmed = line.trimEnd();
  for (const sign of ["`", "**"]) {
    if ((line.split(sign).length - 1) % 2 === 0) continue;
    return before + (trimmed.endsWith(sign) ? trimmed.slice(0, -sign.length) : trimmed + sign);
  }
  return before + (trimmed.endsWith("*") ? trimmed.slice(0, -1) : line);
}
