"""Folders as older gateways left them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

FOUR = {"created_at": "2025-06-01T10:00:00.123456", "updated_at": "2025-06-02T11:00:00"}
SESSIONS = (
    "id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, started_at REAL NOT NULL, ended_at REAL,"
    " end_reason TEXT, parent_session_id TEXT, title TEXT"
)
MESSAGES = (
    "id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_call_id TEXT,"
    " tool_calls TEXT, tool_name TEXT, timestamp REAL"
)
# What each revision of the index wrote into an entry beside the four fields that all have.
REVISIONS: dict[str, dict[str, Any]] = {
    "first": {},
    "named": {"display_name": "Ada", "platform": "telegram", "chat_type": "dm"},
    "tokens": {"platform": "telegram", "chat_type": "dm", "input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    "origin": {"platform": "telegram", "chat_type": "dm", "origin": {"platform": "telegram", "chat_id": "7"}},
    "flushed": {
        "platform": "telegram",
        "chat_type": "dm",
        "origin": {"platform": "telegram", "chat_id": "7", "chat_type": "dm", "user_id": "7", "user_name": "Ada"},
        "last_prompt_tokens": 9,
        "estimated_cost_usd": 0.5,
        "cost_status": "estimated",
        "memory_flushed": True,
    },
    "newest": {
        "platform": "telegram",
        "chat_type": "dm",
        "origin": {"platform": "telegram", "chat_id": "7", "chat_type": "dm", "user_id": "7", "user_name": "Ada"},
        "cache_read_tokens": 5,
        "cache_write_tokens": 6,
        "expiry_finalized": True,
        "suspended": False,
        "resume_pending": False,
        "resume_reason": None,
        "last_resume_marked_at": None,
    },
}


def entry(session_id: str, key: str = "agent:main:telegram:dm:7", **fields: Any) -> dict[str, Any]:
    """An entry of an index."""
    return {"session_key": key, "session_id": session_id, **FOUR, **fields}


def origin(chat: str = "7", **fields: Any) -> dict[str, Any]:
    """The source that an entry came from, and what else is told of it."""
    source = {"platform": "telegram", "chat_id": chat, "chat_type": "dm"} | fields
    return {"platform": source["platform"], "chat_type": source["chat_type"], "origin": source}


def write_index(folder: Path, *entries: dict[str, Any], **other: Any) -> None:
    """Write `sessions.json` with these entries under their keys, and other values."""
    index = {one["session_key"]: one for one in entries}
    (folder / "sessions.json").write_text(json.dumps({"_README": "Written by the gateway.", **index, **other}))


def write_lines(folder: Path, session_id: str, *texts: str, raw: Sequence[bytes] = ()) -> Path:
    """Write a transcript file with messages of a user; `raw` lines follow as they are."""
    path = folder / f"{session_id}.jsonl"
    said = [json.dumps({"role": "user", "content": text, "timestamp": "2025-06-01T10:00:00"}) for text in texts]
    path.write_bytes(b"".join(line + b"\n" for line in [*(one.encode() for one in said), *raw]))
    return path


def write_database(folder: Path, said: dict[str, Sequence[str]], *, source: str = "telegram") -> Path:
    """Write `state.db` with sessions and messages of a user."""
    path = folder / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        fill_database(connection, said, source=source)
    return path


def fill_database(connection: sqlite3.Connection, said: dict[str, Sequence[str]], *, source: str = "telegram") -> None:
    """Make the two tables where they are missing, and add sessions and messages of a user."""
    connection.execute(f"CREATE TABLE IF NOT EXISTS sessions ({SESSIONS})")
    connection.execute(f"CREATE TABLE IF NOT EXISTS messages ({MESSAGES})")
    for session_id, texts in said.items():
        row = (session_id, source, 1_750_000_000.0)
        connection.execute("INSERT INTO sessions (id, source, started_at) VALUES (?, ?, ?)", row)
        for text in texts:
            rows = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 0)"
            connection.execute(rows, (session_id, text))


def fingerprints(folder: Path) -> dict[str, tuple[str, int]]:
    """The bytes and the time of every file of an older gateway in the folder and beside it."""
    found = {}
    for path in sorted([*folder.iterdir(), *folder.parent.iterdir()]):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("threadline.db"):
            found[str(path)] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
    return found
