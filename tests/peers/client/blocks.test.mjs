import assert from "node:assert/strict";
import test from "node:test";
import { blocks, highlight, lex, numbers } from "./sources.mjs";

const TEXT = `Intro with **bold** words.

# Title

Setext
======

- one
- two

  inside two
- three

1. first
2. second

| a | b |
|---|--:|
| 1 | 2 |
| 3 | 4 |

\`\`\`python
def f():
    # - not a list

    return "x"
\`\`\`

> quoted
> more

    indented code

<div>
raw
</div>

Last *words* and a [link](https://example.com).

\`\`\`
never closed

still code
`;

const raws = (tokens) =>
  tokens.filter((token) => token.type !== "space" && token.type !== "def").map((token) => [token.type, token.raw.trimEnd()]);

test("a growing text has at every moment the blocks that it has when read as a whole", () => {
  const next = numbers(7);
  for (let run = 0; run < 20; run++) {
    const read = blocks.blockReader(lex);
    for (let upto = 0; upto < TEXT.length;) {
      upto = Math.min(TEXT.length, upto + 1 + Math.floor(next() * 12));
      const grown = TEXT.slice(0, upto);
      assert.deepEqual(raws(read(grown).map(({ token }) => token)), raws(lex(grown)));
    }
  }
});

test("finished blocks stay the same objects while the end grows", () => {
  const read = blocks.blockReader(lex);
  const before = read("One.\n\nTwo.\n\nThree.\n\nFo");
  const now = read("One.\n\nTwo.\n\nThree.\n\nFour.");
  assert.equal(now[0], before[0]);
  assert.equal(now[1], before[1]);
  assert.deepEqual(
    now.map((one) => one.key),
    [0, 1, 2, 3],
  );
});

test("another text is read from its beginning", () => {
  const read = blocks.blockReader(lex);
  read("One.\n\nTwo.\n\nThree.\n\nFour.");
  assert.deepEqual(raws(read("Other.").map(({ token }) => token)), [["paragraph", "Other."]]);
});

test("a definition at the end reaches links above it", () => {
  const read = blocks.blockReader(lex);
  read("See [it].\n\nTwo.\n\nThree.\n\nFour.");
  const [first] = read("See [it].\n\nTwo.\n\nThree.\n\nFour.\n\n[it]: https://example.com\n");
  assert.ok(first.token.tokens.some((token) => token.type === "link"));
});

for (const [grown, shown] of [
  ["words\n-", "words\n"],
  ["words\n==", "words\n"],
  ["words\n\n1", "words\n\n"],
  ["words\n\n| a | b", "words\n\n"],
  ["words\n\n| a | b |\n|--", "words\n\n"],
  ["| a |\n|---|\n| 1", "| a |\n|---|\n| 1"],
  ["so **bol", "so **bol**"],
  ["so **", "so "],
  ["so *", "so "],
  ["| a |\n|---|\n| 1 |\n", "| a |\n|---|\n| 1 |\n"],
  ["| a |\n|---|\n| 1 |\n|", "| a |\n|---|\n| 1 |\n|"],
  ["| a |", ""],
  ["so `co", "so `co`"],
  ["see [the page](https://exa", "see the page"],
  ["```\na [b](htt", "```\na [b](htt"],
  ["```\na **b", "```\na **b"],
  ["done.", "done."],
]) {
  test(`while it grows, ${JSON.stringify(grown)} is shown as ${JSON.stringify(shown)}`, () => {
    assert.equal(blocks.steady(grown), shown);
  });
}

test("coloured code is the code", () => {
  for (const lang of ["python", "js", "sql", "", "unknown"]) {
    const pieces = highlight.coloured(TEXT, lang);
    assert.equal(pieces.map((piece) => piece.text).join(""), TEXT);
  }
});

test("comments, texts, numbers, words and calls are told apart", () => {
  const kinds = highlight
    .coloured('def f(a): # why\n  return g("x", 12)', "python")
    .filter((piece) => piece.kind)
    .map(({ kind, text }) => [kind, text]);
  assert.deepEqual(kinds, [
    ["word", "def"],
    ["call", "f"],
    ["comment", "# why"],
    ["word", "return"],
    ["call", "g"],
    ["text", '"x"'],
    ["number", "12"],
  ]);
});

// A pattern that looks at each place from each place would not end within the limit of this run.
test("what a stranger writes is looked at once", () => {
  const long = 200_000;
  for (const text of [
    "|-".repeat(long),
    "|-\n".repeat(long),
    "[".repeat(long),
    "`".repeat(long),
    " ".repeat(long) + "x",
    "*".repeat(long),
    "[](".repeat(long),
    "\n".repeat(long) + "|",
  ]) {
    assert.ok(blocks.steady(text).length <= text.length + 2);
  }
});
