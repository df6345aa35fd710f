"""Sources and entries: what they are made of, and that an attribute of an entry is written through."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.contract.compat.talk import dm, group, texts, user

from threadline.compat import Platform, SessionEntry, SessionSource, SessionStore

AT = datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - the original's times are naive


def test_the_fields_of_a_source_stand_in_the_originals_order() -> None:
    source = SessionSource(Platform.SLACK, "C1", "Garden", "channel", "U1", "Ada", "T1", "Roses", "A1", "B1")
    assert source.to_dict() == {
        "platform": "slack",
        "chat_id": "C1",
        "chat_name": "Garden",
        "chat_type": "channel",
        "user_id": "U1",
        "user_name": "Ada",
        "thread_id": "T1",
        "chat_topic": "Roses",
        "user_id_alt": "A1",
        "chat_id_alt": "B1",
    }
    assert SessionSource.from_dict(source.to_dict()) == source


def test_base_fields_are_always_in_the_dictionary_and_alternative_ids_only_where_known() -> None:
    plain = SessionSource(Platform.SLACK, "C1").to_dict()
    assert set(plain) == {
        *("platform", "chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "chat_topic")
    }
    assert plain["chat_type"] == "dm"
    assert SessionSource.from_dict({"platform": "slack", "chat_id": 5}).chat_id == "5"


def test_a_source_without_a_chat_has_none_after_a_round_trip() -> None:
    source = SessionSource(Platform.SLACK, None, user_id="U1")  # type: ignore[arg-type]
    assert SessionSource.from_dict(source.to_dict()) == source


@pytest.mark.parametrize(
    ("source", "description"),
    [
        (SessionSource.local_cli(), "CLI terminal"),
        (dm(), "DM with Ada"),
        (SessionSource(Platform.TELEGRAM, "7", user_id="9"), "DM with 9"),
        (SessionSource(Platform.TELEGRAM, ""), "DM with user"),
        (group(), "group: Garden"),
        (SessionSource(Platform.SLACK, "C1", "Garden", "channel", thread_id="T"), "channel: Garden, thread: T"),
        (SessionSource(Platform.SLACK, "C1", "Garden", "forum"), "Garden"),
        (SessionSource(Platform.SLACK, "C1", None, "forum"), "C1"),
    ],
)
def test_a_source_is_described_by_its_names(source: SessionSource, description: str) -> None:
    assert source.description == description


def test_an_unknown_platform_is_no_source() -> None:
    with pytest.raises(ValueError):
        SessionSource.from_dict({"platform": "irc", "chat_id": "1"})


def test_four_fields_make_an_entry() -> None:
    entry = SessionEntry("k", "s", AT, AT)
    assert (entry.origin, entry.display_name, entry.platform, entry.chat_type) == (None, None, None, "dm")
    numbers = (entry.input_tokens, entry.output_tokens, entry.total_tokens, entry.last_prompt_tokens)
    assert numbers == (0, 0, 0, 0)
    assert (entry.was_auto_reset, entry.auto_reset_reason, entry.memory_flushed) == (False, None, False)
    assert SessionEntry.from_dict(entry.to_dict()) == entry


def test_an_entry_of_a_store_round_trips(store: SessionStore) -> None:
    entry = store.get_or_create_session(group(thread_id="9"))
    plain = entry.to_dict()
    assert plain["created_at"] == entry.created_at.isoformat()
    assert plain["platform"] == "telegram"
    assert plain["origin"] == group(thread_id="9").to_dict()
    assert SessionEntry.from_dict(plain) == entry


REVISIONS: list[dict[str, Any]] = [
    {},
    {"origin": None, "platform": None, "chat_type": "group", "display_name": "Garden"},
    {"platform": "telegram", "origin": {"platform": "telegram", "chat_id": "7"}, "input_tokens": 3},
    {"memory_flushed": True, "last_prompt_tokens": 9, "cost_status": "estimated", "estimated_cost_usd": 0.5},
    {"expiry_finalized": True, "suspended": False, "resume_pending": None, "total_tokens": None, "chat_type": None},
]


@pytest.mark.parametrize("fields", REVISIONS)
def test_entries_of_every_revision_are_read(fields: dict[str, Any]) -> None:
    four = {"session_key": "k", "session_id": "s", "created_at": AT.isoformat(), "updated_at": AT.isoformat()}
    entry = SessionEntry.from_dict(four | fields)
    assert (entry.session_key, entry.session_id, entry.created_at, entry.updated_at) == ("k", "s", AT, AT)
    for name in ("display_name", "input_tokens", "memory_flushed", "last_prompt_tokens", "cost_status"):
        if name in fields:
            assert getattr(entry, name) == fields[name]
    assert entry.total_tokens == 0
    assert entry.memory_flushed == bool(fields.get("memory_flushed") or fields.get("expiry_finalized"))
    assert entry.chat_type == (fields.get("chat_type") or "dm")


def test_an_unknown_platform_gives_none() -> None:
    four = {"session_key": "k", "session_id": "s", "created_at": AT.isoformat(), "updated_at": AT.isoformat()}
    assert SessionEntry.from_dict(four | {"platform": "irc"}).platform is None


@pytest.mark.parametrize("name", ["session_key", "session_id", "created_at", "updated_at"])
def test_a_required_field_is_required(name: str) -> None:
    plain = SessionEntry("k", "s", AT, AT).to_dict()
    del plain[name]
    with pytest.raises(KeyError):
        SessionEntry.from_dict(plain)


def test_times_are_naive_and_local(store: SessionStore) -> None:
    before = datetime.now()  # noqa: DTZ005
    entry = store.get_or_create_session(dm())
    after = datetime.now() + timedelta(milliseconds=1)  # noqa: DTZ005
    assert entry.created_at.tzinfo is None
    assert before - timedelta(milliseconds=1) <= entry.created_at <= after
    assert entry.updated_at.tzinfo is None


# Each attribute that an entry has and a store keeps, and a value that it does not have by itself.
SETTINGS: list[tuple[str, Any]] = [
    ("display_name", "Roses"),
    ("display_name", None),
    ("created_at", AT),
    ("updated_at", AT),
    ("origin", group(user_name="Bea")),
    ("input_tokens", 11),
    ("output_tokens", 12),
    ("cache_read_tokens", 13),
    ("cache_write_tokens", 14),
    ("last_prompt_tokens", 15),
    ("estimated_cost_usd", 0.25),
    ("cost_status", "estimated"),
    ("memory_flushed", True),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_an_attribute_that_is_set_is_stored(open_store: Callable[..., SessionStore], name: str, value: Any) -> None:
    store = open_store()
    entry = store.get_or_create_session(group())
    before = {field: getattr(entry, field) for field, _ in SETTINGS}
    setattr(entry, name, value)
    assert getattr(entry, name) == value
    store.close()
    (found,) = open_store().list_sessions()
    for field, _ in SETTINGS:
        assert getattr(found, field) == (value if field == name else before[field]), field


def test_a_flag_that_is_taken_back_is_stored(store: SessionStore) -> None:
    entry = store.get_or_create_session(dm())
    store.append_to_transcript(entry.session_id, user("hi"))
    entry.memory_flushed = True
    entry.memory_flushed = False
    assert store.list_sessions()[0].memory_flushed is False


def test_to_set_the_id_switches_the_key_to_that_session(open_store: Callable[..., SessionStore]) -> None:
    store = open_store()
    entry = store.get_or_create_session(dm())
    store.append_to_transcript(entry.session_id, user("before"))
    old = entry.session_id
    entry.session_id = "compressed-1"
    store.append_to_transcript(entry.session_id, user("after"))
    again = open_store()
    assert again.get_or_create_session(dm()).session_id == "compressed-1"
    assert texts(again, "compressed-1") == ["after"]
    assert texts(again, old) == ["before"]
    # What is set from now on is the new session's.
    entry.last_prompt_tokens = 77
    assert again.list_sessions()[0].last_prompt_tokens == 77


def test_an_entry_made_by_hand_writes_nowhere() -> None:
    entry = SessionEntry("k", "s", AT, AT)
    entry.display_name = "x"
    entry.session_id = "../y"
    assert (entry.display_name, entry.session_id) == ("x", "../y")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda entry: pickle.loads(pickle.dumps(entry))])
def test_a_copy_of_an_entry_is_equal_and_writes_nowhere(
    store: SessionStore, copied: Callable[[SessionEntry], SessionEntry]
) -> None:
    entry = store.get_or_create_session(dm())
    other = copied(entry)
    assert other == entry
    other.display_name = "x"
    assert [one.display_name for one in store.list_sessions()] == [entry.display_name]


def test_callers_of_the_original_may_save_after_they_set(store: SessionStore) -> None:
    store._ensure_loaded()
    store.get_or_create_session(dm()).display_name = "Roses"
    store._save()
    assert store.list_sessions()[0].display_name == "Roses"
