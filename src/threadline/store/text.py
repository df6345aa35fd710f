"""Text for search and lists: tokens, the query language, snippets and previews. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import msgspec

MAX_INDEXED_CHARS = 262_144
MAX_TOKEN_CHARS = 64
MAX_QUERY_TERMS = 32
# Scripts that are written without spaces, one token a character.
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_TOKEN = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+")
_CJK_TOKEN = re.compile(rf"[{_CJK}]")
_PIECE = re.compile(r'(?P<not>-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')


class Document(msgspec.Struct, frozen=True):
    """The index entry of one message: its number, its tokens in order, and its filter tokens."""

    number: int
    tokens: tuple[str, ...]
    scope: tuple[str, ...]


class Term(msgspec.Struct, frozen=True):
    """A run of tokens that stand side by side; with `prefix` the last is only the beginning of a word."""

    tokens: tuple[str, ...]
    prefix: bool = False


ScopeClause: TypeAlias = tuple[str, ...]


class Query(msgspec.Struct, frozen=True):
    """All of `required`, none of `excluded`, and of each clause of `scope` at least one filter token."""

    required: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()
    scope: tuple[ScopeClause, ...] = ()


def fold_text(text: str) -> str:
    """Return the form in which words are compared: no case, no accents, compatibility forms made one."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in folded if not unicodedata.combining(c)))


def tokenise(text: str) -> tuple[str, ...]:
    """Return the tokens of `text` in order. Long tokens are cut; text beyond the indexed length is ignored."""
    folded = fold_text(text[:MAX_INDEXED_CHARS])
    return tuple([token[:MAX_TOKEN_CHARS] for token in _pattern(folded).findall(folded)])


