"""Snippets are cut from the original text, never from the index."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from threadline.store.tokens import Query, Term, fold, is_cjk, locate

OPEN, CLOSE = "[[", "]]"
_WIDTH = 160
_LEAD = 40
_MAX_SCANNED = 262_144


def make_snippet(text: str, query: Query) -> str:
    """A stretch of `text` around the first match on one line, with the found words between `[[` and `]]`."""
    text = text[:_MAX_SCANNED]
    marks = _quick_marks(text, query.wanted) or _marks(text, query.wanted)
    start = max(0, marks[0][0] - _LEAD) if marks else 0
    end = min(len(text), start + _WIDTH)
    out, place = [], start
    for lo, hi in marks:
        if lo >= end:
            break
        out += [text[place:lo], OPEN, text[lo:hi], CLOSE]
        place = hi
    out.append(text[place : max(end, place)])
    body = _on_one_line("".join(out))
    return f"{'…' if start else ''}{body}{'…' if max(end, place) < len(text) else ''}"


def _on_one_line(text: str) -> str:
    """The same words with one space between them."""
    # Of all white space only the plain space is printable; most text has no other, and no two in a row.
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(text.split())


def _quick_marks(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """The ranges to highlight, where folding the text keeps every character in its place, which is almost always."""
    folded = fold(text)
    if len(folded) != len(text):
        return []
    # No match begins before the first place where a word of the query stands as letters, and those are found faster.
    starts = [start for term in terms if (start := folded.find(term.tokens[0])) >= 0]
    pattern = _pattern(terms)
    first = pattern.search(folded, min(starts)) if starts else None
    if first is None:
        return []
    return [found.span() for found in pattern.finditer(folded, first.start(), first.start() + _WIDTH)]


@lru_cache(maxsize=256)
def _pattern(terms: tuple[Term, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_term_pattern(term) for term in terms))


def _term_pattern(term: Term) -> str:
    first = re.escape(term.tokens[0])
    # The letters come first and then the look at what stands before them: a pattern that begins with letters skips to them.
    out = first if is_cjk(term.tokens[0]) else rf"{first}(?<![^\W_]{first})"
    for before, token in pairwise(term.tokens):
        out += r"[\W_]*" if is_cjk(before) or is_cjk(token) else r"[\W_]+"
        out += re.escape(token)
    if term.prefix:
        return out + r"[^\W_]*"
    return out if is_cjk(term.tokens[-1]) else out + r"(?![^\W_])"


def _marks(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """The ranges to highlight, in order, not overlapping, around the first place where a term matches."""
    firsts = {term.tokens[0] for term in terms if not (term.prefix and len(term.tokens) == 1)}
    prefixes = tuple(term.tokens[0] for term in terms if term.prefix and len(term.tokens) == 1)
    recent: list[tuple[str, int, int]] = []
    marks: list[tuple[int, int]] = []
    need = max((len(term.tokens) for term in terms), default=0)
    for located in locate(text):
        if marks and located[1] > marks[0][0] + _WIDTH:
            break
        recent = [*recent[1 - need :], located] if need > 1 else [located]
        if need == 1 and located[0] not in firsts and not (prefixes and located[0].startswith(prefixes)):
            continue
        for term in terms:
            if (found := _ends_here(recent, term)) is not None and (not marks or found[0] >= marks[-1][1]):
                marks.append(found)
                break
    return marks


def _ends_here(recent: list[tuple[str, int, int]], term: Term) -> tuple[int, int] | None:
    length = len(term.tokens)
    if len(recent) < length:
        return None
    tail = recent[-length:]
    for (token, _, _), wanted in zip(tail[:-1], term.tokens[:-1], strict=True):
        if token != wanted:
            return None
    last, wanted = tail[-1][0], term.tokens[-1]
    if last != wanted and not (term.prefix and last.startswith(wanted)):
        return None
    return tail[0][1], tail[-1][2]
