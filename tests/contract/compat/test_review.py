"""Damage, deletion and other people's data at the edges of the original API."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.compat.old_folders import entry, origin, write_index, write_lines
from tests.contract.compat.talk import texts, user

from threadline.compat import SessionStore


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
        {"origin": {"platform": "telegram", "chat_id": "9", "chat_type": "NUL \x00"}},
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
