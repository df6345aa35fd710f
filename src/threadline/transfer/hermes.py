"""The folder of an older gateway: `sessions.json`, `*.jsonl`, `state.db`. Nothing in it is written, no link followed."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from threadline.errors import InvalidMessage
from threadline.log import get_logger
from threadline.model.message import encode_message
from threadline.store.facade import is_open_here
from threadline.transfer.files import Skipped, file_stamp, find_file, is_safe_id, open_regular, parse_json
from threadline.transfer.hermes_database import DatabaseSession, HermesDatabase

__all__ = ["DatabaseSession", "HermesFolder", "IndexEntry", "Skipped", "Transcript", "is_safe_id"]

log = get_logger(__name__)

MAX_LINE_BYTES = 32 * 1024 * 1024
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_INDEX = "sessions.json"
_DATABASE = "state.db"
_SUFFIX = ".jsonl"


class IndexEntry(msgspec.Struct, frozen=True):
    """An entry of `sessions.json` as it is stored. Its id is safe and its two times can be read."""

    key: str
    session_id: str
    fields: dict[str, Any]


class Transcript(msgspec.Struct, frozen=True):
    """The messages of a session, what had to be left out, and which of the two places they come from."""

    messages: list[dict[str, Any]]
    skipped: list[Skipped]
    source: Literal["file", "database"]


class HermesFolder:
    """Reads such a folder. Safe to use from several threads.

    The database is copied when it is first needed and read as it was then, until `close()`. OSError with the path,
    from any method, where the disk refuses to be read: never an empty answer.
    """

    def __init__(self, folder: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.folder = folder.absolute()
        self._max_line_bytes = max_line_bytes
        self._lock = threading.Lock()
        self._database: HermesDatabase | None = None
        self._database_sought = False

    def close(self) -> None:
        """Let go of the copy of the database. A later call that needs it makes a new one."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database, self._database_sought = None, False

    def index_stamp(self) -> str | None:
        """Return a text that differs after `sessions.json` changed; None where there is no such file."""
        stamp = file_stamp(self.folder / _INDEX)
        return None if stamp is None else "-".join(map(str, stamp))

    def read_index(self) -> tuple[list[IndexEntry], list[Skipped]]:
        """Return the entries of `sessions.json` in the order of the file, and those that can't be used."""
        index, why = self._index()
        if why:
            return [], _logged([Skipped(_INDEX, why)])
        entries: list[IndexEntry] = []
        skipped: list[Skipped] = []
        for key, fields in index.items():
            if key.startswith("_"):
                continue
            if why := _entry_error(key, fields):
                skipped.append(Skipped(key.encode("utf-8", "backslashreplace").decode(), why))
            else:
                entries.append(IndexEntry(key, fields["session_id"], fields))
        return entries, _logged(skipped)

    def transcript_ids(self) -> list[str]:
        """Return the ids of all sessions that have a transcript file or are in the database, sorted."""
        with os.scandir(self.folder) as found:
            files = {
                file.name.removesuffix(_SUFFIX)
                for file in found
                if file.name.endswith(_SUFFIX) and file.is_file(follow_symlinks=False)
            }
        database = self._opened_database()
        stored = database.session_ids() if database else set()
        return sorted(stored | {name for name in files if is_safe_id(name)})

    def has_transcript(self, session_id: str) -> bool:
        """Return whether `read_transcript` finds something. ValueError for an id that is no plain file name."""
        if _is_regular(self._file_of(session_id)):
            return True
        database = self._opened_database()
        return database is not None and database.has(session_id)

    def read_transcript(self, session_id: str) -> Transcript | None:
        """Return the longer of the two transcripts, of equal ones the database's; None where there is neither.

        ValueError for an id that is no plain file name. What was left out of either transcript is in `skipped`.
        """
        in_file = self._read_file(self._file_of(session_id))
        database = self._opened_database()
        in_database = database.messages(session_id) if database else None
        skipped = _logged([place for found in (in_file, in_database) if found for place in found[1]])
        if in_file and (in_database is None or _count_storable(in_file[0]) > _count_storable(in_database[0])):
            return Transcript(in_file[0], skipped, "file")
        return None if in_database is None else Transcript(in_database[0], skipped, "database")

    def database_sessions(self) -> list[DatabaseSession]:
        """Return the sessions that the database lists, sorted by id; none where there is no database."""
        database = self._opened_database()
        return database.sessions() if database else []

    def files_of(self, session_id: str) -> list[Path]:
        """Return the files that hold words of the session. ValueError for an id that is no plain file name."""
        file = self._file_of(session_id)
        files = [file] if _is_regular(file) else []
        database = self._opened_database()
        if database and database.has(session_id):
            wal = database.path.with_name(database.path.name + "-wal")
            files += [path for path in (database.path, wal) if find_file(path)]
        entries = self._index()[0].values()
        if any(isinstance(fields, dict) and fields.get("session_id") == session_id for fields in entries):
            files.append(self.folder / _INDEX)
        return files

    def _file_of(self, session_id: str) -> Path:
        if not is_safe_id(session_id):
            raise ValueError(f"{session_id!r} can't be the id of a session: it has to be a plain file name.")
        return self.folder / f"{session_id}{_SUFFIX}"

    def _index(self) -> tuple[dict[str, Any], str | None]:
        """Return the object in `sessions.json`, empty where there is no file, and why it could not be read."""
        path = self.folder / _INDEX
        descriptor = open_regular(path)
        if descriptor is None:
            return {}, "not a regular file" if find_file(path) else None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_MAX_INDEX_BYTES + 1)
        if len(content) > _MAX_INDEX_BYTES:
            return {}, f"larger than {_MAX_INDEX_BYTES} bytes"
        try:
            index = parse_json(content.decode("utf-8"))
        except ValueError as error:
            return {}, f"no JSON: {_reason(error)}"
        return (index, None) if isinstance(index, dict) else ({}, "no JSON object")

    def _read_file(self, path: Path) -> tuple[list[dict[str, Any]], list[Skipped]] | None:
        descriptor = open_regular(path)
        if descriptor is None:
            return None
        messages: list[dict[str, Any]] = []
        skipped: list[Skipped] = []
        with os.fdopen(descriptor, "rb") as file:
            for number, line in enumerate(_lines(file, self._max_line_bytes), 1):
                message = _message(line) if line is not None else f"longer than {self._max_line_bytes} bytes"
                if isinstance(message, str):
                    skipped.append(Skipped(f"{path.name} line {number}", message))
                elif message is not None and message.get("role") != "session_meta":
                    messages.append(message)
        return messages, skipped

    def _opened_database(self) -> HermesDatabase | None:
        """Return the database of this folder, else of its parent; None where neither has one."""
        with self._lock:
            if not self._database_sought:
                owner = self.folder.stat().st_uid
                paths = (self.folder / _DATABASE, self.folder.parent / _DATABASE)
                opened = (HermesDatabase.open(path, owner) for path in paths if not is_open_here(path))
                self._database = next((database for database in opened if database is not None), None)
                self._database_sought = True
            return self._database


