"""One tokeniser for both engines, and the language of queries.

Words are folded (case, compatibility forms, accents); every Chinese, Japanese and Korean character is a token of its own, so
that a phrase of characters is a substring search. The engines are handed finished tokens and split nothing again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
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
    """What the index is told of one message: its number, its tokens in order, and the tokens that filters look for."""

    number: int
    tokens: tuple[str, ...]
    scope: tuple[str, ...]


class Term(msgspec.Struct, frozen=True):
    """A run of tokens that stand side by side; with `prefix` the last is only the beginning of a word."""

    tokens: tuple[str, ...]
    prefix: bool = False


ScopeClause: TypeAlias = tuple[str, ...]


class Query(msgspec.Struct, frozen=True):
    """All of `wanted`, none of `unwanted`, and of each clause of `scope` at least one filter token."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()
    scope: tuple[ScopeClause, ...] = ()


def fold(text: str) -> str:
    """The form in which words are compared: no case, no accents, compatibility forms made one."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in folded if not unicodedata.combining(c)))


def tokenise(text: str) -> tuple[str, ...]:
    """The tokens of `text` in order. Long tokens are cut; text beyond the indexed length is passed over."""
    folded = fold(text[:MAX_INDEXED_CHARS])
    return tuple([token[:MAX_TOKEN_CHARS] for token in _pattern(folded).findall(folded)])


def locate(text: str) -> Iterator[tuple[str, int, int]]:
    """Tokens with the range of the original text that each stands for."""
    if text.isascii():
        for token, start in _located(text):
            yield token, start, start + len(token)
        return
    for match in re.finditer(r"\S+", text):
        yield from _located_in_word(match.group(), match.start())


def parse_query(text: str) -> Query:
    """What a person typed: words, `"phrases"`, `-not`, `pre*`. Anything else, or broken syntax, counts as plain words."""
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for piece in _PIECE.finditer(text.replace("\x00", " ")):
        term = _term(piece)
        if term is not None:
            (unwanted if piece["not"] else wanted).append(term)
    if not wanted:
        # Only exclusions would be "everything but": searched as the plain words that they are.
        wanted, unwanted = unwanted, []
    return Query(tuple(wanted[:MAX_QUERY_TERMS]), tuple(unwanted[:MAX_QUERY_TERMS]))


def _term(piece: re.Match[str]) -> Term | None:
    phrase = piece["phrase"]
    raw = phrase if phrase is not None else piece["word"]
    tokens = tokenise(raw)[:MAX_QUERY_TERMS]
    if not tokens:
        return None
    return Term(tokens, prefix=phrase is None and raw.endswith("*"))


def _pattern(folded: str) -> re.Pattern[str]:
    return _ASCII_WORD if folded.isascii() else _TOKEN


def _located(text: str) -> Iterator[tuple[str, int]]:
    folded = fold(text)
    for match in _pattern(folded).finditer(folded):
        yield match.group()[:MAX_TOKEN_CHARS], match.start()


def _located_in_word(word: str, offset: int) -> Iterator[tuple[str, int, int]]:
    """Folding can change lengths, so within a word that is not plain the ranges are found piece by piece."""
    if word.isascii():
        for token, start in _located(word):
            yield token, offset + start, offset + start + len(token)
        return
    pieces: list[tuple[str, int]] = []
    for index, character in enumerate(word):
        pieces.extend((folded, index) for folded in fold(character))
    joined = "".join(folded for folded, _ in pieces)
    for match in _TOKEN.finditer(joined):
        first, last = pieces[match.start()][1], pieces[match.end() - 1][1]
        yield match.group()[:MAX_TOKEN_CHARS], offset + first, offset + last + 1


def is_cjk(token: str) -> bool:
    """Whether a token is a character of a script without spaces."""
    return _CJK_TOKEN.fullmatch(token) is not None
