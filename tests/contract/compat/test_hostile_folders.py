"""Folders that somebody prepared: links, paths as ids, huge lines, foreign databases. Nothing is followed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.compat.old_folders import entry, fingerprints, origin, write_database, write_index, write_lines
from tests.contract.compat.talk import current, dm, texts, user

from threadline.compat import SessionStore
from threadline.transfer.hermes_database import HermesDatabase

Open = Callable[..., SessionStore]
KEY = "agent:main:telegram:dm:7"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder elsewhere with things that look like an older gateway's."""
    path = tmp_path / "secret"
    path.mkdir()
    write_index(path, entry("stolen", **origin()))
    write_lines(path, "s", "secret words")
    write_database(path, {"s": ["secret words"]})
    return path


@pytest.mark.parametrize("name", ["sessions.json", "s.jsonl", "state.db"])
def test_a_link_is_not_followed(folder: Path, secret: Path, open_store: Open, name: str) -> None:
    if name != "sessions.json":
        write_index(folder, entry("s", **origin()))
    (folder / name).symlink_to(secret / name)
    before = fingerprints(secret)
    store = open_store()
    assert "stolen" not in current(store).values()
    assert store.load_transcript("s") == []
    store.adopt_all()
    store.append_to_transcript("s", user("new"))
    assert texts(store, "s") == ["new"]
    path = store.get_transcript_path("s")
    assert "secret" not in path.read_text()
    assert not path.is_symlink()
    assert fingerprints(secret) == before
    assert (folder / name).is_symlink()


def test_a_link_to_a_wal_is_not_followed(folder: Path, secret: Path, open_store: Open) -> None:
    write_database(folder, {"s": ["one"]})
    (secret / "wal").write_bytes(b"x" * 64)
    (folder / "state.db-wal").symlink_to(secret / "wal")
    open_store().load_transcript("s")
    assert (secret / "wal").read_bytes() == b"x" * 64


@pytest.mark.parametrize("name", ["sessions.json", "s.jsonl", "state.db"])
def test_a_pipe_or_a_folder_is_no_file(folder: Path, open_store: Open, name: str) -> None:
    if name == "s.jsonl":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    store = open_store()
    assert store.load_transcript("s") == []
    assert store.list_sessions() == []
    store.append_to_transcript("s", user("new"))
    assert texts(store, "s") == ["new"]


@pytest.mark.parametrize("session_id", ["../secret/s", "/etc/passwd", "a/../../secret/s", ".", "a\\b"])
def test_an_id_that_is_a_path_is_skipped(folder: Path, secret: Path, open_store: Open, session_id: str) -> None:
    write_index(folder, entry(session_id, **origin()), entry("good", "agent:main:telegram:dm:8", **origin("8")))
    write_database(folder, {session_id: ["x"], "good": ["y"]})
    store = open_store()
    report = store.adopt_all()
    assert [place.place for place in report.skipped] == [KEY]
    assert current(store) == {"agent:main:telegram:dm:8": "good"}
    assert {found.session_id for found in store.core.list_sessions(include_ended=True)} == {"good"}


def test_a_line_that_is_too_long_is_skipped(folder: Path, open_store: Open) -> None:
    huge = b'{"role": "user", "content": "' + b"x" * (33 * 1024 * 1024) + b'"}'
    write_lines(folder, "s", "one", raw=[huge, b'{"role": "user", "content": "two"}'])
    store = open_store()
    report = store.adopt_all()
    assert texts(store, "s") == ["one", "two"]
    assert [place.place for place in report.skipped] == ["s.jsonl line 2"]


def test_deep_nesting_is_skipped(folder: Path, open_store: Open) -> None:
    deep = b'{"role": "user", "content": ' + b"[" * 300 + b"]" * 300 + b"}"
    deeper = b'{"role": "user", "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    write_lines(folder, "s", "one", raw=[deep, deeper])
    assert texts(open_store(), "s") == ["one"]


@pytest.mark.parametrize("script", ["CREATE VIEW messages AS SELECT 1 AS id", "CREATE TABLE other (x)"])
def test_a_database_with_other_contents_is_passed_over(folder: Path, open_store: Open, script: str) -> None:
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.execute(script)
    write_lines(folder, "s", "one")
    assert texts(open_store(), "s") == ["one"]


def test_a_trigger_is_never_run(folder: Path, open_store: Open) -> None:
    path = write_database(folder, {"s": ["one"]})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM sessions; END")
    before = fingerprints(folder)
    store = open_store()
    assert texts(store, "s") == ["one"]
    store.close()
    assert fingerprints(folder) == before


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_database_is_passed_over(folder: Path, open_store: Open, content: bytes) -> None:
    (folder / "state.db").write_bytes(content)
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "one")
    store = open_store()
    assert texts(store, "s") == ["one"]
    assert store.get_or_create_session(dm()).session_id == "s"
    store.close()
    assert (folder / "state.db").read_bytes() == content


def test_a_database_of_another_owner_is_passed_over(folder: Path) -> None:
    path = write_database(folder.parent, {"s": ["theirs"]})
    assert HermesDatabase.open(path, os.geteuid() + 1) is None
