"""The floors: what the bare driver does with comparable rows, no layer above it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg

from threadline.store.engine.postgres.connection import SCHEMA
from threadline.store.engine.postgres.transaction import match_expression as postgres_match
from threadline.store.engine.sqlite.writer import match_expression as sqlite_match
from threadline.store.text import parse_query

_TABLE = "CREATE TABLE raw (id INTEGER PRIMARY KEY, session TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL)"
_PG_TABLE = (
    "CREATE TABLE IF NOT EXISTS raw (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " session TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL)"
)
_INDEX = "CREATE UNIQUE INDEX IF NOT EXISTS raw_by_key ON raw(session, key)"
_WORDS = "CREATE VIRTUAL TABLE raw_words USING fts5(text, content='', contentless_delete=1)"
_WORDS_FOLLOW = (
    "CREATE TRIGGER raw_indexed AFTER INSERT ON raw BEGIN"
    " INSERT INTO raw_words (rowid, text) VALUES (new.id, new.body ->> 'content'); END"
)
_SESSIONS = "CREATE TABLE raw_sessions (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE, touched BIGINT NOT NULL)"


class SqliteFloor:
    """apsw, one connection, write-ahead log, `synchronous=FULL`, one commit an append."""

    def __init__(self, path: Path, bodies: Sequence[str]) -> None:
        path.unlink(missing_ok=True)
        self._connection = apsw.Connection(str(path))
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._connection.execute(_TABLE)
        self._connection.execute(_INDEX)
        self._bodies = bodies
        self._appended = 0

    def append(self, count: int) -> int:
        """`count` rows, each in a transaction of its own."""
        execute = self._connection.execute
        bodies, start = self._bodies, self._appended
        for number in range(start, start + count):
            row = (f"session-{number % 64}", f"key:{number}", bodies[number % len(bodies)])
            execute("INSERT INTO raw (session, key, body) VALUES (?, ?, ?)", row)
        self._appended += count
        return count

    def index_words(self) -> None:
        """From now on every append puts its text into a full-text index too, in the same transaction."""
        self._connection.execute(_WORDS)
        self._connection.execute(_WORDS_FOLLOW)

    def fill(self) -> None:
        """All bodies as the rows of one session, in one transaction; before anything is appended."""
        rows = [("all", f"key:{n}", body) for n, body in enumerate(self._bodies)]
        with self._connection:
            self._connection.executemany("INSERT INTO raw (session, key, body) VALUES (?, ?, ?)", rows)

    def load(self, limit: int | None = None) -> list[Any]:
        """Select the last `limit` of the rows that `fill` made by their range of the primary key, and parse them."""
        query = "SELECT body FROM raw WHERE id BETWEEN 1 AND ? ORDER BY id DESC LIMIT ?"
        count = len(self._bodies)
        rows: list[Any] = self._connection.execute(query, (count, limit or count)).fetchall()
        return [msgspec.json.decode(body) for (body,) in reversed(rows)]

    def fill_sessions(self, count: int) -> None:
        """Insert so many rows of sessions, in one transaction."""
        with self._connection:
            self._connection.execute(_SESSIONS)
            rows = ((n, f"address-{n}", 0) for n in range(count))
            self._connection.executemany("INSERT INTO raw_sessions VALUES (?, ?, ?)", rows)

    def resolve(self, number: int) -> None:
        """Look one of those sessions up by its address and write the time into it, in one transaction."""
        execute = self._connection.execute
        with self._connection:
            found = execute("SELECT id FROM raw_sessions WHERE address = ?", (f"address-{number}",)).fetchall()
            execute("UPDATE raw_sessions SET touched = ? WHERE id = ?", (time.time_ns(), *found[0]))

    def close(self) -> None:
        """Releases the connection."""
        self._connection.close()


class PostgresFloor:
    """psycopg, one connection a thread, one commit an append."""

    def __init__(self, url: str, bodies: Sequence[str], connections: int = 1) -> None:
        self._connections = [psycopg.connect(url, autocommit=True) for _ in range(connections)]
        self._connections[0].execute(_PG_TABLE)
        self._connections[0].execute(_INDEX)
        self._bodies = bodies
        self._appended = 0

    def append(self, count: int) -> int:
        """`count` rows, shared out among the connections, each in a transaction of its own."""
        each = count // len(self._connections)
        start = self._appended
        threads = [
            threading.Thread(
                target=self._append_some, args=(connection, range(start + n * each, start + (n + 1) * each))
            )
            for n, connection in enumerate(self._connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._appended += each * len(threads)
        return each * len(threads)

    def fill(self) -> None:
        """All bodies as the rows of one session, in one transaction; before anything is appended."""
        rows = [("all", f"key:{n}", body) for n, body in enumerate(self._bodies)]
        with self._connections[0].transaction(), self._connections[0].cursor() as cursor:
            cursor.executemany("INSERT INTO raw (session, key, body) VALUES (%s, %s, %s)", rows)

    def load(self, limit: int | None = None) -> list[Any]:
        """Select the last `limit` of the rows that `fill` made by their range of the primary key, and parse them."""
        query = "SELECT body FROM raw WHERE id BETWEEN 1 AND %s ORDER BY id DESC LIMIT %s"
        rows = self._connections[0].execute(query, (len(self._bodies), limit)).fetchall()
        return [msgspec.json.decode(body) for (body,) in reversed(rows)]

    def fill_sessions(self, count: int) -> None:
        """Insert so many rows of sessions, in one transaction."""
        with self._connections[0].transaction(), self._connections[0].cursor() as cursor:
            cursor.execute(_SESSIONS)
            rows = ((n, f"address-{n}", 0) for n in range(count))
            cursor.executemany("INSERT INTO raw_sessions VALUES (%s, %s, %s)", rows)

    def resolve(self, number: int) -> None:
        """Look one of those sessions up by its address and write the time into it, in one transaction."""
        connection = self._connections[0]
        with connection.transaction():
            query = "SELECT id FROM raw_sessions WHERE address = %s"
            found = connection.execute(query, (f"address-{number}",)).fetchall()
            connection.execute("UPDATE raw_sessions SET touched = %s WHERE id = %s", (time.time_ns(), *found[0]))

    def close(self) -> None:
        """Releases the connections."""
        for connection in self._connections:
            connection.close()

    def _append_some(self, connection: psycopg.Connection[Any], numbers: range) -> None:
        for row in _rows(self._bodies, numbers):
            connection.execute("INSERT INTO raw (session, key, body) VALUES (%s, %s, %s)", row)


class SqliteWords:
    """The store's own full-text index, asked directly."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)

    def search(self, query: str, limit: int) -> list[Any]:
        """The best matches: index row and rank, nothing else."""
        expression = sqlite_match(parse_query(query))
        ranked = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return self._connection.execute(ranked, (expression, limit)).fetchall()

    def close(self) -> None:
        """Releases the connection."""
        self._connection.close()


class PostgresWords:
    """The store's own full-text index, asked directly."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}")

    def search(self, query: str, limit: int) -> list[Any]:
        """The best matches: index row and rank, nothing else."""
        expression = postgres_match(parse_query(query))
        ranked = (
            "SELECT doc, ts_rank(words, q) AS rank FROM documents, CAST(%s AS tsquery) AS q"
            " WHERE words @@ q ORDER BY rank DESC LIMIT %s"
        )
        return self._connection.execute(ranked, (expression, limit)).fetchall()

    def close(self) -> None:
        """Releases the connection."""
        self._connection.close()


def _rows(bodies: Sequence[str], numbers: range) -> Iterator[tuple[str, str, str]]:
    for number in numbers:
        yield f"session-{number % 64}", f"key:{number}", bodies[number % len(bodies)]
