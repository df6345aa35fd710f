"""Copies of a store as an SQLite file, consistent while others write, verified before they get their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import apsw

from threadline.errors import InvalidRequest, StoreDamaged, StoreUnavailable
from threadline.model.view import MAX_SEQ, message_number
from threadline.store.conversations.indexes import document_of
from threadline.store.engine.database import Progress, Row
from threadline.store.engine.sql import migrations
from threadline.store.engine.sqlite.connection import migrate_schema, translating_errors
from threadline.store.engine.sqlite.writer import SqliteTx

ReadTable: TypeAlias = Callable[[str, Sequence[str]], Iterable[Row]]
_PAGES_A_STEP = 2_000
_RESTARTS = 3
# Built anew in the copy: the index is a function of the messages, and list positions are current.
_DERIVED = ("documents", "unindexed", "moved", "words")


def copy_database(source: apsw.Connection, target: Path, progress: Progress) -> None:
    """Copy page by page. A write by another process starts the copy over; after a few restarts it is done in one go."""
    with _partial_copy(target) as copy, copy.backup("main", source, "main") as backup:
        restarts, remaining = 0, None
        while not backup.done:
            backup.step(_PAGES_A_STEP if restarts < _RESTARTS else -1)
            if remaining is not None and backup.remaining > remaining:
                restarts += 1
            remaining = backup.remaining
            progress(backup.page_count - backup.remaining, backup.page_count)


def build_copy(
    target: Path, read: ReadTable, count: Callable[[str], int], last_pk: Callable[[str], int], progress: Progress
) -> None:
    """Build an SQLite store from the rows of another database; raise `StoreDamaged` unless every row arrives.

    `last_pk` returns the last number that a table gave to a row, whether that row is still there or not.
    """
    with _partial_copy(target) as copy:
        migrate_schema(copy, migrations("sqlite"))
        tables = {name: _columns(copy, name) for name in _tables(copy)}
        total, done = sum(count(name) for name in tables), 0
        copy.execute("BEGIN")
        for name, columns in tables.items():
            places = ", ".join("?" for _ in columns)
            text = f"INSERT OR REPLACE INTO {name} ({', '.join(columns)}) VALUES ({places})"
            copy.executemany(text, read(name, columns)).fetchall()
            done += _count(copy, name)
            progress(done, total)
        _copy_sequences(copy, last_pk)
        # In the copy no message is indexed yet, and every list position is current.
        copy.execute("UPDATE session_state SET indexed_seq = 0, listed_at = updated_at").fetchall()
        copy.execute("INSERT INTO unindexed SELECT session_pk FROM session_state WHERE last_seq > 0").fetchall()
        _index_deleted_logs(copy)
        copy.execute("COMMIT")
        if done != total:
            raise StoreDamaged(f"the copy has {done} rows of {total}; it was deleted, try again")


def _copy_sequences(copy: apsw.Connection, last_pk: Callable[[str], int]) -> None:
    """Continue the numbering of rows, those of deleted rows included: a reused number would show what a deleted session said."""
    counted = copy.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
    ).fetchall()
    for name in {str(name) for (name,) in counted}.intersection(_tables(copy)):
        copy.execute("DELETE FROM sqlite_sequence WHERE name = ?", [name]).fetchall()
        copy.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [name, last_pk(name)]).fetchall()


def _index_deleted_logs(copy: apsw.Connection) -> None:
    """Index the messages of deleted sessions that forks still show: no session is left whose first search would index them."""
    tx = SqliteTx(copy)
    for log, scope in copy.execute("SELECT log, scope FROM deleted_logs").fetchall():
        lo, hi = message_number(int(str(log)), 0), message_number(int(str(log)), MAX_SEQ)
        documents = [
            document_of(number, role, author, body, str(scope).split())
            for number, role, _, author, redacted_at, body in tx.rows("load_log", lo=lo, hi=hi, limit=MAX_SEQ)
            if redacted_at is None
        ]
        tx.index_documents([document for document in documents if document.tokens])


@contextmanager
def _partial_copy(target: Path) -> Iterator[apsw.Connection]:
    """Yield a connection to a new file that gets its real name only once it is complete, verified and on disk."""
    partial = target.with_name(target.name + ".part")
    if target.exists():
        raise InvalidRequest(f"{target} exists; choose a new file for the copy")
    try:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600)
    except OSError as cause:
        raise StoreUnavailable(f"{partial} can't be made: {cause.strerror}; choose another place") from cause
    try:
        with translating_errors(partial):
            copy = apsw.Connection(str(partial))
            try:
                yield copy
                _verify(copy, target)
            finally:
                copy.close()
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _verify(copy: apsw.Connection, target: Path) -> None:
    # The copy stands alone: no WAL beside it, and all of it is on disk.
    copy.execute("PRAGMA synchronous = FULL").fetchall()
    copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    findings = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)").fetchall()]
    if findings != ["ok"]:
        raise StoreDamaged(f"the copy for {target} is not sound ({'; '.join(findings)}); it was deleted")


def _tables(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rootpage").fetchall()
    names = [str(name) for (name,) in rows]
    return [name for name in names if not name.startswith(("sqlite_", *_DERIVED))]


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]


def _count(connection: apsw.Connection, table: str) -> int:
    return int(str(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()[0][0]))
