"""The database of an older gateway, `state.db`, read from a private copy. The original is opened for reading only."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import tempfile
import threading
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from threadline.log import get_logger
from threadline.store.engine.sqlite.connection import APPLICATION_ID
from threadline.transfer.files import Skipped, file_stamp, find_file, is_safe_id, open_regular, parse_json

log = get_logger(__name__)

_COPY_ATTEMPTS = 5
# The first version with `PRAGMA table_list`.
_OLDEST_SQLITE = (3, 37)
_DISK_ERRORS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_REQUIRED = {"id", "session_id", "role", "content"}
# The columns that belong to a message beside its role and content. Those of the second pattern hold JSON.
_FIELD = re.compile(r"tool_call_id|tool_name|tool_calls|finish_reason|reasoning\w*|[a-z]\w*_(items|details)", re.ASCII)
_JSON_FIELD = re.compile(r"tool_calls|\w+_(items|details)", re.ASCII)
_JSON_CONTENT = "\x00json:"


class DatabaseSession(msgspec.Struct, frozen=True):
    """A row of the table `sessions`. A column that this version of the table lacks is None."""

    session_id: str
    source: str | None
    user_id: str | None
    title: str | None
    model: str | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None
    parent_session_id: str | None


class HermesDatabase:
    """The conversations in a private copy of `state.db`. Safe to use from several threads."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()
        self._session_columns = self._columns_of("sessions", {"id"})
        self._message_columns = self._columns_of("messages", _REQUIRED)

    @classmethod
    def open(cls, path: Path, owner: int) -> Self | None:
        """Copy the database and its WAL, and open the copy. The copy has no name on the disk afterwards.

        Returns None where there is no file, or one that can't be used: not a regular file, not of the user `owner`,
        no database, damaged, without the tables, or a database of Threadline. OSError where the file can't be copied.
        """
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise OSError(errno.ENOSYS, f"Python's SQLite {sqlite3.sqlite_version} is too old to read this", str(path))
        with tempfile.TemporaryDirectory(prefix="threadline-") as folder, ExitStack() as unless_kept:
            copy = Path(folder) / "state.db"
            if not _copy_unchanging(path, copy, owner):
                return None
            try:
                connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
                unless_kept.callback(connection.close)
                if not _settle(connection):
                    return None
                opened = cls(path, connection)
            except sqlite3.Error as error:
                _raise_unless_damage(error, path)
                log.warning("transfer.database_refused", path=str(path), why=str(error))
                return None
            if not opened.has_tables():
                return None
            unless_kept.pop_all()
            return opened

    def close(self) -> None:
        """Let go of the copy."""
        with self._lock:
            self._connection.close()

    def has_tables(self) -> bool:
        """Return whether there is a table to read."""
        return bool(self._session_columns or self._message_columns)

    def session_ids(self) -> set[str]:
        """Return the ids under which sessions or messages are stored, the safe ones only."""
        queries = []
        if self._session_columns:
            queries.append("SELECT id FROM sessions")
        if self._message_columns:
            queries.append("SELECT DISTINCT session_id FROM messages")
        return {row[0] for query in queries for row in self._rows(query)[0] if is_safe_id(row[0])}

    def has(self, session_id: str) -> bool:
        """Return whether a session or a message is stored under that id."""
        queries = []
        if self._session_columns:
            queries.append("SELECT 1 FROM sessions WHERE id = ? LIMIT 1")
        if self._message_columns:
            queries.append("SELECT 1 FROM messages WHERE session_id = ? LIMIT 1")
        return any(self._rows(query, session_id)[0] for query in queries)

    def sessions(self) -> list[DatabaseSession]:
        """Return the stored sessions that have a safe id, sorted by it."""
        if not self._session_columns:
            return []
        names = ["source", "user_id", "title", "model", "started_at", "ended_at", "end_reason", "parent_session_id"]
        chosen = [name if name in self._session_columns else "NULL" for name in names]
        rows, _ = self._rows(f"SELECT id, {', '.join(chosen)} FROM sessions")
        return sorted((_session(row) for row in rows if is_safe_id(row[0])), key=lambda found: found.session_id)

    def messages(self, session_id: str) -> tuple[list[dict[str, Any]], list[Skipped]] | None:
        """Return the messages that the session shows, oldest first, and the rows or fields that could not be read.

        None where the database does not know the session.
        """
        if not self._message_columns:
            return ([], []) if self.has(session_id) else None
        fields = sorted(name for name in self._message_columns if _FIELD.fullmatch(name))
        active = "AND active IS NOT 0" if "active" in self._message_columns else ""
        columns = ", ".join(["id", "role", "content", *fields])
        rows, damage = self._rows(
            f"SELECT {columns} FROM messages WHERE session_id = ? {active} ORDER BY id", session_id
        )
        messages: list[dict[str, Any]] = []
        skipped: list[Skipped] = []
        for row in rows:
            self._take(row, fields, messages, skipped)
        if damage:
            skipped.append(Skipped(self.path.name, f"damaged after {len(rows)} messages of the session: {damage}"))
        return (messages, skipped) if rows or damage or self.has(session_id) else None

    def _take(self, row: Any, fields: list[str], messages: list[dict[str, Any]], skipped: list[Skipped]) -> None:
        place = f"{self.path.name} row {row[0] if isinstance(row[0], int) else '?'}"
        try:
            role = _text(row[1])
            content = None if row[2] is None else _content(_text(row[2]))
        except ValueError as error:
            skipped.append(Skipped(place, f"damaged: {error}"))
            return
        if role == "session_meta":
            return
        message: dict[str, Any] = {"role": role, "content": content}
        for name, value in zip(fields, row[3:], strict=True):
            if value is None:
                continue
            try:
                message[name] = parse_json(_text(value)) if _JSON_FIELD.fullmatch(name) else _text(value)
            except ValueError as error:
                # The words of the message are kept without this field.
                skipped.append(Skipped(place, f"{name} is damaged and left out: {error}"))
        messages.append(message)

    def _rows(self, query: str, *values: str) -> tuple[list[Any], str | None]:
        """Return the rows of a query, and where the file is damaged those before the damage, and what it is."""
        rows: list[Any] = []
        with self._lock:
            try:
                for row in self._connection.execute(query, values):
                    rows.append(row)  # noqa: PERF402 - those read before an error are kept
            except sqlite3.Error as error:
                _raise_unless_damage(error, self.path)
                log.warning("transfer.database_damaged", path=str(self.path), why=str(error))
                return rows, str(error)
        return rows, None

    def _columns_of(self, table: str, required: set[str]) -> set[str]:
        """Return the columns of a real table; none where there is no such table. Views and virtual tables run code."""
        kinds = {row[2] for row in self._connection.execute(f"PRAGMA table_list({table})") if row[0] == "main"}
        columns = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
        if kinds == {"table"} and required <= columns:
            return columns
        if kinds:
            log.warning("transfer.table_refused", path=str(self.path), table=table, kind=", ".join(kinds))
        return set()


