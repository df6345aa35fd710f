"""The PostgreSQL database: pools for writing and reading, group commit of appends, and backups."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from threadline.errors import StoreUnavailable, ThreadlineError
from threadline.store.engine.database import EngineFacts, OpenState, Progress, Row, Step
from threadline.store.engine.group_commit import GroupCommitQueue, QueuedStep, ReaderPool, fail_pending
from threadline.store.engine.postgres.connection import (
    FAILURES,
    RETRYABLE,
    SCHEMA,
    connect,
    ensure_schema,
    is_connection_lost,
    make_pool,
    migrate_schema,
    read_state,
    to_store_error,
    translating_errors,
)
from threadline.store.engine.postgres.transaction import PostgresTx
from threadline.store.engine.sql import latest_version, migrations
from threadline.store.engine.sqlite.backup import build_copy

_ROWS_A_STEP = 2_000


def copy_database(connection: psycopg.Connection[Any], target: Path, progress: Progress) -> None:
    """Copy all that one snapshot shows; the search index of the copy is built when the copy is opened."""
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


T = TypeVar("T")
_UNKNOWN_OUTCOME = (
    "the connection was lost during the commit: it is not known whether this was stored; "
    "repeat it with the same idempotency key"
)
_CONNECTIONS = 8
_ATTEMPTS = 12
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename"
_CURRENT_XID = "SELECT pg_current_xact_id()::text"
# Only readers of this database count; an automatic analyze is one.
_OLDER_SNAPSHOTS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_xmin IS NOT NULL AND age(backend_xmin) >= age($1::xid8::xid)"
)
_SNAPSHOT_WAIT_SECONDS = 30.0
_SNAPSHOT_IS_OPEN = (
    "erased words are still in the database's files, because another transaction may still read them: "
    "run this again when it has ended"
)


class PostgresDatabase:
    """A database that any number of machines may share. See `Database` for what it promises."""

    def __init__(self, url: str, *, location: str, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date."""
        self.location = location
        self._url = url
        self._state = OpenState()
        with connect(url) as connection, translating_errors():
            ensure_schema(connection, migrate=migrate)
        self._writers = make_pool(url, _CONNECTIONS, read_only=False)
        self._readers = make_pool(url, _CONNECTIONS, read_only=True)
        self._commit_queue = GroupCommitQueue(self._run_batch, name="threadline-postgres-append")
        self._thread_pool = ReaderPool(self.perform, max_threads=2 * _CONNECTIONS, name="threadline-postgres")

    def perform(self, step: Step[T]) -> T:
        self._state.require_open()
        if step.kind == "batch":
            result: T = self._commit_queue.perform(step)
            return result
        outcome: T = self._transact(
            self._writers if step.kind == "write" else self._readers,
            lambda tx: step.call(tx, *step.args, **step.options),
            # Beginning and ending a transaction are two round trips, as expensive as a search for a rare word.
            is_whole=step.kind != "loose_read",
        )
        return outcome

    def perform_async(self, step: Step[T]) -> Awaitable[T]:
        self._state.require_open()
        queue = self._commit_queue if step.kind == "batch" else self._thread_pool
        return queue.perform_async(step)

    def require_open(self) -> None:
        self._state.require_open()

    def facts(self) -> EngineFacts:
        with connect(self._url) as connection, translating_errors():
            state = read_state(connection)
            row = connection.execute(
                "SELECT current_setting('server_version'), pg_database_size(current_database())"
            ).fetchone()
        version, size = row or ("unknown", 0)
        return EngineFacts(
            engine="PostgreSQL",
            engine_version=version,
            location=self.location,
            schema_version=state.version if state else latest_version(),
            size_bytes=size,
        )

    def verify(self) -> list[str]:
        with connect(self._url) as connection, translating_errors():
            rows = connection.execute(
                "SELECT CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index WHERE NOT indisvalid"
            ).fetchall()
        return [f"the index {name} is not valid; run REINDEX INDEX {name}" for (name,) in rows]

    def backup(self, target: Path, progress: Progress) -> None:
        with connect(self._url) as connection, translating_errors():
            copy_database(connection, target, progress)

    def rewrite_files(self) -> None:
        with connect(self._url) as connection, translating_errors():
            _wait_for_older_snapshots(connection)
            # All tables: a fixed list would miss those that are added later.
            for (table,) in connection.execute(_TABLES, [SCHEMA]).fetchall():
                connection.execute(cast("Any", f"VACUUM (FULL, ANALYZE) {table}"))
            # The planner's statistics hold samples of values, deleted ones included.
            _wait_for_older_snapshots(connection)
            connection.execute("VACUUM (FULL) pg_catalog.pg_statistic")

    def migrate(self) -> tuple[int, int]:
        with connect(self._url) as connection, translating_errors():
            return migrate_schema(connection, migrations("postgres"))

    def close(self) -> None:
        if not self._state.mark_closed():
            return
        self._thread_pool.close()
        self._commit_queue.close()
        self._writers.close()
        self._readers.close()

    def _transact(
        self,
        pool: ConnectionPool[psycopg.Connection[Any]],
        work: Callable[[PostgresTx], T],
        *,
        pipelined: bool = False,
        is_whole: bool = True,
    ) -> T:
        """Run `work` in a transaction; again where another was in the way or a pooled connection turned out dead.

        Pipelined, statements whose answers nobody reads travel together with the commit. Without `is_whole` every statement is
        a transaction of its own.
        """
        for attempt in range(_ATTEMPTS):
            committing = False
            try:
                with (
                    pool.connection() as connection,
                    connection.pipeline() if pipelined else nullcontext(),
                    connection.transaction() if is_whole else nullcontext(),
                ):
                    result = work(PostgresTx(connection))
                    committing = True
            except FAILURES as cause:
                if committing and is_connection_lost(cause):
                    raise StoreUnavailable(_UNKNOWN_OUTCOME) from cause
                if attempt + 1 == _ATTEMPTS or not _worth_repeating(cause):
                    raise to_store_error(cause) from cause
                time.sleep(0.002 * attempt)
            else:
                return result
        raise StoreUnavailable

    def _run_batch(self, steps: Sequence[QueuedStep]) -> None:
        for operation, group in groupby(steps, key=lambda queued: queued.step.call):
            together = list(group)
            try:
                self._run_group(operation, together)
            except BaseException:
                # A signal struck, perhaps during the commit: a repetition could store this twice.
                fail_pending(together, StoreUnavailable(_UNKNOWN_OUTCOME))
                raise

    def _run_group(self, operation: Callable[..., Sequence[Any]], steps: Sequence[QueuedStep]) -> None:
        try:
            self._set_outcomes(steps, self._run_together(operation, steps))
        except Exception as cause:  # noqa: BLE001 - whose fault it was shows when they run apart
            self._run_one_by_one(operation, steps, cause)

    def _run_together(self, operation: Callable[..., Sequence[Any]], steps: Sequence[QueuedStep]) -> Sequence[Any]:
        requests = [queued.step.args[0] for queued in steps]
        return self._transact(self._writers, lambda tx: operation(tx, requests), pipelined=True)

    def _run_one_by_one(
        self, operation: Callable[..., Sequence[Any]], steps: Sequence[QueuedStep], cause: Exception
    ) -> None:
        for queued in steps:
            if len(steps) == 1 or isinstance(cause, StoreUnavailable):
                queued.error = cause
                continue
            try:
                self._set_outcomes([queued], self._run_together(operation, [queued]))
            except Exception as reason:  # noqa: BLE001 - handed to the caller whose job it was
                queued.error = reason

    @staticmethod
    def _set_outcomes(steps: Sequence[QueuedStep], outcomes: Sequence[Any]) -> None:
        for queued, outcome in zip(steps, outcomes, strict=True):
            if isinstance(outcome, ThreadlineError):
                queued.error = outcome
            else:
                queued.result = outcome


def _wait_for_older_snapshots(connection: psycopg.Connection[Any]) -> None:
    """Wait until all transactions that began before now have ended: `VACUUM FULL` copies deleted rows that they may still see."""
    row = connection.execute(_CURRENT_XID).fetchone()
    deadline = time.monotonic() + _SNAPSHOT_WAIT_SECONDS
    while row is not None and time.monotonic() < deadline:
        older = connection.execute(_OLDER_SNAPSHOTS, [row[0]]).fetchone()
        if older is None or not older[0]:
            return
        time.sleep(0.05)
    raise StoreUnavailable(_SNAPSHOT_IS_OPEN)


def _worth_repeating(cause: Exception) -> bool:
    """Return whether a second attempt can succeed: another transaction was in the way, or a pooled connection turned out dead."""
    return isinstance(cause, RETRYABLE) or (is_connection_lost(cause) and not isinstance(cause, PoolTimeout))
