"""A transaction on SQLite, and the words of its full-text index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from threadline.store.database import Row
from threadline.store.queries import load_queries
from threadline.store.tokens import Document, Query, Term

QUERIES = load_queries("sqlite", "?")


class SqliteTx:
    """Runs named queries on one connection, inside a transaction that its owner begins and ends."""

    __slots__ = ("_connection", "_execute", "_execute_many")

    def __init__(self, connection: apsw.Connection) -> None:
        # One cursor for all: each statement is drained before the next begins.
        cursor = connection.cursor()
        self._connection = connection
        self._execute = cursor.execute
        self._execute_many = cursor.executemany

    def find(self, name: str, /, **values: Any) -> Row | None:
        query = QUERIES[name]
        # Drained on purpose: a statement left half-way keeps its locks.
        rows = self._execute(query.text, query.bind(values)).fetchall()
        return rows[0] if rows else None

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        query = QUERIES[name]
        return self._execute(query.text, query.bind(values)).fetchall()

    def run(self, name: str, /, **values: Any) -> int:
        query = QUERIES[name]
        self._execute(query.text, query.bind(values)).fetchall()
        return self._connection.changes()

    def hold(self, name: str, /, **values: Any) -> None:
        """Nobody else writes until the transaction ends."""

    def run_many(self, name: str, rows: Sequence[Row], /) -> None:
        self._execute_many(QUERIES[name].text, rows).fetchall()

    def rows_many(self, name: str, rows: Sequence[Row], /) -> list[Row]:
        return self._execute_many(QUERIES[name].text, rows).fetchall()

    def index_documents(self, documents: Sequence[Document]) -> None:
        numbered = [(document.number,) for document in documents]
        docs = self.rows_many("add_document", numbered)
        self.run_many(
            "add_words",
            [
                (doc, " ".join(document.tokens), " ".join(document.scope))
                for (doc,), document in zip(docs, documents, strict=True)
            ],
        )

    def unindex(self, numbers: Sequence[int]) -> None:
        rows = [(number,) for number in numbers]
        self.run_many("drop_words", rows)
        self.run_many("drop_documents", rows)

    def index_agrees(self, known: Any, tokens: Sequence[str]) -> bool:
        # FTS5 keeps the number of tokens of each column; the words themselves are spread over its segments.
        return isinstance(known, bytes) and _first_varint(known) == len(tokens)

    def match(self, query: Query) -> str:
        return match_expression(query)


def match_expression(query: Query) -> str:
    """A parsed query in FTS5's language. Tokens hold nothing but letters and digits, so quoting them is enough."""
    clauses = ["(scope : ({}))".format(" OR ".join(f'"{token}"' for token in clause)) for clause in query.scope]
    if query.wanted:
        clauses.insert(0, "(body : ({}))".format(" AND ".join(_term(term) for term in query.wanted)))
    expression = " AND ".join(clauses)
    if query.unwanted:
        unwanted = " OR ".join(_term(term) for term in query.unwanted)
        expression = f"({expression}) NOT (body : ({unwanted}))"
    return expression


def _term(term: Term) -> str:
    return '"{}"{}'.format(" ".join(term.tokens), " *" if term.prefix else "")


def _first_varint(raw: bytes) -> int:
    """SQLite's variable-length integer: seven bits a byte, the high bit says that more follow."""
    value = 0
    for byte in raw[:8]:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value
