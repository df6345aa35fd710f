"""Sessions that come from elsewhere, as the store keeps them. On both engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from threadline.clock import to_instant
from threadline.compat.session import spelled_key
from threadline.model.address import address_of
from threadline.model.message import encode_message
from threadline.model.source import SessionSource
from threadline.store.conversations import adoptions
from threadline.store.conversations.adoptions import OldIndexEntry, SessionToCreate
from threadline.store.facade import ComposableStore
from threadline.testing import FakeClock, dm, user

THEN = datetime(2025, 6, 2, 11, tzinfo=UTC)


@pytest.fixture
def store(location: str, clock: FakeClock) -> Iterator[ComposableStore]:
    with ComposableStore.open(location, clock=clock, timezone="UTC") as opened:
        yield opened


def arrival(session_id: str, source: SessionSource) -> SessionToCreate:
    """How a session of that id comes to where the source leads."""
    address = address_of(source)
    return SessionToCreate(
        session_id=session_id, source=source, address=address, at=to_instant(THEN), key=spelled_key(address)
    )


def adopt(store: ComposableStore, session_id: str, source: SessionSource, **fields: Any) -> None:
    """Take in an entry of an index whose transcript is still to be read."""
    coming = arrival(session_id, source)
    known = {"created_at": THEN, "updated_at": THEN} | fields
    entry = OldIndexEntry(arrival=coming, stored_key=coming.key or "", fields=known, has_origin=True)
    assert store.run_write(adoptions.adopt_entries, [entry]) == [session_id]


def test_what_is_deleted_before_its_transcript_was_read_stays_deleted(store: ComposableStore) -> None:
    adopt(store, "old", dm())
    store.delete_session("old")
    assert store.run_read(adoptions.list_pending_transcripts) == []
    store.run_write(adoptions.get_or_create, arrival("old", dm()))
    assert not store.run_write(adoptions.adopt_transcript, "old", [encode_message(user("before"))])
    assert store.run_read(adoptions.load_adopted, "old") == []


def test_a_deleted_session_does_not_stand_in_the_way_of_an_erase(store: ComposableStore) -> None:
    adopt(store, "old", dm())
    store.delete_session("old")
    store.erase_person("telegram:7")
    assert store.run_read(adoptions.adoption_state, "old") == adoptions.TRANSCRIPT_ADOPTED


@pytest.mark.parametrize("count", [0, 2])
def test_what_was_flushed_there_is_flushed_here(store: ComposableStore, count: int) -> None:
    adopt(store, "old", dm(), memory_flushed=True)
    store.run_write(adoptions.adopt_transcript, "old", [encode_message(user(f"m{n}")) for n in range(count)])
    assert store.get_session("old").memory_flushed


def test_a_session_belongs_to_whom_it_was_switched_to_also_where_there_was_none(store: ComposableStore) -> None:
    ada, tom = dm(), dm(chat_id="dm-9", user_id="9")
    first, second = store.get_or_create_session(ada), store.get_or_create_session(tom)
    store.run_write(adoptions.make_current, first.session_key, arrival(second.session_id, tom))
    # Tom's conversation has no session now.
    taken = store.run_write(adoptions.make_current, second.session_key, arrival(first.session_id, ada))
    assert taken is not None
    assert (taken.session_key, taken.session_id) == (second.session_key, first.session_id)
    assert store.get_session(first.session_id).owner == "telegram:9"
    assert store.get_session(second.session_id).owner == "telegram:7"
