"""A database of an earlier schema is brought to this one by opening it, and nothing in it is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine

from threadline import SessionSource, SessionStore
from threadline.errors import SchemaTooOld, StoreDamaged
from threadline.store.engine.sql import latest_version

# What a program that wrote schema 2 had stored: a titled conversation and its fork, a session of an editor, one that was
# reset, and a message at the terminal with its answer.
AGED = Path(__file__).with_name("schema_2.json")
LIGHTHOUSE = ["where is the lighthouse", "On the northern cliff."]


def _revived(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else value


@pytest.fixture
def aged(engine: Engine) -> str:
    """The location of a database that nobody has opened since."""
    return engine.begin_at(2, json.loads(AGED.read_text(), object_hook=_revived))


@pytest.fixture
def lagging(engine: Engine) -> str:
    """The same, where listings lag by as much as they may on any engine: what a copy may have come with."""
    rows = json.loads(AGED.read_text(), object_hook=_revived)
    for row in rows["session_state"]:
        row["listed_at"] -= 5_000_000
    return engine.begin_at(2, rows)


@pytest.fixture
def redacted(engine: Engine) -> str:
    """The same, where what could confirm a guess at the first words was taken away with them."""
    rows = json.loads(AGED.read_text(), object_hook=_revived)
    for row in rows["messages"]:
        if row.get("append_key") == "m:42:1":
            row["key_digest"] = None
    return engine.begin_at(2, rows)


@pytest.fixture
def upgraded(aged: str) -> Iterator[SessionStore]:
    with SessionStore.open(aged) as store:
        yield store


def said(store: SessionStore, session_id: str) -> list[object]:
    return [message["content"] for message in store.load_transcript(session_id)]


def test_it_is_not_touched_unasked(aged: str) -> None:
    with pytest.raises(SchemaTooOld, match="migrate"):
        SessionStore.open(aged, migrate=False)
    SessionStore.open(aged).close()
    SessionStore.open(aged, migrate=False).close()


def test_one_that_is_not_made_as_it_says_is_left_alone_and_no_use_trying_again(engine: Engine) -> None:
    SessionStore.open(engine.location).close()
    engine.execute("UPDATE meta SET value = '2' WHERE name = 'schema_version'")
    with pytest.raises(StoreDamaged, match="development version"):
        SessionStore.open(engine.location)
    engine.execute(f"UPDATE meta SET value = '{latest_version()}' WHERE name = 'schema_version'")
    with SessionStore.open(engine.location) as store:
        assert store.check().ok


def test_what_lagged_is_listed_in_its_place(lagging: str) -> None:
    with SessionStore.open(lagging) as store:
        report = store.check()
        assert report.ok, report.faults
        entries = store.list_sessions(include_ended=True, limit=100).items
        assert [entry.updated_at for entry in entries] == sorted((entry.updated_at for entry in entries), reverse=True)
        assert [entry.session_id for entry in store.list_sessions(include_ended=True, limit=1)] == [
            entries[0].session_id
        ]


def test_every_conversation_is_there_as_it_was(upgraded: SessionStore) -> None:
    listed = upgraded.list_sessions(include_ended=True).items
    assert [(entry.platform, entry.title, entry.end_reason) for entry in listed] == [
        ("local", None, None),
        ("discord", None, None),
        ("discord", None, "session_reset"),
        ("acp", None, None),
        ("telegram", None, None),
        ("telegram", "lighthouse", None),
    ]
    assert [said(upgraded, entry.session_id) for entry in listed[4:]] == [LIGHTHOUSE, LIGHTHOUSE]
    assert listed[5].total_tokens == 15


def test_people_find_their_own_conversation_and_go_on(upgraded: SessionStore) -> None:
    ada = SessionSource(platform="telegram", chat_id="42", chat_type="dm", user_id="7", user_name="Ada")
    session_id = upgraded.get_or_create_session(ada).session_id
    # A key that was used before the upgrade still adds nothing.
    upgraded.append_to_transcript(session_id, {"role": "user", "content": LIGHTHOUSE[0]}, idempotency_key="m:42:1")
    assert said(upgraded, session_id) == LIGHTHOUSE
    upgraded.append_to_transcript(session_id, {"role": "user", "content": "thank you"}, idempotency_key="m:42:3")
    assert said(upgraded, session_id) == [*LIGHTHOUSE, "thank you"]


def test_what_was_taken_away_is_not_brought_back_by_the_key_that_it_had(redacted: str) -> None:
    ada = SessionSource(platform="telegram", chat_id="42", chat_type="dm", user_id="7", user_name="Ada")
    with SessionStore.open(redacted) as store:
        session_id = store.get_or_create_session(ada).session_id
        for text in (LIGHTHOUSE[0], "a guess"):
            again = store.append_to_transcript(session_id, {"role": "user", "content": text}, idempotency_key="m:42:1")
            assert again.duplicate
        assert said(store, session_id) == LIGHTHOUSE


def test_nor_where_a_program_that_knows_no_better_takes_it_away_now(engine: Engine) -> None:
    ada = SessionSource(platform="telegram", chat_id="42", chat_type="dm", user_id="7", user_name="Ada")
    with SessionStore.open(engine.location) as store:
        session_id = store.get_or_create_session(ada).session_id
        for text in ("a secret", "a guess"):
            store.append_to_transcript(session_id, {"role": "user", "content": text}, idempotency_key="m:42:1")
            engine.execute("UPDATE messages SET key_digest = NULL")
        assert said(store, session_id) == ["a secret"]


def test_an_editor_s_session_keeps_its_folder(upgraded: SessionStore) -> None:
    (entry,) = upgraded.list_sessions(platform="acp").items
    assert (entry.cwd, entry.model) == ("/home/ada/project", "m-1")


def test_all_of_it_is_found_and_sound(upgraded: SessionStore) -> None:
    assert [hit.session.title for hit in upgraded.search("northern cliff").items] == ["lighthouse"]
    assert [hit.session.platform for hit in upgraded.search("灯台").items] == ["discord"]
    assert upgraded.check().faults == []
