"""A transaction on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg

from threadline.store.database import Row
from threadline.store.postgres import words
from threadline.store.queries import Prepared, load_queries
from threadline.store.tokens import Document, Query

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

    def hold(self, name: str, /, **values: Any) -> None:
        self.rows(name, **values)

    def run_many(self, name: str, rows: Sequence[Row], /) -> None:
        if rows:
            self._execute(QUERIES[name], _columns(rows))

    def rows_many(self, name: str, rows: Sequence[Row], /) -> list[Row]:
        return self._execute(QUERIES[name], _columns(rows)).fetchall() if rows else []

    def index_documents(self, documents: Sequence[Document]) -> None:
        rows = [
            (document.number, part, vector)
            for document in documents
            for part, vector in enumerate(words.parts_of(document))
        ]
        self.run_many("add_documents", rows)

    def unindex(self, numbers: Sequence[int]) -> None:
        self.run_many("drop_documents", [(number,) for number in numbers])

    def index_agrees(self, known: Any, tokens: Sequence[str]) -> bool:
        return words.agrees(known, tokens)

    def match(self, query: Query) -> str:
        return words.match_expression(query)

    def _execute(self, query: Prepared, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        # Our own named text; values are bound.
        return self._connection.execute(cast("Any", query.text), values)


def _columns(rows: Sequence[Row]) -> list[list[Any] | str]:
    """One array a column: many rows in one statement."""
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> list[Any] | str:
    """Whole numbers in the server's own notation, which is quicker than the driver's; all else is the driver's to quote."""
    if all(type(value) is int for value in column):
        return "{" + ",".join(map(str, column)) + "}"
    return list(column)
