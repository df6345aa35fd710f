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
from threadline.store.engine.database import Row, unbindable
from threadline.store.engine.group_commit import Job, fail_unsettled
from threadline.store.engine.sql import load_queries
from threadline.store.engine.sqlite.connection import translate, translated
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
        # Drained on purpose: a statement left half-way keeps its locks.
        rows = self._execute(query.text, query.bind(values)).fetchall()
        return rows[0] if rows else None

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        query = QUERIES[name]
        return self._execute(query.text, query.bind(values)).fetchall()

    def run(self, name: str, /, **values: Any) -> int:
        query = QUERIES[name]
        self._execute(query.text, query.bind(values)).fetchall()
        return self._connection.changes()

    def hold(self, name: str, /, **values: Any) -> None:
        """Nobody else writes until the transaction ends."""

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

    def index_agrees(self, known: Any, tokens: Sequence[str]) -> bool:
        # FTS5 keeps the number of tokens of each column; the words themselves are spread over its segments.
        return isinstance(known, bytes) and _first_varint(known) == len(tokens)

    def match(self, query: Query) -> str:
        return match_expression(query)


def match_expression(query: Query) -> str:
    """A parsed query in FTS5's language. Tokens hold nothing but letters and digits, so quoting them is enough."""
    clauses = ["(scope : ({}))".format(" OR ".join(f'"{token}"' for token in clause)) for clause in query.scope]
    if query.wanted:
        clauses.insert(0, "(body : ({}))".format(" AND ".join(_term(term) for term in query.wanted)))
    expression = " AND ".join(clauses)
    if query.unwanted:
        unwanted = " OR ".join(_term(term) for term in query.unwanted)
        expression = f"({expression}) NOT (body : ({unwanted}))"
    return expression


def _term(term: Term) -> str:
    return '"{}"{}'.format(" ".join(term.tokens), " *" if term.prefix else "")


def _first_varint(raw: bytes) -> int:
    """SQLite's variable-length integer: seven bits a byte, the high bit says that more follow."""
    value = 0
    for byte in raw[:8]:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value


T = TypeVar("T")
R = TypeVar("R")
# How many pages the WAL has when a commit copies them into the file.
_WAL_AUTOCHECKPOINT_PAGES = 2_000


class BetweenBatches(msgspec.Struct, frozen=True):
    """Work on the writer's connection while no transaction is open: a vacuum, a migration."""

    work: Callable[[apsw.Connection], Any]


class Writer:
    """Runs batches on its own connection; the lane sees to it that one runs at a time in this process."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tx = SqliteTx(connection)
        self._execute = connection.cursor().execute
        self._committing = False
        connection.wal_autocheckpoint(_WAL_AUTOCHECKPOINT_PAGES)
        # SQLite's own waiting starves processes for seconds; a kernel lock beside the file makes them take turns.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._turnstile = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{path} can't be written; check who owns the file and its folder") from cause

    def run(self, jobs: Sequence[Job]) -> None:
        """Settles every job: with its result once that is durable, or with the error that kept it from being stored.

        Where a signal's exception strikes, jobs that were rolled back stay unsettled and can be run again.
        """
        self._committing = False
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX)
            try:
                if len(jobs) == 1 and type(jobs[0].step) is not BetweenBatches:
                    self._run_lone(jobs[0])
                else:
                    self._run_groups(jobs)
            finally:
                fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        except BaseException:
            self._interrupted(jobs)
            raise

    def close(self) -> None:
        """Releases the connection and the turn."""
        self._connection.close()
        os.close(self._turnstile)

    def _interrupted(self, jobs: Sequence[Job]) -> None:
        if self._committing:
            fail_unsettled(jobs, StoreUnavailable("interrupted; it is not known whether this was stored"))

    def _run_groups(self, jobs: Sequence[Job]) -> None:
        if not any(type(job.step) is BetweenBatches for job in jobs):
            self._run_batch(jobs)
            return
        for between, group in groupby(jobs, key=lambda job: type(job.step) is BetweenBatches):
            if between:
                self._run_between(list(group))
            else:
                self._run_batch(list(group))

    def _run_lone(self, job: Job) -> None:
        """The shortest way for a job that comes alone: its fault is nobody else's."""
        try:
            _settle(job, self._commit(self._apply_one, job))
        except Exception as cause:  # noqa: BLE001 - handed to the caller whose job it was
            job.error = self._translated(cause)

    def _run_batch(self, jobs: Sequence[Job]) -> None:
        try:
            results = self._commit(self._apply, jobs)
        except Exception:  # noqa: BLE001 - whose fault it was shows in the replay, and that caller hears it
            if not self._replay(jobs):
                self._run_apart(jobs)
            return
        for job, result in zip(jobs, results, strict=True):
            _settle(job, result)

    def _apply(self, jobs: Sequence[Job]) -> list[Any]:
        """The outcome of each job, in order; neighbours of one batch operation are carried out together."""
        results: list[Any] = []
        for operation, group in groupby(jobs, key=_batch_operation):
            if operation is None:
                results.extend(self._apply_one(job) for job in group)
            else:
                results.extend(operation(self._tx, [job.step.args[0] for job in group]))
        return results

    def _apply_one(self, job: Job) -> Any:
        step = job.step
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
            # Already gone where SQLite rolled back by itself; and where a signal came after the commit.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
                self._committing = False
            raise
        return result

    def _replay(self, jobs: Sequence[Job]) -> bool:
        """The batch again, each job fenced off by a savepoint. False where the whole transaction was lost again."""
        try:
            outcomes = self._commit(lambda jobs: [self._guarded(job) for job in jobs], jobs)
        except apsw.Error:
            return False
        for job, outcome in zip(jobs, outcomes, strict=True):
            _settle(job, outcome)
        return True

    def _guarded(self, job: Job) -> Any:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            result = self._apply_one(job)
        except Exception as cause:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            result = self._translated(cause)
        connection.execute("RELEASE job")
        return result

    def _run_apart(self, jobs: Sequence[Job]) -> None:
        """One transaction a job: what can still be written is, and each of the others gets its own reason."""
        for job in jobs:
            self._run_lone(job)

    def _run_between(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                with translated(self._path):
                    job.result = job.step.work(self._connection)
            except Exception as cause:  # noqa: BLE001 - handed to the caller whose job it was
                job.error = cause

    def _translated(self, cause: Exception) -> Exception:
        if not isinstance(cause, (apsw.Error, UnicodeEncodeError)):
            return cause
        error = translate(cause, self._path) if isinstance(cause, apsw.Error) else unbindable()
        error.__cause__ = cause
        return error


def _batch_operation(job: Job) -> Any:
    return job.step.call if job.step.kind == "batch" else None


def _settle(job: Job, outcome: Any) -> None:
    if isinstance(outcome, Exception):
        job.error = outcome
    else:
        job.result = outcome
