"""The calls of the store: what each returns, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.talk import assistant, current, dm, group, texts, user

from threadline.compat import GatewayConfig, Platform, SessionEntry, SessionSource, SessionStore

UNSAFE = ["", ".", "..", "../a", "a/b", "a\\b", "/etc/passwd", ".hidden", "a\0b", "a\nb", "x" * 201, None, 5]


def test_a_source_has_one_session(store: SessionStore) -> None:
    first = store.get_or_create_session(dm())
    assert isinstance(first, SessionEntry)
    assert first.session_key == "agent:main:telegram:dm:7"
    assert (first.platform, first.chat_type, first.origin) == (Platform.TELEGRAM, "dm", dm())
    again = store.get_or_create_session(dm())
    assert again.session_id == first.session_id
    assert again.updated_at >= first.updated_at
    assert store.get_or_create_session(dm("8")).session_id != first.session_id


def test_the_display_name_is_the_chats(store: SessionStore) -> None:
    assert store.get_or_create_session(group()).display_name == "Garden"


def test_any_chat_type_has_sessions(store: SessionStore, open_store: Callable[..., SessionStore]) -> None:
    source = SessionSource(Platform.DISCORD, "1", "Garden", "forum", "7")
    entry = store.get_or_create_session(source)
    assert (entry.session_key, entry.chat_type) == ("agent:main:discord:forum:1:7", "forum")
    assert entry.origin == source
    thread = store.get_or_create_session(SessionSource(Platform.DISCORD, "1", "Garden", "thread", "7"))
    assert thread.session_id != entry.session_id
    assert current(open_store()) == {entry.session_key: entry.session_id, thread.session_key: thread.session_id}


def test_forced_is_new(store: SessionStore) -> None:
    old = store.get_or_create_session(dm())
    store.append_to_transcript(old.session_id, user("hi"))
    new = store.get_or_create_session(dm(), True)
    assert new.session_id != old.session_id
    assert new.session_key == old.session_key
    assert store.load_transcript(new.session_id) == []
    assert current(store) == {new.session_key: new.session_id}


def test_a_new_thread_of_a_dm_starts_with_the_dm_unless_it_is_forced(store: SessionStore) -> None:
    parent = store.get_or_create_session(dm())
    store.append_to_transcript(parent.session_id, user("hi"))
    seeded = store.get_or_create_session(dm(thread_id="1"))
    forced = store.get_or_create_session(dm(thread_id="2"), force_new=True)
    assert (texts(store, seeded.session_id), texts(store, forced.session_id)) == (["hi"], [])
    store.append_to_transcript(seeded.session_id, user("in the thread"))
    assert texts(store, parent.session_id) == ["hi"]


def test_update_adds_tokens_and_returns_nothing(store: SessionStore) -> None:
    key = store.get_or_create_session(dm()).session_key
    made = store.list_sessions()[0].updated_at
    assert store.update_session(key) is None  # type: ignore[func-returns-value]
    store.update_session(key, 900, input_tokens=5, output_tokens=7)
    store.update_session(key, input_tokens=1)
    (entry,) = store.list_sessions()
    assert (entry.input_tokens, entry.output_tokens, entry.total_tokens) == (6, 7, 13)
    assert entry.last_prompt_tokens == 900
    assert entry.updated_at >= made
    store.update_session(key, last_prompt_tokens=0)
    assert store.list_sessions()[0].last_prompt_tokens == 0


@pytest.mark.parametrize("key", ["", "agent:main:telegram:dm:404", "nonsense", "ü\0:"])
def test_an_unknown_key_is_none(store: SessionStore, key: str) -> None:
    store.get_or_create_session(dm())
    before = [entry.to_dict() for entry in store.list_sessions()]
    assert store.update_session(key, 5, input_tokens=1) is None  # type: ignore[func-returns-value]
    assert store.reset_session(key) is None
    assert store.switch_session(key, "some-id") is None
    assert [entry.to_dict() for entry in store.list_sessions()] == before


def test_a_reset_carries_origin_and_name_over(store: SessionStore) -> None:
    old = store.get_or_create_session(group())
    store.update_session(old.session_key, 9, input_tokens=5)
    new = store.reset_session(old.session_key)
    assert new is not None
    assert new.session_id != old.session_id
    assert (new.session_key, new.origin, new.display_name) == (old.session_key, old.origin, "Garden")
    assert (new.platform, new.chat_type) == (Platform.TELEGRAM, "group")
    assert (new.input_tokens, new.last_prompt_tokens) == (0, 0)
    assert store.get_or_create_session(group()).session_id == new.session_id


def test_the_list_is_plain_and_newest_first(store: SessionStore) -> None:
    ids = [store.get_or_create_session(dm(str(chat))).session_id for chat in range(3)]
    listed = store.list_sessions()
    assert type(listed) is list
    assert [entry.session_id for entry in listed] == ids[::-1]


def test_the_list_of_recent_sessions(store: SessionStore) -> None:
    old, new = store.get_or_create_session(dm("1")), store.get_or_create_session(dm("2"))
    old.updated_at = datetime.now() - timedelta(minutes=10)  # noqa: DTZ005
    assert [entry.session_id for entry in store.list_sessions(active_minutes=5)] == [new.session_id]
    assert len(store.list_sessions(active_minutes=11)) == 2
    assert len(store.list_sessions(None)) == 2


def test_the_list_is_whole_however_many_there_are(store: SessionStore) -> None:
    for chat in range(60):
        store.get_or_create_session(dm(str(chat)))
    assert len(store.list_sessions()) == 60


def test_there_are_any_sessions_once_there_is_more_than_one(store: SessionStore) -> None:
    assert store.has_any_sessions() is False
    store.get_or_create_session(dm())
    assert store.has_any_sessions() is False
    store.get_or_create_session(dm(), force_new=True)
    assert store.has_any_sessions() is True


def test_a_transcript_is_what_was_appended(store: SessionStore, open_store: Callable[..., SessionStore]) -> None:
    said: list[dict[str, Any]] = [
        user("hi", timestamp="2026-01-02T03:04:05"),
        assistant("", tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}], reasoning="why"),
        {"role": "tool", "content": "ok", "tool_call_id": "1", "tool_name": "f"},
        assistant("\ud800 \0 ü"),
        user("x", content=[{"type": "text", "text": "a"}]),
        {"role": "session_meta", "tools": [1, None], "zeta": 1, "alpha": {"b": 1, "a": 2}},
    ]
    session_id = store.get_or_create_session(dm()).session_id
    for message in said:
        assert store.append_to_transcript(session_id, message) is None  # type: ignore[func-returns-value]
    loaded = open_store().load_transcript(session_id)
    assert loaded == said
    assert [list(message) for message in loaded] == [list(message) for message in said]


@pytest.mark.parametrize("message", [{"content": "x"}, {"role": None, "content": "x"}, {"role": "", "content": "x"}])
def test_a_message_without_a_role_is_stored_as_unknown(store: SessionStore, message: dict[str, Any]) -> None:
    store.append_to_transcript("s", message)
    store.rewrite_transcript("t", [message])
    assert store.load_transcript("s") == store.load_transcript("t") == [{"content": "x", "role": "unknown"}]


def test_a_rewrite_replaces_all(store: SessionStore, open_store: Callable[..., SessionStore]) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    for text in "abc":
        store.append_to_transcript(session_id, user(text))
    assert store.rewrite_transcript(session_id, [user("a"), assistant("z")]) is None  # type: ignore[func-returns-value]
    assert open_store().load_transcript(session_id) == [user("a"), assistant("z")]
    store.rewrite_transcript(session_id, [])
    assert store.load_transcript(session_id) == []
    store.append_to_transcript(session_id, user("d"))
    assert texts(store, session_id) == ["d"]


def test_a_rewrite_that_fails_changes_nothing(store: SessionStore) -> None:
    store.append_to_transcript("s", user("a"))
    with pytest.raises(ValueError):
        store.rewrite_transcript("s", [user("b"), user("c", score=float("nan"))])
    assert texts(store, "s") == ["a"]
    with pytest.raises(ValueError):
        store.rewrite_transcript("never", [user("c", score=float("nan"))])
    assert store.core.list_sessions(include_ended=True, limit=50)[0].session_id == "s"


def test_an_unknown_id_loads_nothing_and_makes_nothing(store: SessionStore) -> None:
    assert store.load_transcript("never") == []
    assert store.get_transcript_path("never") == store.sessions_dir / "never.jsonl"
    assert not store.get_transcript_path("never").exists()
    assert list(store.core.list_sessions(include_ended=True)) == []


@pytest.mark.parametrize("verb", ["append", "rewrite"])
def test_an_id_never_created_becomes_a_session_without_a_key(
    store: SessionStore, open_store: Callable[..., SessionStore], verb: str
) -> None:
    if verb == "append":
        store.append_to_transcript("20250101_000000_abcd", user("hi"))
    else:
        store.rewrite_transcript("20250101_000000_abcd", [user("hi")])
    again = open_store()
    assert again.load_transcript("20250101_000000_abcd") == [user("hi")]
    assert again.list_sessions() == []


@pytest.mark.parametrize("session_id", UNSAFE)
def test_an_id_that_is_no_file_name_is_a_value_error(store: SessionStore, folder: Path, session_id: Any) -> None:
    (folder.parent / "a.jsonl").write_text('{"role": "user", "content": "secret"}\n')
    entry = store.get_or_create_session(dm())
    calls: list[Callable[[], Any]] = [
        lambda: store.load_transcript(session_id),
        lambda: store.append_to_transcript(session_id, user("x")),
        lambda: store.append_to_transcript(session_id, user("x"), skip_db=True),
        lambda: store.rewrite_transcript(session_id, [user("x")]),
        lambda: store.get_transcript_path(session_id),
        lambda: store.switch_session(entry.session_key, session_id),
        lambda: store.switch_session("unknown", session_id),
        lambda: setattr(entry, "session_id", session_id),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()
    assert current(store) == {entry.session_key: entry.session_id}
    assert len(store.core.list_sessions(include_ended=True)) == 1


def test_a_closed_store_opens_again(folder: Path) -> None:
    store = SessionStore(folder, GatewayConfig())
    session_id = store.get_or_create_session(dm()).session_id
    store.close()
    store.close()
    store.append_to_transcript(session_id, user("hi"))
    assert texts(store, session_id) == ["hi"]
    store.close()
