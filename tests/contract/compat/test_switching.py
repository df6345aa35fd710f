"""`switch_session`: a key goes on with another session, whose id stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.compat.talk import current, dm, group, texts, user

from threadline.compat import SessionDB, SessionStore


def test_a_key_goes_back_to_an_earlier_session(store: SessionStore, open_store: Callable[..., SessionStore]) -> None:
    old = store.get_or_create_session(dm())
    store.append_to_transcript(old.session_id, user("before"))
    new = store.get_or_create_session(dm(), force_new=True)
    switched = store.switch_session(new.session_key, old.session_id)
    assert switched is not None
    assert (switched.session_id, switched.session_key) == (old.session_id, new.session_key)
    assert texts(store, old.session_id) == ["before"]
    again = open_store()
    assert again.get_or_create_session(dm()).session_id == old.session_id
    assert current(again) == {new.session_key: old.session_id}


def test_to_the_same_session_changes_nothing(store: SessionStore) -> None:
    entry = store.get_or_create_session(dm())
    store.append_to_transcript(entry.session_id, user("hi"))
    switched = store.switch_session(entry.session_key, entry.session_id)
    assert switched is not None
    assert switched.session_id == entry.session_id
    assert texts(store, entry.session_id) == ["hi"]


def test_one_never_created_becomes_an_empty_session(store: SessionStore) -> None:
    entry = store.get_or_create_session(group())
    switched = store.switch_session(entry.session_key, "20250101_000000_feed")
    assert switched is not None
    assert switched.session_id == "20250101_000000_feed"
    assert (switched.session_key, switched.origin, switched.chat_type) == (entry.session_key, entry.origin, "group")
    assert switched.display_name == entry.display_name
    assert switched.platform == entry.platform
    assert store.load_transcript("20250101_000000_feed") == []
    assert store.get_or_create_session(group()).session_id == "20250101_000000_feed"


def test_a_session_of_another_key_is_taken_with_its_id(store: SessionStore) -> None:
    here, there = store.get_or_create_session(dm("1")), store.get_or_create_session(group())
    store.append_to_transcript(there.session_id, user("there"))
    switched = store.switch_session(here.session_key, there.session_id)
    assert switched is not None
    assert switched.session_id == there.session_id
    assert switched.session_key == here.session_key
    assert texts(store, there.session_id) == ["there"]
    assert store.get_or_create_session(dm("1")).session_id == there.session_id
    # A session has one key at a time: the other begins a new one.
    fresh = store.get_or_create_session(group())
    assert fresh.session_id not in (here.session_id, there.session_id)
    assert fresh.session_key == there.session_key
    assert texts(store, fresh.session_id) == []


def test_a_key_whose_session_was_taken_can_still_be_switched_and_updated(store: SessionStore) -> None:
    here, there = store.get_or_create_session(dm("1")), store.get_or_create_session(dm("2"))
    store.switch_session(here.session_key, there.session_id)
    store.update_session(there.session_key, 5)
    back = store.switch_session(there.session_key, there.session_id)
    assert back is not None
    assert (back.session_key, back.session_id) == (there.session_key, there.session_id)
    assert current(store) == {there.session_key: there.session_id}


def test_sessions_written_by_id_alone_can_be_taken_up(store: SessionStore) -> None:
    store.append_to_transcript("loose", user("hi"))
    entry = store.get_or_create_session(dm())
    switched = store.switch_session(entry.session_key, "loose")
    assert switched is not None
    assert texts(store, "loose") == ["hi"]
    assert current(store) == {entry.session_key: "loose"}


def test_what_an_agent_made_by_id_can_be_taken_up(store: SessionStore) -> None:
    entry = store.get_or_create_session(dm())
    with SessionDB(store.sessions_dir / "threadline.db") as agent:
        agent.create_session("child", "telegram", parent_session_id=entry.session_id)
        agent.append_message("child", "user", "summary")
    entry.session_id = "child"
    assert current(store) == {entry.session_key: "child"}
    assert texts(store, "child") == ["summary"]


@pytest.mark.parametrize("times", [1, 5])
def test_to_and_fro(store: SessionStore, times: int) -> None:
    first = store.get_or_create_session(dm())
    second = store.get_or_create_session(dm(), force_new=True)
    for _ in range(times):
        for wanted in (first, second):
            switched = store.switch_session(first.session_key, wanted.session_id)
            assert switched is not None
            assert current(store) == {first.session_key: wanted.session_id}


def test_what_was_switched_to_counts_as_used_now(store: SessionStore) -> None:
    old = store.get_or_create_session(dm())
    new = store.get_or_create_session(dm(), force_new=True)
    switched = store.switch_session(new.session_key, old.session_id)
    assert switched is not None
    assert switched.updated_at >= new.updated_at


def test_search_finds_a_switched_session_for_the_person_who_has_it(store: SessionStore) -> None:
    theirs, mine = store.get_or_create_session(dm("1")), store.get_or_create_session(dm("2"))
    store.append_to_transcript(theirs.session_id, user("marmalade"))
    store.switch_session(mine.session_key, theirs.session_id)
    assert [hit.session.session_id for hit in store.search("marmalade", viewer="telegram:2")] == [theirs.session_id]
    assert list(store.search("marmalade", viewer="telegram:1")) == []
