"""Messages so long that a few hundred of them are no short step."""

from __future__ import annotations

from threadline import SessionStore
from threadline.store import maintenance
from threadline.store.conversations import indexes
from threadline.store.engine.database import read, write
from threadline.testing import dm, user

LONG = "tea " * 62_500


def test_a_step_of_indexing_is_bounded_by_what_the_messages_say(store: SessionStore) -> None:
    for person in ("1", "2", "3"):
        session_id = store.get_or_create_session(dm(person)).session_id
        store.append_to_transcript(session_id, [user(f"{LONG} {n}") for n in range(3)])
    steps = []
    while step := store.perform(write(indexes.index_batch)):
        steps.append(step)
    # The thread behind the writes may have taken some.
    assert all(step <= 3 for step in steps)
    assert store.facts().unindexed == 0
    assert store.check().ok
    assert len(store.search("tea", limit=20)) == 9


def test_a_message_that_is_longer_than_a_step_is_indexed_all_the_same(store: SessionStore) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, [user("short tea"), user(LONG * 5), user("more tea")])
    assert len(store.search("tea")) == 3
    assert store.facts().unindexed == 0


def test_a_step_of_a_check_is_bounded_by_what_the_messages_say(store: SessionStore) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, [user(f"{LONG} {n}") for n in range(6)])
    store.index_pending()
    stretch = store.perform(read(maintenance.check_messages, 0))
    assert 0 < stretch.checked <= 3
    told: list[tuple[int, int]] = []
    assert store.check(progress=lambda done, total: told.append((done, total))).ok
    assert told[-1] == (7, 7)