def _raise_unless_damage(error: sqlite3.Error, path: Path) -> None:
    """Raise an OSError where the disk is at fault, and any mistake in the use of the connection as it is."""
    if isinstance(error, sqlite3.ProgrammingError):
        raise error
    if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DISK_ERRORS:
        raise OSError(errno.EIO, f"the copy of this database can't be read: {error}", str(path)) from error


def _copy_unchanging(path: Path, copy: Path, owner: int) -> bool:
    """Copy the database and its WAL as they stood at one moment. Return False where there is nothing to copy."""
    for _ in range(_COPY_ATTEMPTS):
        before = _stamps(path)
        if not _copy_file(path, copy, owner):
            return False
        wal = path.with_name(path.name + "-wal")
        if not _copy_file(wal, copy.with_name(copy.name + "-wal"), owner) and find_file(wal):
            return False
        journal = path.with_name(path.name + "-journal")
        # A journal with content: a transaction is half written. It is never copied: it may name other files to delete.
        half_written = find_file(journal)
        if _stamps(path) == before and not (half_written and half_written.st_size):
            return True
    raise OSError(errno.EBUSY, "this database is being written; stop the program that uses it", str(path))


def _stamps(path: Path) -> list[tuple[int, int, int] | None]:
    """Return values that differ after the database or its WAL was written."""
    return [file_stamp(file) for file in (path, path.with_name(path.name + "-wal"))]


def _copy_file(path: Path, target: Path, owner: int) -> bool:
    """Copy a regular file of the user `owner`. Return False where there is none."""
    target.unlink(missing_ok=True)
    facts = find_file(path)
    if facts is not None and facts.st_uid != owner:
        # Asked before it is opened: a file of somebody else that can't be read is no reason to stop.
        log.warning("transfer.file_refused", path=str(path), why="not owned by the owner of the folder")
        return False
    descriptor = open_regular(path)
    if descriptor is None:
        return False
    with os.fdopen(descriptor, "rb") as source, target.open("xb") as written:
        if os.fstat(descriptor).st_uid != owner:
            return False
        shutil.copyfileobj(source, written, 1 << 20)
    return True


def _settle(connection: sqlite3.Connection) -> bool:
    """Make a plain file of the copy that can only be read. Return False for a database of Threadline."""
    # Undecodable text is told by its half surrogates, row by row, instead of failing the whole query.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    # EXCLUSIVE: the lock is kept, so SQLite never looks again for a journal beside the name that is gone.
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "locking_mode=EXCLUSIVE", "journal_mode=DELETE"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("PRAGMA query_only=ON").fetchall()
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID)


def _session(row: Any) -> DatabaseSession:
    session_id, source, user_id, title, model, started_at, ended_at, end_reason, parent = row
    return DatabaseSession(
        session_id=session_id,
        source=_readable(source),
        user_id=_readable(user_id),
        title=_readable(title),
        model=_readable(model),
        started_at=_moment(started_at),
        ended_at=_moment(ended_at),
        end_reason=_readable(end_reason),
        parent_session_id=parent if is_safe_id(parent) else None,
    )


def _text(value: object) -> str:
    """Return the text of a column, also of one stored as bytes. ValueError where it is none."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} instead of text")  # noqa: TRY004
    value.encode("utf-8")
    return value


def _readable(value: object) -> str | None:
    """Return the text of a column with undecodable bytes replaced; None where it is no text."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else None


def _content(text: str) -> Any:
    return parse_json(text.removeprefix(_JSON_CONTENT)) if text.startswith(_JSON_CONTENT) else text


def _moment(value: object) -> datetime | None:
    """Return the time of epoch seconds; None where there is none, or none that a calendar has."""
    if not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
