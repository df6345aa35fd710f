"""The database of an older gateway: which rows are messages, which files are refused, and that nothing is written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from tests.unit.transfer.conftest import Database, Lines, say, user

from threadline.store.engine.sqlite.connection import APPLICATION_ID
from threadline.transfer.hermes import DatabaseSession, HermesFolder, Transcript
from threadline.transfer.hermes_database import HermesDatabase


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> None:
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


def test_a_row_becomes_a_message_with_its_fields_and_without_its_times(
    hermes: HermesFolder, database: Database
) -> None:
    connection = database()
    calls, parts = [{"id": "c", "function": {"name": "f"}}], [{"type": "text", "text": "hé"}]
    insert(connection, "messages", session_id="s", role="user", content="\x00json:" + json.dumps(parts), timestamp=1.5)
    insert(
        connection,
        "messages",
        session_id="s",
        role="assistant",
        tool_calls=json.dumps(calls),
        finish_reason="tool_calls",
        token_count=7,
        reasoning="because",
        reasoning_details='[{"a": 1}]',
        codex_reasoning_items="[2]",
        codex_message_items="[3]",
    )
    insert(connection, "messages", session_id="s", role="tool", content="done", tool_call_id="c", tool_name="f")
    assert hermes.read_transcript("s") == Transcript(
        [
            {"role": "user", "content": parts},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": calls,
                "finish_reason": "tool_calls",
                "reasoning": "because",
                "reasoning_details": [{"a": 1}],
                "codex_reasoning_items": [2],
                "codex_message_items": [3],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c", "tool_name": "f"},
        ],
        [],
        "database",
    )


def test_rows_come_by_id_without_undone_archived_and_meta_rows(hermes: HermesFolder, database: Database) -> None:
    connection = database()
    for number, (role, active, compacted) in enumerate(
        [("user", 1, 0), ("user", 0, 0), ("assistant", 0, 1), ("session_meta", 1, 0), ("assistant", 1, 1)]
    ):
        insert(
            connection,
            "messages",
            session_id="s",
            role=role,
            content=str(number),
            active=active,
            compacted=compacted,
            timestamp=9.0 - number,
        )
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert transcript.messages == [user("0"), {"role": "assistant", "content": "4"}]


def test_an_older_set_of_columns_is_enough(hermes: HermesFolder, database: Database) -> None:
    say(
        database(
            sessions="id TEXT PRIMARY KEY, source TEXT, started_at REAL",
            messages="id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT",
        ),
        "s",
        "one",
    )
    assert hermes.read_transcript("s") == Transcript([user("one")], [], "database")


def test_damaged_rows_are_skipped_and_damaged_fields_left_out(hermes: HermesFolder, database: Database) -> None:
    connection = database()
    say(connection, "s", "one", "\x00json:[", '\x00json:["x", NaN]')
    insert(connection, "messages", session_id="s", role="user", content=b"bytes")
    insert(connection, "messages", session_id="s", role="user", content=b"\xff")
    connection.execute("INSERT INTO messages (session_id, role, content) VALUES ('s', 'user', CAST(x'ff' AS TEXT))")
    insert(connection, "messages", session_id="s", role="assistant", content="words", tool_calls="[")
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert transcript.messages == [user("one"), user("bytes"), {"role": "assistant", "content": "words"}]
    assert [one.place for one in transcript.skipped] == [f"state.db row {number}" for number in (2, 3, 5, 6, 7)]
    assert "tool_calls" in transcript.skipped[-1].why


def test_the_sessions_are_listed_with_times_in_utc(hermes: HermesFolder, database: Database) -> None:
    connection = database()
    insert(
        connection,
        "sessions",
        id="b",
        source="telegram",
        user_id="7",
        title="Trip",
        model="m",
        started_at=0.5,
        ended_at=86400,
        end_reason="reset",
        parent_session_id="a",
    )
    insert(connection, "sessions", id="a", source="cli", started_at=float("inf"), ended_at="soon")
    insert(connection, "sessions", id="../c", source="cli", started_at=0, parent_session_id="../d")
    started, ended = datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC), datetime(1970, 1, 2, tzinfo=UTC)
    assert hermes.database_sessions() == [
        DatabaseSession("a", "cli", None, None, None, None, None, None, None),
        DatabaseSession("b", "telegram", "7", "Trip", "m", started, ended, "reset", "a"),
    ]


def test_missing_columns_of_sessions_are_none(hermes: HermesFolder, database: Database) -> None:
    insert(database(sessions="id TEXT PRIMARY KEY, source TEXT"), "sessions", id="s", source="cli")
    assert hermes.database_sessions() == [DatabaseSession("s", "cli", None, None, None, None, None, None, None)]


def test_ids_come_from_both_tables_and_the_files(hermes: HermesFolder, lines: Lines, database: Database) -> None:
    connection = database()
    say(connection, "said", "one")
    say(connection, "../unsafe", "one")
    insert(connection, "sessions", id="listed", source="cli", started_at=0)
    lines("file")
    lines("said")
    assert hermes.transcript_ids() == ["file", "listed", "said"]
    assert [hermes.has_transcript(name) for name in ("file", "listed", "said", "never")] == [True, True, True, False]
    assert hermes.read_transcript("listed") == Transcript([], [], "database")
    assert hermes.read_transcript("never") is None


def test_what_is_only_in_the_wal_is_read_and_nothing_is_written(
    hermes: HermesFolder, folder: Path, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    connection = database(folder.parent)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    say(connection, "s", "only in the wal")
    kept = {path: path.read_bytes() for path in folder.parent.iterdir() if path.is_file()}
    assert b"only in the wal" not in kept[folder.parent / "state.db"]
    assert hermes.read_transcript("s") == Transcript([user("only in the wal")], [], "database")
    assert list(scratch.iterdir()) == []
    assert {path: path.read_bytes() for path in folder.parent.iterdir() if path.is_file()} == kept
    assert list(folder.iterdir()) == []


def test_the_database_is_read_as_of_the_first_need_until_the_folder_is_closed(
    hermes: HermesFolder, database: Database
) -> None:
    connection = database()
    say(connection, "s", "one")
    assert hermes.has_transcript("s")
    say(connection, "s", "two")
    assert hermes.read_transcript("s") == Transcript([user("one")], [], "database")
    hermes.close()
    assert hermes.read_transcript("s") == Transcript([user("one"), user("two")], [], "database")


def test_the_folder_comes_before_its_parent(hermes: HermesFolder, folder: Path, database: Database) -> None:
    say(database(folder.parent), "s", "parent")
    say(database(folder), "s", "folder")
    assert hermes.read_transcript("s") == Transcript([user("folder")], [], "database")


@pytest.mark.parametrize("kind", ["empty", "text", "header", "ours", "link", "pipe", "folder", "wal"])
def test_a_database_that_is_none_of_theirs_is_absent_and_the_parent_is_asked(
    hermes: HermesFolder, folder: Path, database: Database, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    say(database(folder.parent), "s", "parent")
    path = folder / "state.db"
    _make_unusable(path, kind, database)
    assert hermes.read_transcript("s") == Transcript([user("parent")], [], "database")
    assert hermes.files_of("s") == [folder.parent / "state.db"]
    assert bool(caplog.records) == (kind not in {"ours", "empty"})


def _make_unusable(path: Path, kind: str, database: Database) -> None:
    match kind:
        case "empty" | "text" | "header":
            path.write_bytes({"empty": b"", "text": b"words " * 999, "header": b"SQLite format 3\0" * 999}[kind])
        case "link":
            elsewhere = path.parent / "elsewhere"
            elsewhere.mkdir()
            say(database(elsewhere), "s", "elsewhere", "elsewhere")
            path.symlink_to(elsewhere / "state.db")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            connection = database(path.parent)
            say(connection, "s", "wrong", "wrong")
            if kind == "ours":
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            else:
                path.with_name("state.db-wal").symlink_to(path)


def test_a_database_of_another_user_is_absent(folder: Path, database: Database) -> None:
    say(database(), "s", "one")
    assert HermesDatabase.open(folder / "state.db", os.getuid() + 1) is None
    opened = HermesDatabase.open(folder / "state.db", os.getuid())
    assert opened is not None
    opened.close()


def test_a_database_that_changes_while_it_is_copied_is_copied_again(
    hermes: HermesFolder, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = database()
    say(connection, "s", "one")
    later = ["two"]
    copy = shutil.copyfileobj

    def copy_while_written(source: BinaryIO, target: BinaryIO, length: int) -> None:
        copy(source, target, length)
        if later:
            say(connection, "s", later.pop())

    monkeypatch.setattr(shutil, "copyfileobj", copy_while_written)
    assert hermes.read_transcript("s") == Transcript([user("one"), user("two")], [], "database")


def test_a_damaged_database_leaves_the_file_transcript(
    hermes: HermesFolder, folder: Path, lines: Lines, database: Database
) -> None:
    lines("s", user("file"))
    connection = database()
    say(connection, "s", *("x" * 3000 for _ in range(50)))
    connection.close()
    path = folder / "state.db"
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xaa" * (len(content) - 8192))
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert (transcript.messages, transcript.source) == ([user("file")], "file")
    assert [one.place for one in transcript.skipped] == ["state.db"]


def test_a_half_written_database_is_an_error_with_its_path(
    hermes: HermesFolder, folder: Path, lines: Lines, database: Database
) -> None:
    lines("s", user("file"))
    say(database(), "s", "one", "two")
    (folder / "state.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 504)
    with pytest.raises(OSError, match=r"state\.db"):
        hermes.read_transcript("s")
    (folder / "state.db-journal").unlink()
    assert hermes.read_transcript("s") == Transcript([user("one"), user("two")], [], "database")


@pytest.mark.parametrize(
    "hostile",
    [
        # A query over this view would never end.
        """CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
        SELECT id, 's' AS session_id, 'user' AS role, 'x' AS content FROM n""",
        "CREATE VIRTUAL TABLE messages USING fts5(id, session_id, role, content)",
        "CREATE TABLE messages (session_id TEXT, words TEXT)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content AS (zeroblob(999999999)))",
    ],
)
def test_only_a_real_table_of_messages_is_read(
    hermes: HermesFolder, database: Database, lines: Lines, caplog: pytest.LogCaptureFixture, hostile: str
) -> None:
    connection = database()
    connection.execute("DROP TABLE messages")
    connection.execute(hostile)
    insert(connection, "sessions", id="s", source="cli", started_at=0)
    lines("s", user("file"))
    assert hermes.read_transcript("s") == Transcript([user("file")], [], "file")
    assert hermes.transcript_ids() == ["s"]
    assert "transfer.table_refused" in caplog.text


def test_a_view_that_says_it_is_a_table_is_refused(hermes: HermesFolder, folder: Path, database: Database) -> None:
    connection = database()
    say(connection, "s", "real")
    connection.execute("PRAGMA writable_schema=ON")
    sql = "CREATE VIEW messages AS SELECT 1 AS id, 's' AS session_id, 'user' AS role, 'made up' AS content"
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'messages'", (sql,))
    connection.close()
    assert hermes.read_transcript("s") is None


def test_triggers_of_the_file_never_run(hermes: HermesFolder, folder: Path, database: Database) -> None:
    connection = database()
    say(connection, "s", "one")
    for event in ("INSERT", "UPDATE", "DELETE"):
        connection.execute(f"CREATE TRIGGER on_{event} AFTER {event} ON messages BEGIN DELETE FROM messages; END")
    before = (folder / "state.db").read_bytes()
    assert hermes.read_transcript("s") == Transcript([user("one")], [], "database")
    assert hermes.read_transcript("s") == Transcript([user("one")], [], "database")
    assert (folder / "state.db").read_bytes() == before


def test_threads_share_one_copy(folder: Path, database: Database) -> None:
    connection = database()
    for number in range(20):
        say(connection, f"s{number}", *(f"{number}.{index}" for index in range(20)))
    hermes = HermesFolder(folder)
    try:
        with ThreadPoolExecutor(8) as pool:
            read = list(pool.map(lambda number: hermes.read_transcript(f"s{number % 20}"), range(200)))
    finally:
        hermes.close()
    expected = [Transcript([user(f"{n}.{index}") for index in range(20)], [], "database") for n in range(20)]
    assert read == expected * 10
