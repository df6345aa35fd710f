"""Damage, deletion and other people's data at the edges of the original API."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.old_folders import entry, origin, write_database, write_index, write_lines
from tests.contract.compat.talk import current, dm, group, texts, user

from threadline import MessageRef
from threadline.compat import GatewayConfig, Platform, SessionSource, SessionStore
from threadline.store import facade


def test_what_is_said_after_a_deletion_is_kept_and_nothing_comes_back(store: SessionStore) -> None:
    write_index(store.sessions_dir, entry("a", **origin(user_id="7")))
    write_lines(store.sessions_dir, "a", "before")
    store.core.delete_session("a")
    store.append_to_transcript("a", user("after"))
    assert texts(store, "a") == ["after"]


@pytest.mark.parametrize(
    "damage",
    [
        {"display_name": "half of a pair \ud800"},
        {"origin": {"platform": "telegram", "chat_id": "\ud800", "chat_type": "dm"}},
        {"origin": {"platform": "telegram", "chat_id": "9", "chat_type": "\ud800"}},
    ],
)
def test_an_entry_that_can_not_be_stored_is_skipped_and_the_others_are_taken_in(
    store: SessionStore, damage: dict[str, Any]
) -> None:
    whole = [entry(f"s{n}", f"agent:main:telegram:dm:{n}", **origin(str(n))) for n in range(3)]
    write_index(store.sessions_dir, *whole, entry("damaged", "agent:main:telegram:dm:9", **damage))
    assert {one.session_id for one in store.list_sessions()} == {"s0", "s1", "s2"}


@pytest.mark.parametrize("count", [10**30, 2**63, -5])
def test_a_count_that_can_not_be_one_is_0(store: SessionStore, count: int) -> None:
    write_index(store.sessions_dir, entry("a", **origin(user_id="7"), input_tokens=count, output_tokens=3))
    assert [(one.input_tokens, one.output_tokens) for one in store.list_sessions()] == [(0, 3)]


def test_an_id_that_is_too_long_for_a_file_name_is_refused(store: SessionStore) -> None:
    for call in (store.load_transcript, store.get_transcript_path):
        with pytest.raises(ValueError, match="no session id"):
            call("あ" * 100)
    store.append_to_transcript("あ" * 60, user("hi"))
    assert store.get_transcript_path("あ" * 60).exists()


def test_an_erase_deletes_every_export_of_the_person(store: SessionStore) -> None:
    write_index(store.sessions_dir, entry("a", **origin(user_id="7")))
    old = write_lines(store.sessions_dir, "a", "words")
    first = store.get_transcript_path("a")
    old.unlink()
    second = store.get_transcript_path("a")
    assert {first, second} == {store.sessions_dir / "exports" / "a.jsonl", old}
    # What a process leaves that is killed while it writes an export.
    (store.sessions_dir / ".a.jsonl.x1y2").write_text("words")
    store.erase_person("telegram:7")
    assert not [path for path in store.sessions_dir.rglob("*a.jsonl*") if path.is_file()]


def test_an_erase_that_breaks_off_leaves_no_export(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, user("words"))
    path = store.get_transcript_path(session_id)
    erase = store.core.erase_person

    def killed(person: str) -> int:
        erase(person)
        raise KeyboardInterrupt

    monkeypatch.setattr(store.core, "erase_person", killed)
    with pytest.raises(KeyboardInterrupt):
        store.erase_person("telegram:7")
    assert not path.exists()


def test_a_deleted_folder_does_not_hide_another_database(folder: Path) -> None:
    before = set(facade._OPEN_HERE.elements())
    store = SessionStore(folder)
    store.list_sessions()
    shutil.rmtree(folder)
    store.close()
    # The number of the deleted file is given to another one soon.
    assert set(facade._OPEN_HERE.elements()) == before


def test_an_erase_covers_earlier_sessions_that_only_the_database_knows(store: SessionStore) -> None:
    write_index(store.sessions_dir, entry("now", **origin(user_id="7")))
    database = write_database(store.sessions_dir, {"earlier": ["words"], "other": ["of somebody else"]})
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET user_id = CASE id WHEN 'earlier' THEN '7' ELSE '8' END")
    erased = store.erase_person("telegram:7")
    assert texts(store, "earlier") == []
    assert texts(store, "other") == ["of somebody else"]
    assert database in erased.files


def test_a_key_that_is_spelled_alike_does_not_lead_to_somebody_elses_session(store: SessionStore) -> None:
    theirs = entry("theirs", "agent:main:telegram:dm:1:2", **origin("1", user_id="1", thread_id="2"))
    write_index(store.sessions_dir, theirs)
    write_lines(store.sessions_dir, "theirs", "private")
    mine = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1:2", user_id="9"))
    assert (mine.session_key, texts(store, mine.session_id)) == ("agent:main:telegram:dm:1:2~2", [])
    assert store.get_or_create_session(dm("1", thread_id="2")).session_id == "theirs"


def test_an_adopted_message_does_not_answer_for_one_that_is_said_now(store: SessionStore) -> None:
    write_index(store.sessions_dir, entry("a", **origin(user_id="7")))
    write_lines(store.sessions_dir, "a", "hello", "ok")
    store.append_to_transcript("a", user("ok"), skip_db=True)
    store.append_to_transcript("a", user("stored"))
    store.append_to_transcript("a", user("stored"), skip_db=True)
    assert texts(store, "a") == ["hello", "ok", "ok", "stored"]


def test_a_members_own_session_does_not_become_that_of_the_group(open_store: Callable[..., SessionStore]) -> None:
    store = open_store(GatewayConfig(group_sessions_per_user=False))
    theirs = entry("theirs", "agent:main:telegram:group:-5:7", **origin("-5", chat_type="group", user_id="7"))
    write_index(store.sessions_dir, theirs)
    write_lines(store.sessions_dir, "theirs", "private")
    shared = store.get_or_create_session(group(user="8"))
    assert (shared.session_key, texts(store, shared.session_id)) == ("agent:main:telegram:group:-5", [])
    assert current(store)["agent:main:telegram:group:-5:7"] == "theirs"


def test_after_a_redaction_no_earlier_message_answers_for_a_new_one(store: SessionStore) -> None:
    for text in ("ok", "secret"):
        store.append_to_transcript("a", user(text))
        store.append_to_transcript("a", user(text), skip_db=True)
    store.core.redact(MessageRef("a", 2))
    store.append_to_transcript("a", user("ok"), skip_db=True)
    assert [message["content"] for message in store.load_transcript("a")][::2] == ["ok", "ok"]


def test_a_groups_adopted_session_is_not_erased_with_the_member_who_began_it(store: SessionStore) -> None:
    key = "agent:main:telegram:group:900"
    write_index(store.sessions_dir, entry("g", key, **origin("900", chat_type="group", user_id="7")))
    write_lines(store.sessions_dir, "g", "said by several")
    assert [one.session_key for one in store.list_sessions()] == [key]
    assert store.erase_person("telegram:7").count == 0
    assert texts(store, "g") == ["said by several"]


def test_an_erase_names_no_file_that_is_gone(store: SessionStore) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, user("hello"))
    export = store.get_transcript_path(session_id)
    assert store.erase_person(str(store.core.get_session(session_id).owner)).files == []
    assert not export.exists()
