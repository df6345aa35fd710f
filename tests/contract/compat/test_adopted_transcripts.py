"""Old transcripts: taken in at a session's first use of any kind, once, the longer of two, and never back after a delete."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.old_folders import (
    entry,
    fill_database,
    fingerprints,
    origin,
    write_database,
    write_index,
    write_lines,
)
from tests.contract.compat.talk import dm, texts, user

from threadline.compat import SessionDB, SessionStore

Open = Callable[..., SessionStore]
KEY = "agent:main:telegram:dm:7"


@pytest.fixture
def old(folder: Path) -> Path:
    """A folder with one session of two messages, and its index."""
    write_index(folder, entry("s", **origin(user_id="7")))
    write_lines(folder, "s", "one", "two")
    return folder


def append(store: SessionStore) -> None:
    store.append_to_transcript("s", user("new"))


def append_stored(store: SessionStore) -> None:
    store.append_to_transcript("s", user("new"), skip_db=True)


def switch(store: SessionStore) -> None:
    store.switch_session(KEY, "s")
    append(store)


def switch_from_elsewhere(store: SessionStore) -> None:
    key = store.get_or_create_session(dm("8")).session_key
    store.switch_session(key, "s")
    append(store)


def export(store: SessionStore) -> None:
    store.get_transcript_path("s")
    append(store)


def search(store: SessionStore) -> None:
    assert [hit.session.session_id for hit in store.search("two")] == ["s"]
    append(store)


def set_id(store: SessionStore) -> None:
    entry = store.get_or_create_session(dm("8"))
    entry.session_id = "s"
    append(store)


USES = [append, append_stored, switch, switch_from_elsewhere, export, search, set_id]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["file", "database", "loose file"])
def test_at_any_first_use_the_old_messages_come_first(
    folder: Path, open_store: Open, use: Callable[[SessionStore], None], kind: str
) -> None:
    if kind != "loose file":
        write_index(folder, entry("s", **origin(user_id="7")))
    else:
        write_index(folder, entry("other", **origin(user_id="7")))
    if kind == "database":
        write_database(folder.parent, {"s": ["one", "two"]})
    else:
        write_lines(folder, "s", "one", "two")
    before = fingerprints(folder)
    store = open_store()
    use(store)
    assert texts(store, "s") == ["one", "two", "new"]
    store.close()
    assert before.items() <= fingerprints(folder).items()
    assert texts(open_store(), "s") == ["one", "two", "new"]


def test_a_rewrite_keeps_the_old_messages_reachable(old: Path, open_store: Open) -> None:
    store = open_store()
    store.rewrite_transcript("s", [user("summary")])
    assert texts(store, "s") == ["summary"]
    store.close()
    assert texts(open_store(), "s") == ["summary"]


def test_a_rewrite_can_keep_what_was_there(old: Path, open_store: Open) -> None:
    store = open_store()
    kept = store.load_transcript("s")[:1]
    store.rewrite_transcript("s", kept)
    assert store.load_transcript("s") == kept


def test_a_new_thread_of_an_old_dm_starts_with_it(old: Path, open_store: Open) -> None:
    store = open_store()
    thread = store.get_or_create_session(dm(thread_id="9"))
    assert texts(store, thread.session_id) == ["one", "two"]


def test_what_was_said_before_does_not_answer_for_what_is_said_now(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "hi", "ok")
    store = open_store()
    store.append_to_transcript("s", user("ok"), skip_db=True)
    assert texts(store, "s") == ["hi", "ok", "ok"]


@pytest.mark.parametrize(
    ("lines", "rows", "expected"),
    [
        (["f1", "f2", "f3"], ["d1", "d2"], ["f1", "f2", "f3"]),
        (["f1"], ["d1", "d2"], ["d1", "d2"]),
        (["f1", "f2"], ["d1", "d2"], ["d1", "d2"]),
        ([], ["d1"], ["d1"]),
        (["f1"], [], ["f1"]),
        ([], [], []),
    ],
)
@pytest.mark.parametrize("where", ["folder", "parent"])
def test_the_longer_wins_and_of_equal_ones_the_database(
    folder: Path, open_store: Open, lines: list[str], rows: list[str], expected: list[str], where: str
) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", *lines)
    write_database(folder if where == "folder" else folder.parent, {"s": rows})
    assert texts(open_store(), "s") == expected


def test_only_valid_messages_are_counted(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()))
    damaged = [
        b"{",
        b"",
        b"null",
        b'"x"',
        b"\xff",
        b'{"role": "session_meta", "tools": []}',
        b'{"role": "user", "x": NaN}',
    ]
    write_lines(folder, "s", "f1", raw=damaged)
    write_database(folder, {"s": ["d1", "d2"]})
    store = open_store()
    assert texts(store, "s") == ["d1", "d2"]
    places = [place.place for place in open_store().adopt_all().skipped]
    assert places == []


@pytest.mark.parametrize(
    "refused",
    [b'{"role": "user", "content": ' + b"[" * 300 + b"]" * 300 + b"}", b'{"role": "two\\nlines", "content": "x"}'],
)
def test_messages_that_can_not_be_stored_make_no_transcript_the_longer(
    folder: Path, open_store: Open, refused: bytes
) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "f1", raw=[refused] * 3)
    write_database(folder, {"s": ["d1", "d2"]})
    assert texts(open_store(), "s") == ["d1", "d2"]


def test_damaged_lines_are_skipped_and_named_with_file_and_line(
    folder: Path, open_store: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "one", raw=[b"{broken", b'{"role": "user", "content": "two"}', b"[]"])
    store = open_store()
    report = store.adopt_all()
    assert texts(store, "s") == ["one", "two"]
    assert [place.place for place in report.skipped] == ["s.jsonl line 2", "s.jsonl line 4"]
    assert (report.sessions, report.transcripts, report.messages) == (1, 1, 2)


def test_the_folders_own_database_goes_before_the_parents(folder: Path, open_store: Open) -> None:
    write_database(folder, {"s": ["here"]})
    write_database(folder.parent, {"s": ["there", "there"]})
    assert texts(open_store(), "s") == ["here"]


def test_what_is_still_in_the_wal_is_read(folder: Path, open_store: Open) -> None:
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        fill_database(writer, {"s": ["in the wal"]})
        assert (folder / "state.db-wal").stat().st_size > 0
        before = fingerprints(folder)
        store = open_store()
        assert texts(store, "s") == ["in the wal"]
        store.close()
        # The index of the WAL is its writers' own affair.
        assert {k: v for k, v in fingerprints(folder).items() if not k.endswith("-shm")} == {
            k: v for k, v in before.items() if not k.endswith("-shm")
        }


def test_without_an_index_files_and_rows_are_sessions_without_a_key(folder: Path, open_store: Open) -> None:
    write_lines(folder, "a", "one")
    write_database(folder, {"b": ["two"]}, source="discord")
    store = open_store()
    assert store.list_sessions() == []
    assert (texts(store, "a"), texts(store, "b")) == (["one"], ["two"])
    report = open_store().adopt_all()
    assert report.sessions == 0
    assert {found.session_id for found in store.core.list_sessions(include_ended=True)} == {"a", "b"}


def test_messages_keep_their_fields(folder: Path, open_store: Open) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "hi", "timestamp": "t", "odd": {"b": 1, "a": [None]}},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}], "reasoning": "why"},
        {"content": "nobody"},
    ]
    write_lines(folder, "s", raw=[json.dumps(one).encode() for one in said])
    assert open_store().load_transcript("s") == [*said[:2], {"content": "nobody", "role": "unknown"}]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_deleted_session_does_not_come_back(old: Path, open_store: Open, is_read: bool) -> None:
    store = open_store()
    if is_read:
        store.load_transcript("s")
    store.list_sessions()
    store.core.delete_session("s")
    store.close()
    (old / "sessions.json").touch()
    again = open_store()
    assert again.list_sessions() == []
    assert again.load_transcript("s") == []
    report = again.adopt_all()
    assert (report.sessions, report.messages) == (0, 0)
    assert again.load_transcript("s") == []
    assert again.get_or_create_session(dm()).session_id != "s"


@pytest.mark.parametrize("is_read", [True, False])
def test_a_deleted_id_can_be_used_anew(old: Path, open_store: Open, is_read: bool) -> None:
    store = open_store()
    if is_read:
        store.load_transcript("s")
    store.list_sessions()
    store.core.delete_session("s")
    store.append_to_transcript("s", user("anew"))
    assert texts(store, "s") == ["anew"]
    store.close()
    assert texts(open_store(), "s") == ["anew"]


def test_a_session_deleted_before_it_was_read_does_not_stop_an_erase(old: Path, open_store: Open) -> None:
    store = open_store()
    store.list_sessions()
    store.core.delete_session("s")
    expected = {old / "s.jsonl", old / "sessions.json"}
    for _ in range(2):
        assert set(store.erase_person("telegram:7").files) == expected


def test_an_erase_names_the_old_files_and_leaves_them(old: Path, open_store: Open) -> None:
    write_database(old.parent, {"s": ["marmalade"], "other": ["theirs"]})
    write_lines(old, "s", "marmalade one", "marmalade two")
    before = fingerprints(old)
    store = open_store()
    erased = store.erase_person("telegram:7")
    assert set(erased.files) == {old / "s.jsonl", old.parent / "state.db", old / "sessions.json"}
    assert erased.count > 0
    assert fingerprints(old) == before
    store.close()
    raw = b"".join(path.read_bytes() for path in old.iterdir() if path.name.startswith("threadline.db"))
    assert b"marmalade" not in raw
    again = open_store()
    assert again.load_transcript("s") == []
    assert again.list_sessions() == []
    assert list(again.search("marmalade")) == []


def test_an_erase_deletes_our_exports(old: Path, open_store: Open) -> None:
    store = open_store()
    exported = store.get_transcript_path("s")
    assert exported == old / "exports" / "s.jsonl"
    ours = store.get_or_create_session(dm(), force_new=True)
    store.append_to_transcript(ours.session_id, user("marmalade"))
    path = store.get_transcript_path(ours.session_id)
    erased = store.erase_person("telegram:7")
    assert not exported.exists()
    assert not path.exists()
    assert (old / "s.jsonl").exists()
    assert path not in erased.files


def test_an_export_of_an_adopted_file_lies_beside_it(old: Path, open_store: Open) -> None:
    store = open_store()
    store.append_to_transcript("s", user("new"))
    path = store.get_transcript_path("s")
    assert path == old / "exports" / "s.jsonl"
    assert [json.loads(line)["content"] for line in path.read_text().splitlines()] == ["one", "two", "new"]
    assert len((old / "s.jsonl").read_text().splitlines()) == 2


def test_an_export_of_what_was_in_the_database_is_never_taken_in(folder: Path, open_store: Open) -> None:
    write_database(folder, {"s": ["one"]})
    store = open_store()
    assert store.get_transcript_path("s") == folder / "s.jsonl"
    store.append_to_transcript("s", user("two"))
    store.get_transcript_path("s")
    store.core.delete_session("s")
    store.close()
    again = open_store()
    assert again.load_transcript("s") == []
    assert again.adopt_all().messages == 0


def test_a_person_export_covers_old_files(old: Path, open_store: Open) -> None:
    records = open_store().export("telegram:7")
    assert "two" in repr(list(records))


def test_an_old_store_of_ours_in_the_parent_is_no_older_gateways(folder: Path, open_store: Open) -> None:
    with SessionDB(folder.parent / "state.db") as foreign:
        foreign.create_session("s", "cli")
        foreign.append_message("s", "user", "not this")
    assert open_store().load_transcript("s") == []
