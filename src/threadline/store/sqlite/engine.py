"""The SQLite database: one writer that commits for many, readers that never wait for it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from threadline.errors import StoreReadOnly, StoreUnavailable
from threadline.store.database import BatchStep, EngineFacts, EngineStep, Progress, ReadStep, Step, WriteStep
from threadline.store.lane import Lane
from threadline.store.migrations import latest_version, migrations
from threadline.store.opened import Opened
from threadline.store.reader_pool import ReaderPool
from threadline.store.sqlite.backup import copy_database
from threadline.store.sqlite.connection import READ_ONLY, connect_reader, connect_writer, translated
from threadline.store.sqlite.schema import ensure_schema, migrate_schema, read_state
from threadline.store.sqlite.transaction import SqliteTx
from threadline.store.sqlite.writer import BetweenBatches, Writer

_ASYNC_READERS = 4
_KEPT_READERS = 8


class SqliteDatabase:
    """A file that any number of processes may share. See `Database` for what it promises."""

    def __init__(self, path: Path, *, location: str, migrate: bool = True, vfs: str | None = None) -> None:
        """Opens the file, made and brought up to date where needed; the folder is made for its owner alone."""
        self.location = location
        self._path = path
        self._vfs = vfs
        self._opened = Opened()
        _make_private(path)
        connection = connect_writer(path, vfs)
        try:
            with translated(path):
                ensure_schema(connection, migrate=migrate)
            self._writer = Writer(connection, path)
        except BaseException:
            connection.close()
            raise
        self._lane = Lane(self._writer.run, name="threadline-sqlite-writer")
        self._readers: list[apsw.Connection] = []
        self._readers_lock = threading.Lock()
        self._reader_pool = ReaderPool(self.perform, max_threads=_ASYNC_READERS, name="threadline-sqlite-reader")

    def perform(self, step: Step) -> Any:
        self._opened.require()
        if isinstance(step, ReadStep):
            with self._reader() as connection:
                return step.operation(SqliteTx(connection), *step.arguments, **step.options)
        if isinstance(step, EngineStep):
            return step.call(self)
        return self._lane.perform(step)

    def perform_async(self, step: Step) -> Awaitable[Any]:
        self._opened.require()
        if isinstance(step, (WriteStep, BatchStep)):
            return self._lane.perform_async(step)
        return self._reader_pool.perform_async(step)

    def describe(self) -> EngineFacts:
        with self._reader() as connection:
            state = read_state(connection)
        return EngineFacts(
            engine="SQLite",
            engine_version=apsw.sqlite_lib_version(),
            location=self.location,
            schema_version=state.version if state else latest_version(),
            size_bytes=_size(self._path),
            journal_bytes=_size(self._path.with_name(self._path.name + "-wal")),
        )

    def verify(self) -> list[str]:
        with self._reader() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)").fetchall()]
        return [] if found == ["ok"] else found

    def backup(self, target: Path, progress: Progress) -> None:
        with self._reader(in_transaction=False) as connection:
            copy_database(connection, target, progress)

    def scrub(self) -> None:
        self._opened.require()
        self._lane.perform(BetweenBatches(scrub_file))

    def migrate(self) -> tuple[int, int]:
        self._opened.require()
        versions: tuple[int, int] = self._lane.perform(
            BetweenBatches(lambda connection: migrate_schema(connection, migrations("sqlite")))
        )
        return versions

    def close(self) -> None:
        if not self._opened.end():
            return
        self._reader_pool.close()
        self._lane.close()
        with self._readers_lock:
            readers, self._readers = self._readers, []
        for connection in readers:
            connection.close()
        self._writer.close()

    @contextmanager
    def _reader(self, *, in_transaction: bool = True) -> Iterator[apsw.Connection]:
        self._opened.require()
        with self._readers_lock:
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = connect_reader(self._path, self._vfs)
        try:
            with translated(self._path):
                if in_transaction:
                    connection.execute("BEGIN")
                yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._readers_lock:
            if not self._opened.closed and len(self._readers) < _KEPT_READERS:
                self._readers.append(connection)
                return
        connection.close()


def _make_private(path: Path) -> None:
    try:
        # One by one: given a path at once, mkdir makes the parents for everyone to read.
        for folder in reversed([folder for folder in path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as cause:
        if cause.errno in READ_ONLY:
            text = f"{path} can't be made; check who owns {path.parent}, or choose another place"
            raise StoreReadOnly(text) from cause
        raise StoreUnavailable(f"{path} can't be made: {cause.strerror}; choose another place") from cause


def scrub_file(connection: apsw.Connection) -> None:
    """Deleted words stay in the index's segments, in free pages and in the journal until all three are rewritten.

    If somebody had the planner's statistics made, they hold samples too. `StoreUnavailable` while somebody reads on in the file
    as it was: then they are still there.
    """
    connection.execute("INSERT INTO words(words) VALUES ('optimize')").fetchall()
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchall():
        connection.execute("ANALYZE").fetchall()
    _empty_journal(connection)
    connection.execute("VACUUM").fetchall()
    _empty_journal(connection)


def _empty_journal(connection: apsw.Connection) -> None:
    ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if is_busy:
        raise StoreUnavailable(
            f"somebody is reading {connection.filename}, so what was removed may still be in the file; "
            "let them finish (a backup, a listing, another program that has it open), then run this again"
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
