"""The index and the transcript files of an older gateway: what is read, what is skipped, what is never followed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.transfer.conftest import Database, Lines, say, user

from threadline.transfer.hermes import HermesFolder, IndexEntry, Skipped, is_safe_id

TIMES = {"created_at": "2026-01-02T03:04:05.678901", "updated_at": "2026-01-02T03:04:05Z"}


def read_messages(hermes: HermesFolder, session_id: str) -> list[dict[str, Any]]:
    transcript = hermes.read_transcript(session_id)
    assert transcript is not None
    return transcript.messages


@contextmanager
def denied(folder: Path) -> Iterator[None]:
    """The folder may not be read, also where the tests are run by root."""
    folder.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.parametrize(
    "text", ["20260102_030405_ab12", "a b", "é", "x" * 200, "a.b", "-", "agent:main:telegram:dm:1"]
)
def test_a_plain_file_name_is_a_safe_id(text: str) -> None:
    assert is_safe_id(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", ".a", "../a", "a/b", "a\\b", "a\0", "a\n", "\x7f", "\x85", "x" * 201, "\ud800", None, 5]
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_safe_id(text)


@pytest.mark.parametrize("verb", ["has_transcript", "read_transcript", "files_of"])
def test_an_unsafe_id_is_an_error_of_the_call(hermes: HermesFolder, folder: Path, verb: str) -> None:
    (folder.parent / "secret.jsonl").write_text('{"role": "user"}\n')
    with pytest.raises(ValueError, match="plain file name"):
        getattr(hermes, verb)("../secret")


def test_the_index_is_read_as_it_is_stored(hermes: HermesFolder, folder: Path) -> None:
    fields = {"session_id": "s1", "session_key": "other", "origin": {"platform": "telegram"}, **TIMES}
    (folder / "sessions.json").write_text(json.dumps({"_README": "words", "_x": {}, "agent:main:telegram:dm": fields}))
    assert hermes.read_index() == ([IndexEntry("agent:main:telegram:dm", "s1", fields)], [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("text", "no object"),
        (TIMES, "no session_id"),
        ({"session_id": "../a", **TIMES}, "a session_id that is no plain file name"),
        ({"session_id": None, **TIMES}, "a session_id that is no plain file name"),
        ({"session_id": "s", "created_at": "2026-01-02"}, "updated_at is no time"),
        ({"session_id": "s", **TIMES, "created_at": "yesterday"}, "created_at is no time"),
        ({"session_id": "s", **TIMES, "updated_at": 5}, "updated_at is no time"),
        ({"session_id": "s", **TIMES, "updated_at": "9999-12-31T23:59:59-12:00"}, "updated_at is no time"),
    ],
)
def test_an_entry_that_cannot_be_used_is_skipped_alone(
    hermes: HermesFolder, folder: Path, fields: Any, why: str
) -> None:
    good = {"session_id": "s", **TIMES}
    (folder / "sessions.json").write_text(json.dumps({"bad": fields, "good": good}))
    assert hermes.read_index() == ([IndexEntry("good", "s", good)], [Skipped("bad", why)])


def test_a_key_without_utf8_is_skipped_and_can_be_printed(hermes: HermesFolder, folder: Path) -> None:
    (folder / "sessions.json").write_text(json.dumps({"\ud800": {"session_id": "s", **TIMES}}))
    assert hermes.read_index() == ([], [Skipped("\\ud800", "a key that has no UTF-8")])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": NaN}', b'"\xff"', b"[" * 100_000])
def test_an_index_that_is_no_object_is_skipped_whole(hermes: HermesFolder, folder: Path, content: bytes) -> None:
    (folder / "sessions.json").write_bytes(content)
    entries, skipped = hermes.read_index()
    assert (entries, [one.place for one in skipped]) == ([], ["sessions.json"])


def test_an_index_behind_a_link_is_not_followed(hermes: HermesFolder, folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.json"
    elsewhere.write_text(json.dumps({"k": {"session_id": "s", **TIMES}}))
    (folder / "sessions.json").symlink_to(elsewhere)
    assert hermes.read_index() == ([], [Skipped("sessions.json", "not a regular file")])
    assert hermes.files_of("s") == []


def test_the_stamp_changes_with_the_index(hermes: HermesFolder, folder: Path) -> None:
    index = folder / "sessions.json"
    assert hermes.index_stamp() is None
    assert hermes.read_index() == ([], [])
    stamps = []
    for content, time in (("{}", 1), ("{ }", 1), ("{ }", 2)):
        index.write_text(content)
        os.utime(index, (time, time))
        stamps.append(hermes.index_stamp())
    (folder / "new").write_text("{ }")
    os.utime(folder / "new", (2, 2))
    (folder / "new").replace(index)
    assert len({*stamps, hermes.index_stamp()}) == 4
    assert hermes.index_stamp() == hermes.index_stamp()


def test_lines_become_messages_and_damaged_ones_are_named(
    hermes: HermesFolder, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    lines(
        "s",
        {"role": "session_meta", "tools": []},
        user("one"),
        "",
        '{"role": "user", "content": "cut off',
        b'{"role": "user", "content": "\xff"}',
        "[1]",
        '{"role": "user", "content": NaN}',
        '{"role": "user", "content": 1e999}',
        "[" * 100_000,
        {"content": "no role"},
    )
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert transcript.messages == [user("one"), {"content": "no role"}]
    assert transcript.source == "file"
    assert [one.place for one in transcript.skipped] == [f"s.jsonl line {number}" for number in (4, 5, 6, 7, 8, 9)]
    assert [vars(record)["place"] for record in caplog.records] == [one.place for one in transcript.skipped]
    assert "cut off" not in str([vars(record) for record in caplog.records])


def test_a_last_line_without_an_end_counts(hermes: HermesFolder, folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(b'{"a": 1}\r\n{"b": 2}')
    assert read_messages(hermes, "s") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_that_is_too_long_is_refused_and_the_next_is_read(folder: Path, lines: Lines, end: str) -> None:
    fits, long = json.dumps(user("x" * 69)), json.dumps(user("x" * 1000))
    assert len(fits) == 100
    (folder / "s.jsonl").write_text(f"{fits}\n{long}\n{fits}\n{long}{end}")
    transcript = HermesFolder(folder, max_line_bytes=100).read_transcript("s")
    assert transcript is not None
    assert transcript.messages == [user("x" * 69)] * 2
    assert transcript.skipped == [Skipped(f"s.jsonl line {n}", "longer than 100 bytes") for n in (2, 4)]


def test_what_is_no_regular_file_is_not_read(hermes: HermesFolder, folder: Path, lines: Lines) -> None:
    real = lines("real", user("hello"))
    (folder / "link.jsonl").symlink_to(real)
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    (folder / "sub.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / ".hidden.jsonl").write_text("{}")
    (folder / os.fsdecode(b"\xff.jsonl")).write_text("{}")
    (folder / "note.txt").write_text("{}")
    assert hermes.transcript_ids() == ["real"]
    for session_id in ("link", "gone", "sub", "pipe", "never", "\U0001f600" * 50):
        assert not hermes.has_transcript(session_id)
        assert hermes.read_transcript(session_id) is None
        assert hermes.files_of(session_id) == []


@pytest.mark.parametrize(
    ("in_file", "in_database", "source"),
    [(["f"], None, "file"), (None, ["d"], "database"), (["f"], ["d"], "database"), (["f", "f"], ["d"], "file")],
)
def test_the_longer_transcript_wins_and_of_equals_the_database(
    hermes: HermesFolder,
    lines: Lines,
    database: Database,
    in_file: list[str] | None,
    in_database: list[str] | None,
    source: str,
) -> None:
    if in_file:
        lines("s", *map(user, in_file), {"role": "session_meta"}, {"role": "session_meta"}, "damaged", "damaged")
    say(database(), "s", *(in_database or []))
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert transcript.source == source
    assert transcript.messages == [user(text) for text in (in_file if source == "file" else in_database) or []]
    assert len(transcript.skipped) == (2 if in_file else 0)


def test_a_file_without_one_good_line_is_no_missing_transcript(hermes: HermesFolder, lines: Lines) -> None:
    lines("s", "damaged")
    transcript = hermes.read_transcript("s")
    assert transcript is not None
    assert (transcript.messages, len(transcript.skipped), transcript.source) == ([], 1, "file")


def test_the_files_that_hold_a_session_are_named(
    hermes: HermesFolder, folder: Path, lines: Lines, database: Database
) -> None:
    lines("s", user("one"))
    connection = database(folder.parent)
    say(connection, "s", "one")
    say(connection, "other", "two")
    (folder / "sessions.json").write_text(json.dumps({"k": {"session_id": "s"}}))
    kept = folder.parent / "state.db"
    assert hermes.files_of("s") == [folder / "s.jsonl", kept, folder / "sessions.json"]
    connection.execute("PRAGMA journal_mode=WAL")
    say(connection, "other", "three")
    assert hermes.files_of("other") == [kept, kept.with_name("state.db-wal")]
    assert hermes.files_of("never") == []


def test_a_folder_that_may_not_be_read_is_not_an_empty_one(folder: Path, lines: Lines) -> None:
    lines("s", user("one"))
    hermes = HermesFolder(folder)
    with denied(folder):
        for read in (hermes.read_index, hermes.transcript_ids, lambda: hermes.read_transcript("s")):
            with pytest.raises(PermissionError) as refused:
                read()
            assert str(folder) in str(refused.value)
    assert hermes.transcript_ids() == ["s"]


def test_a_file_in_place_of_the_folder_is_not_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hermes = HermesFolder(tmp_path / "file")
    for read in (hermes.read_index, hermes.index_stamp, hermes.transcript_ids, lambda: hermes.has_transcript("s")):
        with pytest.raises(NotADirectoryError):
            read()
