"""`SessionDB`: sessions by id."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from threadline.compat import SessionDB


def test_a_session_is_made_once_and_read_as_a_row(db: SessionDB) -> None:
    before = time.time()
    made = db.create_session("s", "cli", "m1", {"cwd": "/tmp", "max": 3}, "be kind", "u1", None)
    assert made == "s"
    row = db.get_session("s")
    assert row is not None
    assert (row["id"], row["source"], row["model"], row["user_id"]) == ("s", "cli", "m1", "u1")
    assert json.loads(row["model_config"]) == {"cwd": "/tmp", "max": 3}
    assert row["system_prompt"] == "be kind"
    assert before - 1 <= row["started_at"] <= time.time() + 1
    assert (row["ended_at"], row["end_reason"], row["message_count"], row["parent_session_id"]) == (None, None, 0, None)
    assert db.create_session("s", "telegram", "m2") == "s"
    assert db.get_session("s") == row


def test_unknown_ids(db: SessionDB) -> None:
    assert db.get_session("never") is None
    assert db.get_messages_as_conversation("never") == []
    assert db.delete_session("never") is False
    assert db.end_session("never", "done") is None  # type: ignore[func-returns-value]
    assert db.clear_messages("never") is None  # type: ignore[func-returns-value]
    assert db.session_count() == 0


def test_messages_are_kept_in_order(db: SessionDB) -> None:
    db.create_session("s", "cli")
    places = [
        db.append_message("s", "user", "hi"),
        db.append_message("s", "assistant", tool_calls=[{"id": "1"}], reasoning="why"),
        db.append_message("s", role="tool", content="ok", tool_name="f", tool_call_id="1"),
    ]
    assert places == sorted(set(places))
    assert db.get_messages_as_conversation("s") == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}], "reasoning": "why"},
        {"role": "tool", "content": "ok", "tool_name": "f", "tool_call_id": "1"},
    ]
    row = db.get_session("s")
    assert row is not None
    assert row["message_count"] == 3


def test_clearing_leaves_the_session(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "hi")
    db.clear_messages("s")
    assert db.get_messages_as_conversation("s") == []
    row = db.get_session("s")
    assert row is not None
    assert row["message_count"] == 0
    db.append_message("s", "user", "again")
    assert [message["content"] for message in db.get_messages_as_conversation("s")] == ["again"]


def test_searching_lists_the_most_recently_used_first(db: SessionDB) -> None:
    for number in range(5):
        db.create_session(f"s{number}", "cli" if number % 2 else "acp")
    db.append_message("s1", "user", "hi")
    assert [row["id"] for row in db.search_sessions()] == ["s1", "s4", "s3", "s2", "s0"]
    assert [row["id"] for row in db.search_sessions(source="cli")] == ["s1", "s3"]
    assert [row["id"] for row in db.search_sessions(limit=2, offset=1)] == ["s4", "s3"]
    assert db.search_sessions("sms") == []


def test_counting(db: SessionDB) -> None:
    for number in range(3):
        db.create_session(f"s{number}", "cli" if number else "acp")
    assert (db.session_count(), db.session_count("cli"), db.session_count(source="sms")) == (3, 2, 0)


def test_the_first_end_holds(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.end_session("s", "done")
    db.end_session("s", "later")
    row = db.get_session("s")
    assert row is not None
    assert row["end_reason"] == "done"
    assert row["ended_at"] is not None


def test_deleting(db: SessionDB, tmp_path: Path) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "hi")
    assert db.delete_session("s") is True
    assert db.delete_session("s") is False
    assert db.get_session("s") is None
    db.create_session("s", "cli")
    assert db.get_messages_as_conversation("s") == []


def test_a_parent_is_kept(db: SessionDB) -> None:
    db.create_session("p", "cli")
    db.create_session("c", "cli", parent_session_id="p")
    row = db.get_session("c")
    assert row is not None
    assert row["parent_session_id"] == "p"


@pytest.mark.parametrize("session_id", ["", "../a", "a/b", ".a", None])
def test_an_id_that_is_no_file_name_is_a_value_error(db: SessionDB, session_id: Any) -> None:
    for call in (
        lambda: db.create_session(session_id, "cli"),
        lambda: db.get_session(session_id),
        lambda: db.append_message(session_id, "user", "x"),
        lambda: db.get_messages_as_conversation(session_id),
        lambda: db.clear_messages(session_id),
        lambda: db.end_session(session_id, "x"),
        lambda: db.delete_session(session_id),
    ):
        with pytest.raises(ValueError):
            call()
    assert db.session_count() == 0


def test_a_source_that_is_no_platform_of_ours_is_accepted(db: SessionDB) -> None:
    db.create_session("s", "My Tool!")
    assert db.get_session("s") is not None
