"""Contract: a conversation goes on with an earlier session."""

from __future__ import annotations

from datetime import timedelta

import pytest

from threadline.errors import NotYours, ThreadlineError, UnknownSession
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import dm, group, thread, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, seen, switched


def two_in_a_row(store: SessionStore, source: SessionSource) -> tuple[SessionEntry, SessionEntry]:
    """An ended session in which `old` was said, and the current one in which `new` was."""
    old = store.get_or_create_session(source)
    store.append_to_transcript(old.session_id, user("old"))
    new = store.get_or_create_session(source, force_new=True)
    store.append_to_transcript(new.session_id, user("new"))
    return store.get_session(old.session_id), store.get_session(new.session_id)


class SwitchingContract:
    """`/resume`."""

    def test_an_earlier_session_is_reopened(self, store: SessionStore, clock: FakeClock) -> None:
        old, new = two_in_a_row(store, dm())
        now = clock.advance(timedelta(hours=1))
        resumed = switched(store, old.session_key, old.session_id)
        assert resumed.session_id == old.session_id
        assert (resumed.ended_at, resumed.end_reason, resumed.session_key) == (None, None, old.session_key)
        assert (resumed.active_at, resumed.updated_at) == (now, now)
        ended = store.get_session(new.session_id)
        assert (ended.ended_at, ended.end_reason) == (now, "session_switch")
        assert store.get_or_create_session(dm()).session_id == old.session_id
        store.append_to_transcript(old.session_id, user("more"))
        assert seen(store, old.session_id) == ["old", "more"]

    def test_there_and_back_again(self, store: SessionStore) -> None:
        old, new = two_in_a_row(store, dm())
        store.switch_session(old.session_key, old.session_id)
        back = switched(store, old.session_key, new.session_id)
        assert back.session_id == new.session_id
        assert store.get_session(old.session_id).end_reason == "session_switch"
        assert seen(store, new.session_id) == ["new"]

    def test_the_same_session_again_changes_nothing(self, store: SessionStore, clock: FakeClock) -> None:
        _, new = two_in_a_row(store, dm())
        clock.advance(timedelta(hours=1))
        assert store.switch_session(new.session_key, new.session_id) == new
        assert store.get_session(new.session_id) == new

    def test_a_resumed_session_does_not_go_stale_at_once(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60)))
        old, _ = two_in_a_row(store, dm())
        clock.advance(timedelta(days=3))
        store.switch_session(old.session_key, old.session_id)
        clock.advance(timedelta(minutes=30))
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_unknown_ids_and_keys_change_nothing(self, store: SessionStore) -> None:
        old, new = two_in_a_row(store, dm())
        with pytest.raises(UnknownSession):
            store.switch_session(new.session_key, "20260101_000000_000000000000")
        for session_id in (old.session_id, "20260101_000000_000000000000"):
            assert store.switch_session("agent:main:telegram:dm:nobody", session_id) is None
        assert store.get_session(new.session_id) == new
        assert store.get_session(old.session_id) == old

    @pytest.mark.parametrize(
        ("here", "theirs"),
        [
            pytest.param(dm("8"), dm("7"), id="another person's"),
            pytest.param(dm("7", account="work"), dm("7"), id="another account's"),
            pytest.param(dm("7", platform="discord"), dm("7"), id="another platform's"),
            pytest.param(thread("7"), dm("7"), id="a DM's under a shared address"),
            pytest.param(thread("7"), group("7"), id="a private one of that group under a shared address"),
            pytest.param(group("7"), dm("7"), id="a DM's in a group"),
            pytest.param(group("8"), group("7"), id="another member's"),
            pytest.param(group("7", "g2"), group("7", "g1"), id="another group's"),
            pytest.param(group("7"), thread("7"), id="a shared one under a private address"),
            pytest.param(thread("7", "g2"), thread("7", "g1"), id="another group's thread"),
            pytest.param(dm("7"), thread("7"), id="a shared one in a DM"),
        ],
    )
    def test_what_is_not_yours_stays_where_it_is(
        self, store: SessionStore, here: SessionSource, theirs: SessionSource
    ) -> None:
        old, new = two_in_a_row(store, theirs)
        mine = store.get_or_create_session(here)
        for wanted in (old, new):
            with pytest.raises(NotYours):
                store.switch_session(mine.session_key, wanted.session_id)
        assert store.get_session(mine.session_id) == mine
        assert store.get_session(old.session_id) == old
        assert store.get_session(new.session_id) == new
        assert len(store.list_sessions(include_ended=True)) == 3

    def test_in_a_shared_thread_its_chats_shared_sessions_go_on(self, store: SessionStore) -> None:
        old, new = two_in_a_row(store, thread("7"))
        assert switched(store, new.session_key, old.session_id).session_id == old.session_id
        other = store.get_or_create_session(thread("8", "g1", "t2"))
        forked = switched(store, other.session_key, old.session_id)
        assert forked.parent_session_id == old.session_id

    def test_one_that_is_held_elsewhere_is_forked(self, store: SessionStore) -> None:
        held = store.get_or_create_session(group("7"))
        store.append_to_transcript(held.session_id, user("in the group"))
        store.set_runtime(held.session_id, model="m-1", cwd="/srv")
        mine = store.get_or_create_session(dm("7"))
        forked = switched(store, mine.session_key, held.session_id)
        assert forked.session_id not in (held.session_id, mine.session_id)
        assert (forked.parent_session_id, forked.session_key) == (held.session_id, mine.session_key)
        assert (forked.model, forked.cwd) == ("m-1", "/srv")
        assert store.get_or_create_session(dm("7")).session_id == forked.session_id
        assert store.get_session(mine.session_id).end_reason == "session_switch"
        assert store.get_or_create_session(group("7")).session_id == held.session_id
        store.append_to_transcript(forked.session_id, user("in the dm"))
        assert seen(store, held.session_id) == ["in the group"]
        assert seen(store, forked.session_id) == ["in the group", "in the dm"]

    def test_an_ended_one_of_another_place_moves_here(self, store: SessionStore) -> None:
        old, new = two_in_a_row(store, group("7"))
        mine = store.get_or_create_session(dm("7"))
        moved = switched(store, mine.session_key, old.session_id)
        assert (moved.session_id, moved.session_key) == (old.session_id, mine.session_key)
        assert store.get_or_create_session(dm("7")).session_id == old.session_id
        assert store.get_or_create_session(group("7")).session_id == new.session_id

    def test_what_moved_into_a_dm_is_private_to_it(self, store: SessionStore) -> None:
        old, _ = two_in_a_row(store, group("7"))
        mine = store.get_or_create_session(dm("7"))
        store.switch_session(mine.session_key, old.session_id)
        store.append_to_transcript(old.session_id, user("a secret"))
        in_group = [entry.session_id for entry in store.list_sessions(person=group("7"))]
        assert old.session_id not in in_group
        assert not store.search("secret", viewer=group("7")).items
        store.reset_session(mine.session_key)
        here = store.get_or_create_session(group("7"))
        with pytest.raises(NotYours):
            store.switch_session(here.session_key, old.session_id)

    def test_a_fork_waits_to_be_resumed(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, user("hello"))
        fork = store.fork_session(entry.session_id)
        assert store.get_or_create_session(dm()).session_id == entry.session_id
        resumed = switched(store, entry.session_key, fork.session_id)
        assert resumed.session_id == fork.session_id
        assert store.get_or_create_session(dm()).session_id == fork.session_id

    def test_a_deleted_session_cannot_be_resumed(self, store: SessionStore) -> None:
        old, new = two_in_a_row(store, dm())
        store.delete_session(old.session_id)
        with pytest.raises(ThreadlineError) as caught:
            store.switch_session(new.session_key, old.session_id)
        assert isinstance(caught.value, UnknownSession)
        assert store.get_session(new.session_id) == new
