"""Connections to an SQLite file: pragmas, errors and the schema."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from threadline.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from threadline.store.engine.database import unstorable_text_error
from threadline.store.engine.sql import (
    MIN_USABLE_SCHEMA,
    Migration,
    SchemaState,
    migrations,
    parse_schema_state,
    pending,
    require_current,
    schema_mismatch_error,
)

# The kernel's errors for a path that may not be written.
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
APPLICATION_ID = 0x54_4C_44_42
BUSY_MILLISECONDS = 10_000
_WRITER_CACHE_KIB = 32 * 1024
_READER_CACHE_KIB = 8 * 1024


def connect_writer(path: Path, vfs: str | None = None) -> apsw.Connection:
    """Return a connection that may write. A commit on it survives a power cut."""
    with translating_errors(path):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=256)
        _prepare(connection)
        _require_ours(connection, path)
        _enable_wal(connection)
        _set_pragma(connection, "synchronous", 2, ask="FULL")
        _set_pragma(connection, "secure_delete", 1)
        _set_pragma(connection, "foreign_keys", 1)
        _set_pragma(connection, "cache_size", -_WRITER_CACHE_KIB)
        _set_pragma(connection, "journal_size_limit", 64 * 1024 * 1024)
        return connection


def connect_reader(path: Path, vfs: str | None = None) -> apsw.Connection:
    """Return a connection that only reads and never waits for the writer."""
    with translating_errors(path):
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=128)
        _prepare(connection)
        connection.register_fts5_function("match_rank", match_rank)
        _set_pragma(connection, "query_only", 1)
        _set_pragma(connection, "cache_size", -_READER_CACHE_KIB)
        return connection


def match_rank(api: apsw.FTS5ExtensionApi, *_: object) -> float:
    """Return how well a row matches, smaller is better. It counts how often the row has each word, not how rare the word is.

    So SQLite reads nothing but the row's own matches; of equal rows the newest comes first.
    """
    score = 0.0
    for phrase in range(api.phrase_count):
        times = len(api.phrase_column_offsets(phrase, 0))
        score += times / (times + 1.2)
    return -score


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    # Without this guarantee SQLite plans a join anew for each bound value: six times the cost of running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _require_ours(connection: apsw.Connection, path: Path) -> None:
    """Raise for another program's file, before anything is changed in it."""
    # One transaction: a file that another process is creating right now has both or neither.
    connection.execute("BEGIN")
    application = connection.execute("PRAGMA application_id").fetchall()[0][0]
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()[0][0]
    connection.execute("COMMIT")
    if application != APPLICATION_ID and tables:
        raise StoreDamaged(f"{path} is another program's database; choose another file: nothing was changed")


def _enable_wal(connection: apsw.Connection) -> None:
    """Switch the file to write-ahead logging, waiting while another process switches it: SQLite does not wait by itself."""
    deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            return _set_pragma(connection, "journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _set_pragma(connection: apsw.Connection, pragma: str, value: int | str, ask: str | None = None) -> None:
    """Set a pragma and read it back: SQLite silently ignores what it can't do."""
    connection.execute(f"PRAGMA {pragma} = {ask or value}").fetchall()
    rows = connection.execute(f"PRAGMA {pragma}").fetchall()
    if rows[0][0] != value:
        raise StoreUnavailable(
            f"this file system lacks what a durable store needs ({pragma} = {value}, got {rows[0][0]}); "
            "use a local disk, not a network share"
        )


@contextmanager
def translating_errors(path: Path | str) -> Iterator[None]:
    """Raise SQLite's errors as errors of the store, which say what to do."""
    try:
        yield
    except UnicodeEncodeError as cause:
        raise unstorable_text_error() from cause
    except apsw.Error as cause:
        raise to_store_error(cause, path) from cause


def to_store_error(cause: apsw.Error, path: Path | str) -> StoreError:
    """Return the error of the store for an SQLite error."""
    if isinstance(cause, apsw.FullError):
        return StoreFull(f"no room left for {path}; make room and try again: what was acknowledged is kept")
    if isinstance(cause, (apsw.NotADBError, apsw.CorruptError)):
        return StoreDamaged(
            f"{path} is damaged or no Threadline database ({cause}); restore a backup or choose another file"
        )
    if isinstance(cause, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return StoreReadOnly(f"{path} can't be written; check who owns the file and its folder")
    if isinstance(cause, apsw.CantOpenError) and not os.access(Path(path).parent, os.W_OK):
        return StoreReadOnly(f"{path} can't be written; check who owns the file and its folder")
    if isinstance(cause, apsw.CantOpenError):
        return StoreUnavailable(f"{path} can't be opened ({cause}); check that its folder exists and is yours")
    if isinstance(cause, (apsw.BusyError, apsw.LockedError)):
        return StoreUnavailable(f"{path} is held by another program for too long; try again")
    return StoreUnavailable(f"{path}: {cause}; what was acknowledged is kept, try again")


_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


def ensure_schema(connection: apsw.Connection, *, migrate: bool) -> None:
    """Create the schema in a new file; migrate an old one, or refuse it where `migrate` is false."""
    steps = migrations("sqlite")
    state = read_state(connection)
    if state is not None:
        if not pending(steps, state):
            return
        if not migrate:
            require_current(steps, state)
    migrate_schema(connection, steps)


def read_state(connection: apsw.Connection) -> SchemaState | None:
    """Return the version of the schema in the file; `None` for a file that holds nothing of ours."""
    application = connection.execute("PRAGMA application_id").fetchall()[0][0]
    if application != APPLICATION_ID:
        return None
    rows = connection.execute("SELECT name, value FROM meta").fetchall()
    return parse_schema_state({str(name): str(value) for name, value in rows})


def migrate_schema(connection: apsw.Connection, steps: tuple[Migration, ...]) -> tuple[int, int]:
    """Run the missing migrations, all or none; return the version before and after. A concurrent caller finds none missing."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        state = read_state(connection)
        if state is None:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
            connection.execute(_META).fetchall()
            state = SchemaState(0, 0)
        missing = pending(steps, state)
        _run_migrations(connection, missing, state)
        if missing:
            newest = missing[-1].version
            stamp = [("schema_version", str(newest)), ("readable_by", str(MIN_USABLE_SCHEMA))]
            connection.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", stamp).fetchall()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return state.version, missing[-1].version if missing else state.version


def _run_migrations(connection: apsw.Connection, steps: tuple[Migration, ...], state: SchemaState) -> None:
    try:
        for step in steps:
            connection.execute(step.script).fetchall()
    except apsw.SQLError as cause:
        raise schema_mismatch_error(state, cause) from cause
