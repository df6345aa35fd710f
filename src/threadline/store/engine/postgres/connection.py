"""Connections to PostgreSQL: pools, errors and the schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import ConnectionPool, PoolTimeout

from threadline.errors import StoreDamaged, StoreFull, StoreReadOnly, StoreUnavailable, ThreadlineError
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

SCHEMA = "threadline"
CONNECT_SECONDS = 5
_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        f"search_path={SCHEMA}",
        "synchronous_commit=on",
        # Queries are small and mostly in memory: the defaults would read whole tables, and compile queries that end sooner.
        "random_page_cost=1.1",
        "jit=off",
    )
)
# A process that freezes in the middle of a transaction must release its rows before the time-outs of others.
_POOLED = f"{_OPTIONS} -c idle_in_transaction_session_timeout=5000"
# By default the server plans each search anew, because it can't guess how many hits are requested: a fifth of what a
# search for a rare word takes. Our queries are written for one plan.
_READING = f"{_POOLED} -c plan_cache_mode=force_generic_plan"
# The errors of a statement; text that is not UTF-8 fails before it is sent.
FAILURES = (psycopg.Error, PoolTimeout, UnicodeEncodeError)
# Errors after which a transaction is repeated: another was in the way, and this one left no trace.
RETRYABLE = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)


def connect(url: str) -> psycopg.Connection[Any]:
    """Return one connection outside of any pool, in autocommit mode."""
    with translating_errors():
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, options=_OPTIONS, cursor_factory=psycopg.RawCursor
        )
        _configure(connection)
        return connection


def make_pool(url: str, size: int, *, read_only: bool) -> ConnectionPool[psycopg.Connection[Any]]:
    """Return a pool of connections. Those that only read see one snapshot for the length of a transaction."""

    def configure(connection: psycopg.Connection[Any]) -> None:
        _configure(connection)
        connection.autocommit = True
        if read_only:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
        else:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED

    options = {
        "connect_timeout": CONNECT_SECONDS,
        "options": _READING if read_only else _POOLED,
        "cursor_factory": psycopg.RawCursor,
    }
    return ConnectionPool(
        url, min_size=1, max_size=size, kwargs=options, configure=configure, timeout=CONNECT_SECONDS, open=True
    )


def _configure(connection: psycopg.Connection[Any]) -> None:
    # Whole numbers are always 64 bits, so that one prepared statement serves small and large ones.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.prepare_threshold = 2


@contextmanager
def translating_errors() -> Iterator[None]:
    """Raise PostgreSQL's errors as errors of the store, which say what to do."""
    try:
        yield
    except FAILURES as cause:
        raise to_store_error(cause) from cause


def to_store_error(cause: Exception) -> ThreadlineError:
    """Return the error of the store for a PostgreSQL error."""
    if isinstance(cause, (UnicodeEncodeError, psycopg.DataError)):
        return unstorable_text_error()
    if isinstance(cause, (errors.DiskFull, errors.OutOfMemory)):
        return StoreFull("the PostgreSQL server has no room left; make room and try again")
    if isinstance(cause, (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)):
        return StoreReadOnly(f"PostgreSQL refuses the write ({_first_line(cause)}); check the role's rights")
    if isinstance(cause, (errors.UndefinedTable, errors.UndefinedColumn, errors.DataCorrupted)):
        return StoreDamaged(f"the database is incomplete or damaged ({_first_line(cause)}); restore a backup")
    return StoreUnavailable(
        f"PostgreSQL does not answer ({_first_line(cause)}); what was acknowledged is kept, try again"
    )


def is_connection_lost(cause: Exception) -> bool:
    """Return whether the connection, not the statement, failed."""
    return isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)) and not isinstance(
        cause, (errors.DiskFull, errors.OutOfMemory, *RETRYABLE)
    )


def _first_line(cause: Exception) -> str:
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:200]


# Any number will do, as long as it is always the same: "TLDB".
_LOCK = 0x54_4C_44_42
_META = f"CREATE TABLE {SCHEMA}.meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"


def ensure_schema(connection: psycopg.Connection[Any], *, migrate: bool) -> None:
    """Create the schema in an empty database; migrate an old one, or refuse it where `migrate` is false."""
    steps = migrations("postgres")
    state = read_state(connection)
    if not migrate:
        require_current(steps, state or SchemaState(0, 0))
    elif state is None or pending(steps, state):
        migrate_schema(connection, steps)


def read_state(connection: psycopg.Connection[Any]) -> SchemaState | None:
    """Return the version of the schema in the database; `None` where it has none of ours."""
    row = connection.execute("SELECT to_regclass($1)", [f"{SCHEMA}.meta"]).fetchone()
    if row is None or row[0] is None:
        return None
    return parse_schema_state(
        dict(connection.execute(cast("Any", f"SELECT name, value FROM {SCHEMA}.meta")).fetchall())
    )


def migrate_schema(connection: psycopg.Connection[Any], steps: tuple[Migration, ...]) -> tuple[int, int]:
    """Run the missing migrations, all or none; return the version before and after. A concurrent caller finds none missing."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock($1)", [_LOCK])
        state = read_state(connection)
        if state is None:
            connection.execute(cast("Any", f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            connection.execute(cast("Any", _META))
            state = SchemaState(0, 0)
        missing = pending(steps, state)
        _run_migrations(connection, missing, state)
        if missing:
            _stamp(connection, missing[-1].version)
    return state.version, missing[-1].version if missing else state.version


def _run_migrations(connection: psycopg.Connection[Any], steps: tuple[Migration, ...], state: SchemaState) -> None:
    try:
        for step in steps:
            _run_script(connection, step.script)
    except errors.InsufficientPrivilege:
        raise
    except psycopg.ProgrammingError as cause:
        raise schema_mismatch_error(state, cause) from cause


def _run_script(connection: psycopg.Connection[Any], script: str) -> None:
    """Run several statements at once: without values, the server takes them as they are."""
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(cast("Any", script))


def _stamp(connection: psycopg.Connection[Any], version: int) -> None:
    for name, value in (("schema_version", version), ("readable_by", MIN_USABLE_SCHEMA)):
        connection.execute(
            cast(
                "Any",
                f"INSERT INTO {SCHEMA}.meta (name, value) VALUES ($1, $2) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            ),
            [name, str(value)],
        )
