"""Batches of steps on the writing connection: run, committed and, where one fails, run again one by one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from threadline.errors import StoreReadOnly, StoreUnavailable
from threadline.store.engine.database import Row, unstorable_text_error
from threadline.store.engine.group_commit import QueuedStep, fail_pending
from threadline.store.engine.sql import load_queries
from threadline.store.engine.sqlite.connection import to_store_error, translating_errors
from threadline.store.text import Document, Query, Term

QUERIES = load_queries("sqlite", "?")


class SqliteTx:
    """Runs named queries on one connection, inside a transaction that its owner begins and ends."""

    __slots__ = ("_connection", "_execute", "_execute_many")

    def __init__(self, connection: apsw.Connection) -> None:
        # One cursor for all: each statement is drained before the next begins.
        cursor = connection.cursor()
        self._connection = connection
        self._execute = cursor.execute
        self._execute_many = cursor.executemany

    def find(self, name: str, /, **values: Any) -> Row | None:
        query = QUERIES[name]
        # Drained on purpose: an unfinished statement keeps its locks.
        rows = self._execute(query.text, query.bind(values)).fetchall()
        return rows[0] if rows else None

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        query = QUERIES[name]
        return self._execute(query.text, query.bind(values)).fetchall()

    def run(self, name: str, /, **values: Any) -> int:
        query = QUERIES[name]
        self._execute(query.text, query.bind(values)).fetchall()
        return self._connection.changes()

    def lock_rows(self, name: str, /, **values: Any) -> None:
        """Do nothing: nobody else writes until the transaction ends."""

    def run_many(self, name: str, rows: Sequence[Row], /) -> None:
        self._execute_many(QUERIES[name].text, rows).fetchall()

    def rows_many(self, name: str, rows: Sequence[Row], /) -> list[Row]:
        return self._execute_many(QUERIES[name].text, rows).fetchall()

    def index_documents(self, documents: Sequence[Document]) -> None:
        numbered = [(document.number,) for document in documents]
        docs = self.rows_many("add_document", numbered)
        self.run_many(
            "add_words",
            [
                (doc, " ".join(document.tokens), " ".join(document.scope))
                for (doc,), document in zip(docs, documents, strict=True)
            ],
        )

    def unindex(self, numbers: Sequence[int]) -> None:
        rows = [(number,) for number in numbers]
        self.run_many("drop_words", rows)
        self.run_many("drop_documents", rows)

    def index_matches(self, stored: Any, tokens: Sequence[str]) -> bool:
        # FTS5 keeps the number of tokens of each column; the words themselves are spread over its segments.
        return isinstance(stored, bytes) and _first_varint(stored) == len(tokens)

    def match_expression(self, query: Query) -> str:
        return match_expression(query)


def match_expression(query: Query) -> str:
    """Return a parsed query in FTS5's language. Tokens hold nothing but letters and digits, so quoting them is enough."""
    clauses = ["(scope : ({}))".format(" OR ".join(f'"{token}"' for token in clause)) for clause in query.scope]
    if query.required:
        clauses.insert(0, "(body : ({}))".format(" AND ".join(_term(term) for term in query.required)))
    expression = " AND ".join(clauses)
    if query.excluded:
        excluded = " OR ".join(_term(term) for term in query.excluded)
        expression = f"({expression}) NOT (body : ({excluded}))"
    return expression


def _term(term: Term) -> str:
    return '"{}"{}'.format(" ".join(term.tokens), " *" if term.prefix else "")


def _first_varint(raw: bytes) -> int:
    """Return SQLite's variable-length integer: seven bits a byte, the high bit says that more follow."""
    value = 0
    for byte in raw[:8]:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value


T = TypeVar("T")
R = TypeVar("R")
# The size of the WAL, in pages, at which a commit copies them into the file.
_WAL_AUTOCHECKPOINT_PAGES = 2_000


class ConnectionWork(msgspec.Struct, frozen=True):
    """Work on the writer's connection while no transaction is open: a vacuum, a migration."""

    work: Callable[[apsw.Connection], Any]


