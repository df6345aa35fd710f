"""Contract: a thread in a DM starts with the DM's history, then goes its own way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from threadline.errors import UnknownMessage
from threadline.model.message import MessageRef
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, exchange, thread, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, seen


class SeedingContract:
    """Seeding of DM threads."""

    def test_a_thread_starts_with_the_whole_dm(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, exchange("question", "answer"))
        seeded = store.get_or_create_session(dm(thread="unheard-of"))
        assert seen(store, seeded.session_id) == ["question", "answer"]
        assert seeded.parent_session_id == parent.session_id
        assert seeded.session_id != parent.session_id
        assert seeded.message_count == 0

    def test_a_thread_starts_at_the_message_it_hangs_on(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("one"), external_id="m1")
        store.append_to_transcript(parent.session_id, user("two"), external_id="m2")
        store.append_to_transcript(parent.session_id, user("three"), external_id="m3")
        seeded = store.get_or_create_session(dm(thread="m2"))
        assert seen(store, seeded.session_id) == ["one", "two"]

    def test_a_thread_can_hang_on_a_delivered_message(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        appended = store.append_to_transcript(parent.session_id, exchange("question", "answer"))
        store.append_to_transcript(parent.session_id, user("later"))
        store.link_message(str(appended.refs[1]), "sent-9")
        assert seen(store, store.get_or_create_session(dm(thread="sent-9")).session_id) == ["question", "answer"]

    def test_only_a_message_that_exists_can_be_linked(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        with pytest.raises(UnknownMessage):
            store.link_message(MessageRef(parent.session_id, 1), "sent-9")

    def test_then_the_two_stay_apart(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("before"))
        seeded = store.get_or_create_session(dm(thread="t"))
        store.append_to_transcript(parent.session_id, user("in the dm"))
        store.append_to_transcript(seeded.session_id, user("in the thread"))
        assert seen(store, parent.session_id) == ["before", "in the dm"]
        assert seen(store, seeded.session_id) == ["before", "in the thread"]
        store.rewind_session(parent.session_id, 9)
        assert seen(store, seeded.session_id) == ["before", "in the thread"]

    def test_a_thread_is_seeded_once(self, store: SessionStore) -> None:
        first = store.get_or_create_session(dm(thread="t"))
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("later"))
        again = store.get_or_create_session(dm(thread="t"))
        assert again.session_id == first.session_id
        assert seen(store, again.session_id) == []

    def test_only_what_the_dm_shows_is_passed_on(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, exchange("kept", "kept too"))
        store.append_to_transcript(parent.session_id, user("undone"), external_id="m3")
        store.rewind_session(parent.session_id)
        assert seen(store, store.get_or_create_session(dm(thread="m3")).session_id) == ["kept", "kept too"]

    def test_nothing_is_seeded_where_a_new_session_was_wanted(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("before"))
        forced = store.get_or_create_session(dm(thread="t"), force_new=True)
        assert seen(store, forced.session_id) == []
        again = store.get_or_create_session(dm(thread="t"), force_new=True)
        assert seen(store, again.session_id) == []
        fresh = store.reset_session(again.session_key)
        assert fresh is not None
        assert seen(store, fresh.session_id) == []

    def test_nothing_is_seeded_after_an_automatic_reset(self, open_store: OpenStore, clock: FakeClock) -> None:
        idle = SessionResetPolicy(mode="idle", idle_minutes=60)
        store = open_store(policies=ResetPolicies(default=idle))
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("before"))
        assert seen(store, store.get_or_create_session(dm(thread="t")).session_id) == ["before"]
        clock.advance(timedelta(hours=2))
        store.append_to_transcript(parent.session_id, user("the dm goes on"))
        assert seen(store, store.get_or_create_session(dm(thread="t")).session_id) == []

    def test_only_a_dm_with_messages_of_its_own_is_passed_on(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        assert seen(store, store.get_or_create_session(dm(thread="early")).session_id) == []
        store.append_to_transcript(parent.session_id, user("before"))
        inherited = store.fork_session(parent.session_id, key=parent.session_key)
        assert seen(store, inherited.session_id) == ["before"]
        assert seen(store, store.get_or_create_session(dm(thread="late")).session_id) == []

    def test_the_dms_current_session_is_passed_on(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, user("old"))
        fresh = store.reset_session(parent.session_key)
        assert fresh is not None
        store.append_to_transcript(fresh.session_id, user("new"))
        assert seen(store, store.get_or_create_session(dm(thread="t")).session_id) == ["new"]

    def test_threads_of_groups_start_empty(self, store: SessionStore) -> None:
        whole = store.get_or_create_session(thread("7", "g1", "t1"))
        store.append_to_transcript(whole.session_id, user("in t1"))
        assert seen(store, store.get_or_create_session(thread("7", "g1", "t2")).session_id) == []

    def test_nobody_elses_dm_is_passed_on(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm("7"))
        store.append_to_transcript(parent.session_id, user("private"), external_id="m1")
        for other in (dm("8", thread="m1"), dm("7", thread="m1", account="work")):
            assert seen(store, store.get_or_create_session(other).session_id) == []

    def test_a_thread_outlives_its_dm(self, store: SessionStore) -> None:
        parent = store.get_or_create_session(dm())
        store.append_to_transcript(parent.session_id, exchange("question", "answer"))
        seeded = store.get_or_create_session(dm(thread="t"))
        store.append_to_transcript(seeded.session_id, assistant("more"))
        store.delete_session(parent.session_id)
        assert seen(store, seeded.session_id) == ["question", "answer", "more"]
        assert store.check().ok
