"""`get_transcript_path`: an export of the transcript, up to date, written atomically, and never taken for an old file."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.old_folders import entry, origin, write_index, write_lines
from tests.contract.compat.talk import dm, texts, user

from threadline.compat import SessionStore


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8", errors="surrogatepass").split("\n")[:-1]]


def test_the_path_holds_the_transcript_as_it_is_now(store: SessionStore, folder: Path) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    assert store.get_transcript_path(session_id) == folder / f"{session_id}.jsonl"
    assert lines(folder / f"{session_id}.jsonl") == []
    said = [user("hi"), user("ü\u2028\n", extra={"a": None}), {"role": "tool", "content": [1]}]
    for message in said:
        store.append_to_transcript(session_id, message)
    assert lines(store.get_transcript_path(session_id)) == said
    store.rewrite_transcript(session_id, said[:1])
    assert lines(store.get_transcript_path(session_id)) == said[:1]


def test_only_its_owner_may_read_it_and_nothing_else_is_left(store: SessionStore, folder: Path) -> None:
    store.append_to_transcript("s", user("hi"))
    path = store.get_transcript_path("s")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in folder.iterdir() if not one.name.startswith("threadline.db")] == ["s.jsonl"]


def test_a_reader_of_the_file_before_keeps_what_it_reads(store: SessionStore) -> None:
    store.append_to_transcript("s", user("one"))
    with store.get_transcript_path("s").open() as before:
        store.append_to_transcript("s", user("two"))
        store.get_transcript_path("s")
        assert len(before.readlines()) == 1


def test_an_export_is_never_taken_in(
    store: SessionStore, folder: Path, open_store: Callable[..., SessionStore]
) -> None:
    store.append_to_transcript("s", user("hi"))
    path = store.get_transcript_path("s")
    store.core.delete_session("s")
    store.close()
    assert path.exists()
    again = open_store()
    assert again.load_transcript("s") == []
    assert again.adopt_all().sessions == 0
    again.append_to_transcript("s", user("anew"))
    assert texts(again, "s") == ["anew"]


def test_a_session_that_appeared_beside_a_foreign_file_keeps_its_own_words(store: SessionStore, folder: Path) -> None:
    store.append_to_transcript("s", user("ours"))
    (folder / "s.jsonl").write_text('{"role": "user", "content": "foreign"}\n')
    assert texts(store, "s") == ["ours"]
    path = store.get_transcript_path("s")
    assert path == folder / "exports" / "s.jsonl"
    assert lines(path) == [user("ours")]
    assert "foreign" in (folder / "s.jsonl").read_text()


def test_a_link_in_place_of_the_exports_is_not_followed(
    open_store: Callable[..., SessionStore], folder: Path, tmp_path: Path
) -> None:
    write_index(folder, entry("a", **origin(user_id="7")))
    write_lines(folder, "a", "old")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    theirs = elsewhere / "a.jsonl"
    (folder / "exports").symlink_to(elsewhere)
    store = open_store()
    with pytest.raises(NotADirectoryError, match="not in a link"):
        store.get_transcript_path("a")
    assert list(elsewhere.iterdir()) == []
    theirs.write_text("of somebody else")
    with pytest.raises(NotADirectoryError, match="not in a link"):
        store.erase_person("telegram:7")
    assert theirs.exists()