def _lines(file: BinaryIO, max_bytes: int) -> Iterator[bytes | None]:
    """Yield each line, None for one that is too long, without holding more than a line of `max_bytes` in memory."""
    while line := file.readline(max_bytes + 1):
        if len(line) <= max_bytes or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(min(max_bytes, 1 << 20))
        yield None


def _message(line: bytes) -> dict[str, Any] | str | None:
    """Return the message of a line, None for a blank line, or why the line can't be read."""
    if not line.strip():
        return None
    try:
        message = parse_json(line.decode("utf-8"))
    except ValueError as error:
        return f"damaged: {_reason(error)}"
    return message if isinstance(message, dict) else "no JSON object"


def _count_storable(messages: list[dict[str, Any]]) -> int:
    """Return how many of the messages a store takes: those that it refuses make a transcript no longer."""
    return sum(1 for message in messages if _is_storable(message))


def _is_storable(message: dict[str, Any]) -> bool:
    role = message.get("role")
    try:
        encode_message(message if isinstance(role, str) and role else message | {"role": "unknown"})
    except InvalidMessage:
        return False
    return True


def _entry_error(key: str, fields: object) -> str | None:
    """Return why an entry of the index can't be used, or None."""
    if not isinstance(fields, dict):
        return "no object"
    if any("\ud800" <= character <= "\udfff" for character in key):
        return "a key that has no UTF-8"
    if "session_id" not in fields:
        return "no session_id"
    if not is_safe_id(fields["session_id"]):
        return "a session_id that is no plain file name"
    for name in ("created_at", "updated_at"):
        try:
            # Beyond the calendar there are times that can be read, but not placed in UTC.
            datetime.fromisoformat(fields[name]).astimezone(UTC)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return f"{name} is no time"
    return None


def _reason(error: ValueError) -> str:
    """Return what is wrong, without the text that is wrong: it may be somebody's words."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    return str(error)


def _is_regular(path: Path) -> bool:
    facts = find_file(path)
    return facts is not None and stat.S_ISREG(facts.st_mode)


def _logged(skipped: list[Skipped]) -> list[Skipped]:
    for one in skipped:
        log.warning("transfer.skipped", place=one.place, why=one.why)
    return skipped
