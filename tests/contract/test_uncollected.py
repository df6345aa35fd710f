"""Messages of a deleted session that nobody has collected: whoever deleted it was killed before they could."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from threadline import SessionStore
from threadline.errors import UnknownMessage
from threadline.store.engine.database import Row, Step, read, write
from threadline.store.people import removal
from threadline.testing import dm, user
from threadline.testing.contracts.storage.fixtures import seen

PATIENCE_SECONDS = 60


def deleted_and_left(store: SessionStore) -> str:
    """The id of a session that is gone, while what was said in it is still there."""
    session_id = store.get_or_create_session(dm("1")).session_id
    store.append_to_transcript(session_id, user("a secret"))
    store.perform(write(removal.delete_session, session_id))
    assert store.facts().messages == 1
    return session_id


def read_log_number(session_id: str) -> Step[Row]:
    return read(lambda tx: tx.find("find_log", session_id=session_id) or ())


def test_they_stay_unseen_in_a_copy_that_goes_on(store: SessionStore, tmp_path: Path) -> None:
    gone = deleted_and_left(store)
    path = store.backup(tmp_path / "copy.db")
    with SessionStore.open(path) as copy:
        fresh = copy.get_or_create_session(dm("2")).session_id
        assert seen(copy, fresh) == []
        copy.append_to_transcript(fresh, user("hello"))
        assert seen(copy, fresh) == ["hello"]
        assert copy.search("secret").items == []
        copy.collect()
        assert seen(copy, fresh) == ["hello"]
        assert copy.facts().messages == 1
        assert copy.check().ok
        with pytest.raises(UnknownMessage):
            copy.redact(f"{gone}:1")


def test_a_copy_gives_no_number_of_a_deleted_session_again(store: SessionStore, tmp_path: Path) -> None:
    kept = store.get_or_create_session(dm("1")).session_id
    gone = store.get_or_create_session(dm("2")).session_id
    (before,) = store.perform(read_log_number(gone))
    store.delete_session(gone)
    path = store.backup(tmp_path / "copy.db")
    with SessionStore.open(path) as copy:
        fresh = copy.get_or_create_session(dm("3")).session_id
        (after,) = copy.perform(read_log_number(fresh))
        assert after > before
        assert copy.get_session(kept).session_id == kept


def test_they_go_behind_the_next_writes(store: SessionStore) -> None:
    deleted_and_left(store)
    store.append_to_transcript(store.get_or_create_session(dm("2")).session_id, user("hello"))
    ends = time.monotonic() + PATIENCE_SECONDS
    while store.facts().messages > 1:
        assert time.monotonic() < ends, "nobody has collected them"
        time.sleep(0.05)
