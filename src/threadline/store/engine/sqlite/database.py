"""The SQLite database: one writer, a pool of readers, and the lock that lets one `serve` use the file."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import apsw
import msgspec

from threadline.errors import AlreadyServed, StoreReadOnly, StoreUnavailable
from threadline.store.engine.database import (
    EngineFacts,
    OpenState,
    Progress,
    Step,
)
from threadline.store.engine.group_commit import GroupCommitQueue, ReaderPool
from threadline.store.engine.sql import latest_version, migrations
from threadline.store.engine.sqlite.backup import copy_database
from threadline.store.engine.sqlite.connection import (
    READ_ONLY,
    connect_reader,
    connect_writer,
    ensure_schema,
    migrate_schema,
    read_state,
    translating_errors,
)
from threadline.store.engine.sqlite.writer import BatchWriter, ConnectionWork, SqliteTx

T = TypeVar("T")

_MAX_BYTES = 1000


class Holder(msgspec.Struct, frozen=True):
    """The gateway that has the lock. `address` is empty until its page answers."""

    process: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.process} at {self.address}" if self.address else self.process


class ServeLock:
    """Held for the length of a `with`. Its holder knows that no other gateway uses the file."""

    def __init__(self, database: Path, process: str) -> None:
        """`process` is how the holder is called in messages to others."""
        self._path = database.with_name(database.name + ".serve")
        self._process = process
        self._file: int | None = None

    @classmethod
    def holder_of(cls, database: Path) -> Holder | None:
        """Return the gateway that serves the file now; `None` if there is none."""
        try:
            opened = os.open(database.with_name(database.name + ".serve"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(opened)
        finally:
            os.close(opened)
        return None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{self._path} can't be written; check who owns the file and its folder") from cause
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            holder = _read(opened)
            os.close(opened)
            raise AlreadyServed(
                f"{self._path.with_suffix('')} is served by {holder} already;"
                " stop that one first, or use another database with --db"
            ) from cause
        self._file = opened
        self.announce("")
        return self

    def announce(self, address: str) -> None:
        """Publish the address of the holder's page, while the lock is held."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{self._process}\n{address}".encode()[:_MAX_BYTES], 0)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # Closing releases the lock; the file stays, so that nobody locks a deleted file.
            os.close(self._file)
            self._file = None


def _read(opened: int) -> Holder:
    process, _, address = os.pread(opened, _MAX_BYTES, 0).decode(errors="replace").partition("\n")
    return Holder(process.strip() or "another gateway", address.strip())


_ASYNC_READERS = 4
_MAX_IDLE_READERS = 8
_READS = ("read", "loose_read")


class SqliteDatabase:
    """A file that any number of processes may share. See `Database` for what it promises."""

    def __init__(self, path: Path, *, location: str, migrate: bool = True, vfs: str | None = None) -> None:
        """Open the file; create or migrate it where needed. Its folder is made for its owner alone."""
        self.location = location
        self._path = path
        self._vfs = vfs
        self._state = OpenState()
        _make_private(path)
        connection = connect_writer(path, vfs)
        try:
            with translating_errors(path):
                ensure_schema(connection, migrate=migrate)
            self._writer = BatchWriter(connection, path)
        except BaseException:
            connection.close()
            raise
        self._commit_queue = GroupCommitQueue(self._writer.run, name="threadline-sqlite-writer")
        self._readers: list[apsw.Connection] = []
        self._readers_lock = threading.Lock()
        self._reader_pool = ReaderPool(self.perform, max_threads=_ASYNC_READERS, name="threadline-sqlite-reader")

    def perform(self, step: Step[T]) -> T:
        self._state.require_open()
        if step.kind in _READS:
            with self._reader() as connection:
                result: T = step.call(SqliteTx(connection), *step.args, **step.options)
                return result
        written: T = self._commit_queue.perform(step)
        return written

    def perform_async(self, step: Step[T]) -> Awaitable[T]:
        self._state.require_open()
        queue = self._reader_pool if step.kind in _READS else self._commit_queue
        return queue.perform_async(step)

    def require_open(self) -> None:
        self._state.require_open()

    def facts(self) -> EngineFacts:
        with self._reader() as connection:
            state = read_state(connection)
        return EngineFacts(
            engine="SQLite",
            engine_version=apsw.sqlite_lib_version(),
            location=self.location,
            schema_version=state.version if state else latest_version(),
            size_bytes=_size(self._path),
            wal_bytes=_size(self._path.with_name(self._path.name + "-wal")),
        )

    def verify(self) -> list[str]:
        with self._reader() as connection:
            findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)").fetchall()]
        return [] if findings == ["ok"] else findings

    def backup(self, target: Path, progress: Progress) -> None:
        with self._reader(in_transaction=False) as connection:
            copy_database(connection, target, progress)

    def rewrite_files(self) -> None:
        self._state.require_open()
        self._commit_queue.perform(ConnectionWork(rewrite_file))

    def migrate(self) -> tuple[int, int]:
        self._state.require_open()
        versions: tuple[int, int] = self._commit_queue.perform(
            ConnectionWork(lambda connection: migrate_schema(connection, migrations("sqlite")))
        )
        return versions

    def close(self) -> None:
        if not self._state.mark_closed():
            return
        self._reader_pool.close()
        self._commit_queue.close()
        with self._readers_lock:
            readers, self._readers = self._readers, []
        for connection in readers:
            connection.close()
        self._writer.close()

    @contextmanager
    def _reader(self, *, in_transaction: bool = True) -> Iterator[apsw.Connection]:
        self._state.require_open()
        with self._readers_lock:
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = connect_reader(self._path, self._vfs)
        try:
            with translating_errors(self._path):
                if in_transaction:
                    connection.execute("BEGIN")
                yield connection
        finally:
            self._return_reader(connection)

    def _return_reader(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._readers_lock:
            if not self._state.closed and len(self._readers) < _MAX_IDLE_READERS:
                self._readers.append(connection)
                return
        connection.close()


def _make_private(path: Path) -> None:
    try:
        # One by one: with `parents=True`, mkdir makes the parents readable for everyone.
        for folder in reversed([folder for folder in path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as cause:
        if cause.errno in READ_ONLY:
            text = f"{path} can't be made; check who owns {path.parent}, or choose another place"
            raise StoreReadOnly(text) from cause
        raise StoreUnavailable(f"{path} can't be made: {cause.strerror}; choose another place") from cause


def rewrite_file(connection: apsw.Connection) -> None:
    """Rewrite the index's segments, the free pages and the WAL, which still hold deleted words.

    The planner's statistics, if there are any, hold samples too. Raise `StoreUnavailable` while another connection reads the old
    state of the file: then deleted words are still there.
    """
    connection.execute("INSERT INTO words(words) VALUES ('optimize')").fetchall()
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchall():
        connection.execute("ANALYZE").fetchall()
    _truncate_wal(connection)
    connection.execute("VACUUM").fetchall()
    _truncate_wal(connection)


def _truncate_wal(connection: apsw.Connection) -> None:
    ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if is_busy:
        raise StoreUnavailable(
            f"another connection reads {connection.filename}, so deleted words may still be in the file; "
            "let it finish (a backup, a listing, another program that has the file open), then run this again"
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
