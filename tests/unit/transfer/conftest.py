"""What the tests of old folders share: a folder under a parent of its own, and ways to fill it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from threadline.transfer.hermes import HermesFolder

Database: TypeAlias = Callable[..., sqlite3.Connection]
Lines: TypeAlias = Callable[..., Path]

# The columns of the newest layout that a reader may meet.
SESSIONS = (
    "id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, title TEXT, model TEXT, started_at REAL NOT NULL, ended_at REAL,"
    " end_reason TEXT, parent_session_id TEXT"
)
MESSAGES = (
    "id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_call_id TEXT,"
    " tool_calls TEXT, tool_name TEXT, timestamp REAL, token_count INTEGER, finish_reason TEXT, reasoning TEXT,"
    " reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT, codex_message_items TEXT,"
    " active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in a folder that is empty otherwise."""
    path = tmp_path / "home" / "sessions"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def hermes(folder: Path) -> Iterator[HermesFolder]:
    """The reader of that folder."""
    reader = HermesFolder(folder)
    yield reader
    reader.close()


@pytest.fixture
def lines(folder: Path) -> Lines:
    """Writes a transcript file: texts and bytes as they are, anything else as JSON."""

    def write(session_id: str, *content: Any) -> Path:
        path = folder / f"{session_id}.jsonl"
        raw = [one if isinstance(one, bytes) else _text(one).encode() for one in content]
        path.write_bytes(b"".join(line + b"\n" for line in raw))
        return path

    return write


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    """Makes `state.db` with the two tables; the connection that it returns is closed at the end."""
    opened: list[sqlite3.Connection] = []

    def make(where: Path = folder, sessions: str = SESSIONS, messages: str = MESSAGES) -> sqlite3.Connection:
        connection = sqlite3.connect(where / "state.db", isolation_level=None)
        opened.append(connection)
        connection.execute(f"CREATE TABLE sessions ({sessions})")
        connection.execute(f"CREATE TABLE messages ({messages})")
        return connection

    yield make
    for connection in opened:
        connection.close()


def say(connection: sqlite3.Connection, session_id: str, *texts: str) -> None:
    """Store messages of a user."""
    for text in texts:
        connection.execute("INSERT INTO messages (session_id, role, content) VALUES (?, 'user', ?)", (session_id, text))


def user(text: str) -> dict[str, Any]:
    """A message of a user."""
    return {"role": "user", "content": text}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
