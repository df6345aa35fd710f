"""A copy of a PostgreSQL store as an SQLite file: one snapshot, read row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import psycopg

from threadline.store.database import Progress, Row
from threadline.store.sqlite.backup import build_copy

_ROWS_A_STEP = 2_000


def copy_database(connection: psycopg.Connection[Any], target: Path, progress: Progress) -> None:
    """Writes everything that one snapshot shows; the search index of the copy is made anew where it is opened."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection.transaction():

        def rows(table: str, columns: Sequence[str]) -> Iterator[Row]:
            names = ", ".join(columns)
            with psycopg.ServerCursor(connection, f"copy_{table}") as cursor:
                cursor.itersize = _ROWS_A_STEP
                cursor.execute(cast("Any", f"SELECT {names} FROM {table}"))
                yield from cursor

        def count(table: str) -> int:
            row = connection.execute(cast("Any", f"SELECT COUNT(*) FROM {table}")).fetchone()
            return 0 if row is None else int(row[0])

        def last_pk(table: str) -> int:
            sequence = "CAST(pg_get_serial_sequence($1, 'pk') AS regclass)"
            row = connection.execute(f"SELECT pg_sequence_last_value({sequence})", [table]).fetchone()
            return 0 if row is None or row[0] is None else int(row[0])

        build_copy(target, rows, count, last_pk, progress)