def locate_tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield tokens with the range of the original text that each stands for."""
    if text.isascii():
        for token, start in _located_tokens(text):
            yield token, start, start + len(token)
        return
    for match in re.finditer(r"\S+", text):
        yield from _located_tokens_in_word(match.group(), match.start())


def parse_query(text: str) -> Query:
    """Return the query that a person typed: words, `"phrases"`, `-not`, `pre*`. All else counts as plain words."""
    required: list[Term] = []
    excluded: list[Term] = []
    for piece in _PIECE.finditer(text.replace("\x00", " ")):
        term = _term(piece)
        if term is not None:
            (excluded if piece["not"] else required).append(term)
    if not required:
        # A query of only exclusions would match nearly everything: its words are searched as plain words.
        required, excluded = excluded, []
    return Query(tuple(required[:MAX_QUERY_TERMS]), tuple(excluded[:MAX_QUERY_TERMS]))


def _term(piece: re.Match[str]) -> Term | None:
    phrase = piece["phrase"]
    raw = phrase if phrase is not None else piece["word"]
    tokens = tokenise(raw)[:MAX_QUERY_TERMS]
    if not tokens:
        return None
    return Term(tokens, prefix=phrase is None and raw.endswith("*"))


def _pattern(folded: str) -> re.Pattern[str]:
    return _ASCII_WORD if folded.isascii() else _TOKEN


def _located_tokens(text: str) -> Iterator[tuple[str, int]]:
    folded = fold_text(text)
    for match in _pattern(folded).finditer(folded):
        yield match.group()[:MAX_TOKEN_CHARS], match.start()


def _located_tokens_in_word(word: str, offset: int) -> Iterator[tuple[str, int, int]]:
    """Yield tokens with their ranges. Folding can change lengths, so a word that is not plain is folded piece by piece."""
    if word.isascii():
        for token, start in _located_tokens(word):
            yield token, offset + start, offset + start + len(token)
        return
    pieces: list[tuple[str, int]] = []
    for index, character in enumerate(word):
        pieces.extend((folded, index) for folded in fold_text(character))
    joined = "".join(folded for folded, _ in pieces)
    for match in _TOKEN.finditer(joined):
        first, last = pieces[match.start()][1], pieces[match.end() - 1][1]
        yield match.group()[:MAX_TOKEN_CHARS], offset + first, offset + last + 1


def is_cjk(token: str) -> bool:
    """Return whether a token is a character of a script without spaces."""
    return _CJK_TOKEN.fullmatch(token) is not None


OPEN, CLOSE = "[[", "]]"
_WIDTH = 160
_LEAD = 40
_MAX_SCANNED = 262_144


def make_snippet(text: str, query: Query) -> str:
    """Return a part of `text` around the first match on one line, with the matching words between `[[` and `]]`."""
    text = text[:_MAX_SCANNED]
    marks = _fast_match_ranges(text, query.required) or _match_ranges(text, query.required)
    start = max(0, marks[0][0] - _LEAD) if marks else 0
    end = min(len(text), start + _WIDTH)
    out, position = [], start
    for lo, hi in marks:
        if lo >= end:
            break
        out += [text[position:lo], OPEN, text[lo:hi], CLOSE]
        position = hi
    out.append(text[position : max(end, position)])
    body = _on_one_line("".join(out))
    return f"{'…' if start else ''}{body}{'…' if max(end, position) < len(text) else ''}"


def _on_one_line(text: str) -> str:
    """Return the same words with one space between them."""
    # Of all white space only the plain space is printable; most text has no other, and no double spaces.
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(text.split())


def _fast_match_ranges(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """Return the ranges to highlight, if folding keeps every character in its place, as it nearly always does; else none."""
    folded = fold_text(text)
    if len(folded) != len(text):
        return []
    # No match begins before the first letters of a query word, and plain letters are found faster than the pattern.
    starts = [start for term in terms if (start := folded.find(term.tokens[0])) >= 0]
    pattern = _terms_pattern(terms)
    first = pattern.search(folded, min(starts)) if starts else None
    if first is None:
        return []
    return [match.span() for match in pattern.finditer(folded, first.start(), first.start() + _WIDTH)]


@lru_cache(maxsize=256)
def _terms_pattern(terms: tuple[Term, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_term_pattern(term) for term in terms))


def _term_pattern(term: Term) -> str:
    first = re.escape(term.tokens[0])
    # The letters come first, then the look-behind: a pattern that begins with letters skips to them.
    out = first if is_cjk(term.tokens[0]) else rf"{first}(?<![^\W_]{first})"
    for before, token in pairwise(term.tokens):
        out += r"[\W_]*" if is_cjk(before) or is_cjk(token) else r"[\W_]+"
        out += re.escape(token)
    if term.prefix:
        return out + r"[^\W_]*"
    return out if is_cjk(term.tokens[-1]) else out + r"(?![^\W_])"


def _match_ranges(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """Return the ranges to highlight, in order, not overlapping, around the first place where a term matches."""
    firsts = {term.tokens[0] for term in terms if not (term.prefix and len(term.tokens) == 1)}
    prefixes = tuple(term.tokens[0] for term in terms if term.prefix and len(term.tokens) == 1)
    recent: list[tuple[str, int, int]] = []
    marks: list[tuple[int, int]] = []
    need = max((len(term.tokens) for term in terms), default=0)
    for located in locate_tokens(text):
        if marks and located[1] > marks[0][0] + _WIDTH:
            break
        recent = [*recent[1 - need :], located] if need > 1 else [located]
        if need == 1 and located[0] not in firsts and not (prefixes and located[0].startswith(prefixes)):
            continue
        for term in terms:
            if (ending := _range_ending_here(recent, term)) is not None and (not marks or ending[0] >= marks[-1][1]):
                marks.append(ending)
                break
    return marks


def _range_ending_here(recent: list[tuple[str, int, int]], term: Term) -> tuple[int, int] | None:
    length = len(term.tokens)
    if len(recent) < length:
        return None
    tail = recent[-length:]
    for (token, _, _), expected in zip(tail[:-1], term.tokens[:-1], strict=True):
        if token != expected:
            return None
    last, expected = tail[-1][0], term.tokens[-1]
    if last != expected and not (term.prefix and last.startswith(expected)):
        return None
    return tail[0][1], tail[-1][2]


_MAX_PREVIEW_CHARS = 80
_MAX_PREVIEW_SOURCE_CHARS = 800
# The text, as far as it was read: never with half of an escape at its end.
_TEXT = r'"{name}"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{{4}}|\\[^u])*)'
_IN_MESSAGE = re.compile("|".join(_TEXT.format(name=name) for name in ("content", "text")))
_IN_EVENT = re.compile(_TEXT.format(name="text"))


def preview_of_message(beginning: str) -> str:
    """Return the first words of a message in chat-completions form; empty where it begins with none."""
    return _preview_of_match(_IN_MESSAGE.search(beginning))


def preview_of_event(beginning: str) -> str:
    """Return the first words of an event that came in."""
    return _preview_of_match(_IN_EVENT.search(beginning))


def _preview_of_match(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    escaped = match[match.lastindex or 1]
    return preview(json.loads(f'"{escaped}"', strict=False))


def preview(text: str) -> str:
    """Return the beginning of a text as one line."""
    # Half surrogates, and a pair that was cut in two, can't be displayed.
    line = " ".join(text[:_MAX_PREVIEW_SOURCE_CHARS].encode("utf-8", "ignore").decode().split())
    return line if len(line) <= _MAX_PREVIEW_CHARS else f"{line[: _MAX_PREVIEW_CHARS - 1].rstrip()}…"
