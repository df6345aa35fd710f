"""Transactions, steps, the promises of an engine, and the locations that name one.

An *operation* is a plain function of a transaction and arguments. It reads no clock, makes no ids, calls nobody back and
does no I/O of its own, because an engine may run it more than once: after a serialization failure, or when another
operation of the same batch failed. Only the last run counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from threadline.errors import InvalidLocation, InvalidRequest, StoreClosed, StoreForked, ThreadlineError
from threadline.store.text import Document, Query

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Row: TypeAlias = tuple[Any, ...]
Progress: TypeAlias = Callable[[int, int], None]


class Tx(Protocol):
    """A transaction. It offers no commit: an operation can't make durable what its caller is told failed.

    Queries are named; their texts are in `store/sql`. A sequence may be given where the query's text says so.
    """

    def find(self, name: str, /, **values: Any) -> Row | None:
        """Return the first row, or `None`."""

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        """Return all rows."""

    def run(self, name: str, /, **values: Any) -> int:
        """Run a change; return how many rows it touched."""

    def lock_rows(self, name: str, /, **values: Any) -> None:
        """Lock the rows of a locking query until the commit. On an engine with one writer nothing needs to be done."""

    def run_many(self, name: str, rows: Sequence[Row], /) -> None:
        """Run the same change for many rows, in the fewest round trips that the engine knows."""

    def rows_many(self, name: str, rows: Sequence[Row], /) -> list[Row]:
        """Return what the query finds for each of many rows of values, together; rows that find nothing leave no trace."""

    def index_documents(self, documents: Sequence[Document]) -> None:
        """Add documents to the search index; each has a message number that is not indexed yet."""

    def unindex(self, numbers: Sequence[int]) -> None:
        """Remove messages from the search index; those that were not indexed are passed over."""

    def index_matches(self, stored: Any, tokens: Sequence[str]) -> bool:
        """Return whether the index entry of a message (a column of `indexed_part`) fits these tokens."""

    def match_expression(self, query: Query) -> str:
        """Return a parsed search in the engine's own query language."""


StepKind: TypeAlias = Literal["read", "loose_read", "write", "batch", "task"]


