"""A transaction on PostgreSQL, and the search vectors that it writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import psycopg

from threadline.store.engine.database import Row
from threadline.store.engine.sql import PreparedQuery, load_queries
from threadline.store.text import MAX_QUERY_TERMS, Document, Query, Term

# A tsvector keeps at most 255 positions of a lexeme, up to 16,383: parts of this size stay well within both limits.
PART_TOKENS = 4_000
_MAX_POSITIONS = 255
_OVERLAP = MAX_QUERY_TERMS
# Each part repeats all words: beyond this many entries for one message, positions are dropped to save space.
_MAX_LEXEMES = 500_000
# Filter tokens share the vector and begin with a capital letter: words are folded, so none of them does.
_SCOPE_KINDS = frozenset("ACOPRS")
_LEXEME = re.compile(r"'([^']*)'")


def parts_of(document: Document) -> Iterator[str]:
    """Yield a tsvector literal for each part: all words of the message, with positions for those of the part itself.

    So a phrase is found within a part (they overlap), and words are found together wherever in the message they stand.
    """
    everywhere = set(document.tokens)
    scope = [_filter(token) for token in document.scope]
    max_parts = _MAX_LEXEMES // (len(everywhere) or 1)
    for start, end in _stretches(document.tokens, max_parts):
        positions: dict[str, list[str]] = {}
        for position, token in enumerate(document.tokens[start:end], 1):
            places = positions.setdefault(token, [])
            if len(places) < _MAX_POSITIONS:
                places.append(str(position))
        in_part = [f"'{token}':{','.join(places)}" for token, places in positions.items()]
        elsewhere = [f"'{token}'" for token in everywhere - positions.keys()]
        yield " ".join([*in_part, *elsewhere, *scope])


def _stretches(tokens: Sequence[str], max_parts: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part: every position of every word is kept, unless that takes more than `most` parts."""
    start, count = 0, 0
    while True:
        end = min(len(tokens), start + PART_TOKENS)
        if count < max_parts:
            end = start + _fitting(tokens[start:end])
        yield start, end
        if end >= len(tokens):
            return
        start, count = end - _OVERLAP, count + 1


def _fitting(tokens: Sequence[str]) -> int:
    """Return how many of the tokens fit into one part without losing a position of any."""
    counts = Counter(tokens)
    if not counts or counts.most_common(1)[0][1] <= _MAX_POSITIONS:
        return len(tokens)
    counts.clear()
    for position, token in enumerate(tokens):
        counts[token] += 1
        if counts[token] > _MAX_POSITIONS:
            return position
    return len(tokens)


def match_expression(query: Query) -> str:
    """Return a parsed query as a tsquery literal. Tokens hold nothing but letters and digits, so quoting them is enough."""
    clauses = [_term(term) for term in query.required]
    clauses += ["({})".format(" | ".join(map(_filter, clause))) for clause in query.scope]
    clauses += [f"!({_term(term)})" for term in query.excluded]
    return " & ".join(clauses)


def words_of(vector: str) -> set[str]:
    """Return the words of a tsvector's text form, without filter tokens."""
    return {lexeme for lexeme in _LEXEME.findall(vector) if lexeme[:1] not in _SCOPE_KINDS}


def vector_matches(vector: object, tokens: Sequence[str]) -> bool:
    """Return whether a stored vector has exactly these words."""
    return isinstance(vector, str) and words_of(vector) == set(tokens)


def _filter(token: str) -> str:
    return f"'{token[0].upper()}{token[1:]}'"


def _term(term: Term) -> str:
    quoted = [f"'{token}'" for token in term.tokens]
    if term.prefix:
        quoted[-1] += ":*"
    return "({})".format(" <-> ".join(quoted))


QUERIES = load_queries("postgres", "$")


class PostgresTx:
    """Runs named queries on one connection, inside a transaction that its owner begins and ends."""

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def find(self, name: str, /, **values: Any) -> Row | None:
        query = QUERIES[name]
        return cast("Row | None", self._execute(query, query.bind(values)).fetchone())

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        query = QUERIES[name]
        return self._execute(query, query.bind(values)).fetchall()

    def run(self, name: str, /, **values: Any) -> int:
        query = QUERIES[name]
        return self._execute(query, query.bind(values)).rowcount

    def lock_rows(self, name: str, /, **values: Any) -> None:
        self.rows(name, **values)

    def run_many(self, name: str, rows: Sequence[Row], /) -> None:
        if rows:
            self._execute(QUERIES[name], _columns(rows))

    def rows_many(self, name: str, rows: Sequence[Row], /) -> list[Row]:
        return self._execute(QUERIES[name], _columns(rows)).fetchall() if rows else []

    def index_documents(self, documents: Sequence[Document]) -> None:
        rows = [
            (document.number, part, vector) for document in documents for part, vector in enumerate(parts_of(document))
        ]
        self.run_many("add_documents", rows)

    def unindex(self, numbers: Sequence[int]) -> None:
        self.run_many("drop_documents", [(number,) for number in numbers])

    def index_matches(self, stored: Any, tokens: Sequence[str]) -> bool:
        return vector_matches(stored, tokens)

    def match_expression(self, query: Query) -> str:
        return match_expression(query)

    def _execute(self, query: PreparedQuery, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        # Our own named text; values are bound.
        return self._connection.execute(cast("Any", query.text), values)


def _columns(rows: Sequence[Row]) -> list[list[Any] | str]:
    """Return one array for each column: many rows in one statement."""
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> list[Any] | str:
    """Return whole numbers in the server's own notation, which is quicker than the driver's; all else is left to the driver."""
    if all(type(value) is int for value in column):
        return "{" + ",".join(map(str, column)) + "}"
    return list(column)