class BatchWriter:
    """Runs batches on its own connection, one at a time: in this process by the queue, on this machine by a lock file."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tx = SqliteTx(connection)
        self._execute = connection.cursor().execute
        self._committing = False
        connection.wal_autocheckpoint(_WAL_AUTOCHECKPOINT_PAGES)
        # SQLite's own busy handler starves processes for seconds; a kernel lock beside the file is fair.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._process_lock = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{path} can't be written; check who owns the file and its folder") from cause

    def run(self, steps: Sequence[QueuedStep]) -> None:
        """Give every step an outcome: its result once that is durable, or the error that kept it from being stored.

        Where a signal's exception strikes, steps that were rolled back have no outcome and can be run again.
        """
        self._committing = False
        try:
            fcntl.flock(self._process_lock, fcntl.LOCK_EX)
            try:
                if len(steps) == 1 and type(steps[0].step) is not ConnectionWork:
                    self._run_single(steps[0])
                else:
                    self._run_groups(steps)
            finally:
                fcntl.flock(self._process_lock, fcntl.LOCK_UN)
        except BaseException:
            self._interrupted(steps)
            raise

    def close(self) -> None:
        """Release the connection and the lock file."""
        self._connection.close()
        os.close(self._process_lock)

    def _interrupted(self, steps: Sequence[QueuedStep]) -> None:
        if self._committing:
            fail_pending(steps, StoreUnavailable("interrupted; it is not known whether this was stored"))

    def _run_groups(self, steps: Sequence[QueuedStep]) -> None:
        if not any(type(queued.step) is ConnectionWork for queued in steps):
            self._run_batch(steps)
            return
        for between, group in groupby(steps, key=lambda queued: type(queued.step) is ConnectionWork):
            if between:
                self._run_connection_work(list(group))
            else:
                self._run_batch(list(group))

    def _run_single(self, queued: QueuedStep) -> None:
        """Run a step that comes alone: an error of the transaction is its own."""
        try:
            _set_outcome(queued, self._commit(self._apply_one, queued))
        except Exception as cause:  # noqa: BLE001 - handed to the caller whose job it was
            queued.error = self._to_store_error(cause)

    def _run_batch(self, steps: Sequence[QueuedStep]) -> None:
        try:
            results = self._commit(self._apply, steps)
        except Exception:  # noqa: BLE001 - whose fault it was shows in the replay, and that caller hears it
            if not self._replay(steps):
                self._run_one_by_one(steps)
            return
        for queued, result in zip(steps, results, strict=True):
            _set_outcome(queued, result)

    def _apply(self, steps: Sequence[QueuedStep]) -> list[Any]:
        """Return the outcome of each step, in order; neighbours of one batch operation are run together."""
        results: list[Any] = []
        for operation, group in groupby(steps, key=_batch_operation):
            if operation is None:
                results.extend(self._apply_one(queued) for queued in group)
            else:
                results.extend(operation(self._tx, [queued.step.args[0] for queued in group]))
        return results

    def _apply_one(self, queued: QueuedStep) -> Any:
        step = queued.step
        if step.kind == "batch":
            return step.call(self._tx, step.args)[0]
        return step.call(self._tx, *step.args, **step.options)

    def _commit(self, work: Callable[[T], R], given: T) -> R:
        connection = self._connection
        self._committing = False
        try:
            self._execute("BEGIN IMMEDIATE")
            result = work(given)
            self._committing = True
            self._execute("COMMIT")
        except BaseException:
            # No transaction is open where SQLite rolled back by itself, or a signal came after the commit.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
                self._committing = False
            raise
        return result

    def _replay(self, steps: Sequence[QueuedStep]) -> bool:
        """Run the batch again, each step in a savepoint. Return False where the whole transaction failed again."""
        try:
            outcomes = self._commit(lambda given: [self._run_in_savepoint(queued) for queued in given], steps)
        except apsw.Error:
            return False
        for queued, outcome in zip(steps, outcomes, strict=True):
            _set_outcome(queued, outcome)
        return True

    def _run_in_savepoint(self, queued: QueuedStep) -> Any:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            result = self._apply_one(queued)
        except Exception as cause:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            result = self._to_store_error(cause)
        connection.execute("RELEASE job")
        return result

    def _run_one_by_one(self, steps: Sequence[QueuedStep]) -> None:
        """Run each step in a transaction of its own: those that can be stored are, and each of the others gets its own error."""
        for queued in steps:
            self._run_single(queued)

    def _run_connection_work(self, steps: Sequence[QueuedStep]) -> None:
        for queued in steps:
            try:
                with translating_errors(self._path):
                    queued.result = queued.step.work(self._connection)
            except Exception as cause:  # noqa: BLE001 - handed to the caller whose job it was
                queued.error = cause

    def _to_store_error(self, cause: Exception) -> Exception:
        if not isinstance(cause, (apsw.Error, UnicodeEncodeError)):
            return cause
        error = to_store_error(cause, self._path) if isinstance(cause, apsw.Error) else unstorable_text_error()
        error.__cause__ = cause
        return error


def _batch_operation(queued: QueuedStep) -> Any:
    return queued.step.call if queued.step.kind == "batch" else None


def _set_outcome(queued: QueuedStep, outcome: Any) -> None:
    if isinstance(outcome, Exception):
        queued.error = outcome
    else:
        queued.result = outcome
