"""The one writer of a file within a process: a batch of jobs, one commit.

A batch runs bare: no savepoints, because almost every batch succeeds. If any job fails, the transaction is rolled back and the
batch is replayed with a savepoint around each job, so that only the failing one's caller hears of it. Where SQLite itself
gave the whole transaction up (a full disk, an I/O error), each job gets a transaction of its own.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from threadline.errors import StoreReadOnly, StoreUnavailable
from threadline.store.database import BatchStep, unbindable
from threadline.store.lane import Job, fail_unsettled
from threadline.store.sqlite.connection import BUSY_MILLISECONDS, translate, translated
from threadline.store.sqlite.transaction import SqliteTx

T = TypeVar("T")
R = TypeVar("R")

# How many pages the journal has when they are brought into the file. That costs two syncs, and a write for every page of the
# file that was changed: where many callers write, and where they write all over the file, the more are brought at once the
# better. But a sync costs more while the journal still grows than once it is written over. Who appends alone, and so changes
# the same few pages again and again, gains most by that.
_SHORT, _LONG = 1_000, 4_000
# After so many commits that could not wait it is time too. Each is of ten pages or so, and as many are written behind it.
_PRESSED = 60
# What those fit into. A journal that has its length from the beginning is never synced while it grows.
_LENGTH = 1_200 * 4_120
_CHUNK = 1024 * 1024


class BetweenBatches(msgspec.Struct, frozen=True):
    """Work on the writer's connection while no transaction is open: a vacuum, a migration."""

    work: Callable[[apsw.Connection], Any]


class Writer:
    """Runs batches on its own connection; the lane sees to it that one runs at a time in this process."""

    def __init__(self, connection: apsw.Connection, path: Path, *, lengthens: bool = True) -> None:
        """`lengthens`: whether the journal is a file like any other, which may be given its length."""
        self._connection = connection
        self._path = path
        self._tx = SqliteTx(connection)
        self._execute = connection.cursor().execute
        self._committing = False
        self._before_commit: Callable[[], None] = _nothing
        self._limit = _LONG
        connection.wal_autocheckpoint(_LONG)
        self._pressed = 0
        self._has_length = not lengthens
        self._file = _identity(path)
        # SQLite's own waiting starves processes for seconds; a kernel lock beside the file makes them take turns.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._turnstile = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{path} can't be written; check who owns the file and its folder") from cause

    def run(self, jobs: Sequence[Job], before_commit: Callable[[], None]) -> None:
        """Settles every job: with its result once that is durable, or with the error that kept it from being stored.

        Where a signal's exception strikes, jobs that were rolled back stay unsettled and can be run again.
        """
        self._before_commit, self._committing = before_commit, False
        is_alone = len(jobs) == 1
        self._bring_at(_SHORT if is_alone and type(jobs[0].step) is BatchStep else _LONG)
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX)
            try:
                if is_alone and type(jobs[0].step) is not BetweenBatches:
                    self._run_lone(jobs[0])
                else:
                    self._run_groups(jobs)
            finally:
                fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        except BaseException:
            self._interrupted(jobs)
            raise

    @property
    def chore(self) -> Callable[[apsw.Connection], None] | None:
        """What is to be done for the journal between two batches, if it is time for anything."""
        if not self._has_length:
            return self.lengthen
        return self.shorten if self._pressed >= _PRESSED else None

    def run_now(self, job: Job) -> bool:
        """Settles a lone job where nobody else is writing to the file; else it is false, and nothing was done.

        It never brings the journal into the file, which may take long: `chore` tells when it is time for that.
        """
        self._before_commit, self._committing = _nothing, False
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            self._run_pressed(job)
        except BaseException:
            self._interrupted([job])
            raise
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        if job.error is not None and isinstance(job.error.__cause__, apsw.BusyError):
            job.error = None
            return False
        return True

    def shorten(self, connection: apsw.Connection) -> None:
        """Brings the journal's pages into the file, as far as nobody reads them. What can't be now is done the next time."""
        self._pressed = 0
        with suppress(apsw.Error):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def lengthen(self, connection: apsw.Connection) -> None:
        """Gives the journal at once the length that it will come to. Where there is no room for that, it grows as it may.

        SQLite passes over what stands behind the last commit. To begin a transaction is to keep every other program from writing
        there meanwhile; unless somebody has put another file in the place of ours, whose journal is not ours to change.
        """
        self._has_length = True
        with suppress(apsw.Error, OSError):
            connection.execute("BEGIN IMMEDIATE")
            try:
                if _identity(self._path) == self._file:
                    _fill(connection.filename_wal, _LENGTH)
            finally:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Releases the connection and the turn."""
        self._connection.close()
        os.close(self._turnstile)

    def _run_pressed(self, job: Job) -> None:
        self._bring_at(0)
        self._pressed += 1
        try:
            # Another program may write without passing the turnstile.
            self._connection.set_busy_timeout(0)
            self._run_lone(job)
        finally:
            self._connection.set_busy_timeout(BUSY_MILLISECONDS)

    def _bring_at(self, limit: int) -> None:
        """From now on a commit that makes the journal so long brings it into the file; with 0 none does."""
        if limit != self._limit:
            self._limit = limit
            self._connection.wal_autocheckpoint(limit)

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
                results.extend(operation(self._tx, [job.step.request for job in group]))
        return results

    def _apply_one(self, job: Job) -> Any:
        step = job.step
        if type(step) is BatchStep:
            return step.operation(self._tx, [step.request])[0]
        return step.operation(self._tx, *step.arguments, **step.options)

    def _commit(self, work: Callable[[T], R], given: T) -> R:
        connection = self._connection
        self._committing = False
        try:
            self._execute("BEGIN IMMEDIATE")
            result = work(given)
            self._before_commit()
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


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from any other in its place; `None` where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _fill(journal: str, length: int) -> None:
    """Writes zeros up to that length, or none."""
    descriptor = os.open(journal, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        before = os.fstat(descriptor).st_size
        try:
            for place in range(before, length, _CHUNK):
                os.pwrite(descriptor, bytes(min(_CHUNK, length - place)), place)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _batch_operation(job: Job) -> Any:
    return job.step.operation if type(job.step) is BatchStep else None


def _settle(job: Job, outcome: Any) -> None:
    if isinstance(outcome, Exception):
        job.error = outcome
    else:
        job.result = outcome


def _nothing() -> None:
    """Nobody waits to be told."""