# Without tracking by the garbage collector: every call makes a step, and a step is never part of a cycle.
class Step(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One unit of work on a store, and its kind.

    - `read`: run the operation on one consistent snapshot; it never waits for writers.
    - `loose_read`: the same, but each query may see a later state than the one before, where that is cheaper.
    - `write`: run the operation in a transaction that is durable when the step ends.
    - `batch`: run the operation on this request together with those of other callers. It takes all requests in the order of
      arrival and returns an outcome for each: a value, or the error that this caller alone is to get.
    - `task`: several steps, or work of the engine itself; the store performs it, blocking. Engines never see one.
    """

    kind: StepKind
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    # The approximate bytes that a batch grows by.
    size: int = 0
    # Whether the step leaves work for the background worker: messages to index, sessions to list anew.
    leaves_work: bool = False


def read(operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> Step[T]:
    """Return a step that only reads."""
    return Step("read", operation, args, options)


def loose_read(operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> Step[T]:
    """Return a step that only reads; other callers may change rows that it has not read yet."""
    return Step("loose_read", operation, args, options)


def write(operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> Step[T]:
    """Return a step that writes."""
    return Step("write", operation, args, options)


def batch(
    operation: Callable[[Tx, Sequence[R]], Sequence[T | ThreadlineError]], request: R, *, size: int = 0
) -> Step[T]:
    """Return a step that writes together with those of other callers."""
    return Step("batch", operation, (request,), size=size)


class Perform(Protocol):
    """Perform one step, blocking: what a task is given."""

    def __call__(self, step: Step[T], /) -> T: ...


def task(work: Callable[Concatenate[Perform, P], T], /, *args: P.args, **options: P.kwargs) -> Step[T]:
    """Return a step that performs several others, blocking. Awaited, it runs on a worker thread.

    A caller who is cancelled does not wait for it; it goes on until its next step finds the store closed.
    """
    return Step("task", work, args, options)


def leaving_work(step: Step[T]) -> Step[T]:
    """Return the same step, after which the background worker has something to do."""
    return msgspec.structs.replace(step, leaves_work=True)


class Database(Protocol):
    """An open database. Thread-safe. After `close()` every step raises `StoreClosed`.

    A step that returns is durable. A step that raises changed nothing, with one exception that says so: where the
    connection died during the commit, `StoreUnavailable` tells that the outcome is unknown.
    """

    location: str

    def perform(self, step: Step[T]) -> T:
        """Perform the step, blocking."""

    def perform_async(self, step: Step[T]) -> Awaitable[T]:
        """Perform the step without blocking the running event loop."""

    def require_open(self) -> None:
        """Raise `StoreClosed` where the database is closed, and `StoreForked` in a process that did not open it."""

    def facts(self) -> EngineFacts:
        """Return engine, version, size and schema."""

    def verify(self) -> list[str]:
        """Return the faults that the engine itself finds in its files; empty when it is sound."""

    def backup(self, target: Path, progress: Progress) -> None:
        """Write a consistent copy to `target`, an SQLite database, while others read and write."""

    def rewrite_files(self) -> None:
        """Rewrite the files so that nothing deleted can be read from them."""

    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; return the version before and after."""

    def close(self) -> None:
        """Wait for all accepted steps, then release everything. Idempotent."""


class EngineFacts(msgspec.Struct, frozen=True):
    """Facts about an open database."""

    engine: str
    engine_version: str
    location: str
    schema_version: int
    size_bytes: int
    wal_bytes: int = 0


def find_after_lock(tx: Tx, name: str, /, **values: Any) -> Row | None:
    """Return the row of a query that locks a session's state, as it is now; `None` where there is none.

    The last column of such a query tells whether it waited for a change; then the row is read again.
    """
    row = tx.find(name, **values)
    if row is not None and row[-1]:
        row = tx.find(name, **values)
    return None if row is None else row[:-1]


def unstorable_text_error() -> InvalidRequest:
    """Return the error for text that an engine can't take as a value: nothing in a store has such a name."""
    return InvalidRequest("an id, key or name holds NUL or half of a surrogate pair; nothing here is called that")


_POSTGRES = ("postgresql://", "postgres://")
_QUERY_PASSWORD = re.compile(r"([?&]\w*password=)[^&#]*", re.IGNORECASE)


class SqliteLocation(msgspec.Struct, frozen=True):
    """A file on this machine."""

    path: Path

    @property
    def text(self) -> str:
        """The URL that opens this place again."""
        return f"sqlite://{self.path}"


class PostgresLocation(msgspec.Struct, frozen=True):
    """A PostgreSQL database; `url` may hold a password and is never shown."""

    url: str

    @property
    def text(self) -> str:
        """The URL without its passwords."""
        shown = _QUERY_PASSWORD.sub(r"\1…", self.url)
        parts = urlsplit(shown)
        if parts.password is None:
            return shown
        netloc = parts.netloc.replace(f":{parts.password}@", ":…@", 1)
        return urlunsplit(parts._replace(netloc=netloc))


Location: TypeAlias = SqliteLocation | PostgresLocation


def parse_location(location: str | Path) -> Location:
    """Return the location of a URL or path. `sqlite:///a/b.db` is the absolute path `/a/b.db`; plain paths may be relative."""
    if isinstance(location, Path):
        return SqliteLocation(_absolute(location))
    text = str(location)
    if text.startswith(_POSTGRES):
        return PostgresLocation(text)
    if text.startswith("sqlite:"):
        rest = text.removeprefix("sqlite:")
        if rest.startswith("//") and not rest.startswith("///"):
            raise InvalidLocation(f"{text} names a host; an SQLite store is a file: sqlite:///ABSOLUTE/PATH")
        text = "/" + rest.lstrip("/") if rest.startswith("//") else rest
        text = text.removeprefix("/") if text.startswith("/~") else text
    elif "://" in text:
        scheme = text.partition(":")[0]
        raise InvalidLocation(f"{scheme}:// is no store; use sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    if not text or "\x00" in text or text.endswith("/"):
        raise InvalidLocation(f"{location!r} names no file; use sqlite:///ABSOLUTE/PATH")
    if text == ":memory:":
        raise InvalidLocation("a store lives in a file, never in memory alone; use a path in a temporary folder")
    return SqliteLocation(_absolute(Path(text)))


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as cause:
        raise InvalidLocation(f"{path}: {cause}; use an absolute path") from cause


class OpenState:
    """An engine's state from opening to closing. It belongs to the process that opened it: a forked child may not use it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.closed = False

    def require_open(self) -> None:
        """Raise `StoreForked` in another process and `StoreClosed` after `mark_closed`."""
        if os.getpid() != self._pid:
            raise StoreForked
        if self.closed:
            raise StoreClosed

    def mark_closed(self) -> bool:
        """Mark the store as closed; return whether this caller has to release its resources.

        True once, and never in a forked child, whose parent still uses them.
        """
        first, self.closed = not self.closed, True
        return first and os.getpid() == self._pid
