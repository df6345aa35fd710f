"""Contract: which session a message belongs to, and what a session says of itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from threadline.errors import InvalidRequest, UnknownSession
from threadline.ids import is_session_id
from threadline.model.address import SessionScope
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, group, thread, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, short

MINUTE = timedelta(minutes=1)

APART = [
    dm("7"),
    dm("8"),
    dm("7", platform="discord"),
    dm("7", account="work"),
    dm("7", thread="5"),
    group("7", "g1"),
    group("8", "g1"),
    group("7", "g2"),
    group("7", "g1", chat_type="channel"),
    thread("7", "g1", "t1"),
    thread("7", "g1", "t2"),
    SessionSource.local_cli(),
    SessionSource(platform="web"),
]


class SessionContract:
    """One conversation for each address, and its facts."""

    def test_one_place_has_one_session(self, store: SessionStore) -> None:
        first = store.get_or_create_session(dm())
        again = store.get_or_create_session(dm(user_name="A new name"))
        assert again.session_id == first.session_id

    def test_different_places_have_different_sessions(self, store: SessionStore) -> None:
        ids = [store.get_or_create_session(source).session_id for source in APART]
        assert len(set(ids)) == len(APART)
        assert [store.get_or_create_session(source).session_id for source in APART] == ids

    def test_agents_have_conversations_of_their_own(self, store: SessionStore) -> None:
        ours = store.get_or_create_session(dm())
        theirs = store.get_or_create_session(dm(), agent="other")
        assert ours.session_id != theirs.session_id
        assert theirs.session_key == store.session_key(dm(), agent="other")

    def test_the_key_is_the_readable_name_of_the_address(self, store: SessionStore) -> None:
        for source in APART:
            assert store.get_or_create_session(source).session_key == store.session_key(source)

    def test_members_of_a_group_speak_apart_and_in_its_threads_together(self, store: SessionStore) -> None:
        ada, ben = store.get_or_create_session(group("7")), store.get_or_create_session(group("8"))
        assert ada.session_id != ben.session_id
        assert (ada.is_shared, ada.owner) == (False, "telegram:7")
        one, two = store.get_or_create_session(thread("7")), store.get_or_create_session(thread("8"))
        assert one.session_id == two.session_id
        assert (one.is_shared, one.owner) == (True, None)

    def test_the_scope_decides_who_shares(self, open_store: OpenStore) -> None:
        apart = open_store(scope=SessionScope(thread_sessions_per_user=True))
        one, two = apart.get_or_create_session(thread("7")), apart.get_or_create_session(thread("8"))
        assert one.session_id != two.session_id
        # A thread is nobody's own in a group that all share.
        together = open_store(scope=SessionScope(group_sessions_per_user=False, thread_sessions_per_user=True))
        for place in (group, thread):
            ada, ben = together.get_or_create_session(place("7")), together.get_or_create_session(place("8"))
            assert ada.session_id == ben.session_id
            assert ada.is_shared

    def test_addresses_that_spell_the_same_stay_apart(self, store: SessionStore) -> None:
        member, topic = group("x", "g"), thread("7", "g", "x")
        assert store.session_key(member) == store.session_key(topic)
        first, second = store.get_or_create_session(member), store.get_or_create_session(topic)
        assert first.session_id != second.session_id
        assert first.session_key == store.session_key(member)
        assert second.session_key != first.session_key
        assert second.session_key.startswith(first.session_key)
        assert store.get_or_create_session(member).session_id == first.session_id
        assert store.get_or_create_session(topic).session_id == second.session_id
        fresh = store.reset_session(second.session_key)
        assert fresh is not None
        assert store.get_or_create_session(topic).session_id == fresh.session_id
        assert store.get_or_create_session(member).session_id == first.session_id

    def test_a_new_session_says_where_it_comes_from(self, store: SessionStore, clock: FakeClock) -> None:
        source = group("7", "g1", chat_name="The club", user_name="Ada", chat_topic="Tea", user_handle="@ada")
        entry = store.get_or_create_session(source)
        assert is_session_id(entry.session_id)
        assert entry.origin == source
        assert (entry.platform, entry.chat_type, entry.display_name) == ("telegram", "group", "The club")
        assert entry.created_at == entry.updated_at == entry.active_at == clock.now()
        assert entry.message_count == entry.total_tokens == 0
        assert (entry.ended_at, entry.end_reason, entry.parent_session_id, entry.title) == (None,) * 4
        assert (entry.was_auto_reset, entry.auto_reset_reason, entry.memory_flushed) == (False, None, False)
        assert store.get_session(entry.session_id) == entry

    def test_resolving_touches(self, store: SessionStore, clock: FakeClock) -> None:
        first = store.get_or_create_session(dm())
        later = clock.advance(MINUTE)
        again = store.get_or_create_session(dm())
        assert (again.created_at, again.updated_at, again.active_at) == (first.created_at, later, later)
        assert store.get_session(first.session_id) == again

    def test_sessions_survive_a_restart(self, open_store: OpenStore) -> None:
        first = open_store()
        entry = first.get_or_create_session(dm())
        first.append_to_transcript(entry.session_id, user("hello"))
        first.close()
        second = open_store()
        assert second.get_or_create_session(dm()).session_id == entry.session_id
        assert second.load_transcript(entry.session_id) == [user("hello")]

    def test_a_forced_new_session_ends_the_old_one(self, store: SessionStore, clock: FakeClock) -> None:
        old = store.get_or_create_session(dm())
        store.append_to_transcript(old.session_id, user("hello"))
        now = clock.advance(MINUTE)
        new = store.get_or_create_session(dm(), force_new=True)
        assert new.session_id != old.session_id
        assert new.session_key == old.session_key
        assert (new.was_auto_reset, new.auto_reset_reason, new.message_count) == (False, None, 0)
        assert store.load_transcript(new.session_id) == []
        ended = store.get_session(old.session_id)
        assert (ended.ended_at, ended.end_reason) == (now, "session_reset")
        assert store.load_transcript(old.session_id) == [user("hello")]
        assert store.get_or_create_session(dm()).session_id == new.session_id

    def test_forcing_where_there_is_none_makes_one(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm(), force_new=True)
        assert store.get_or_create_session(dm()).session_id == entry.session_id

    def test_a_reset_starts_afresh_and_keeps_origin_and_name(self, store: SessionStore) -> None:
        old = store.get_or_create_session(dm(user_name="Ada"))
        store.append_to_transcript(old.session_id, user("hello"))
        new = store.reset_session(old.session_key)
        assert new is not None
        assert new.session_id != old.session_id
        assert (new.origin, new.display_name) == (old.origin, "Ada")
        assert (new.was_auto_reset, new.reset_had_activity) == (False, False)
        assert store.load_transcript(new.session_id) == []
        assert store.get_session(old.session_id).end_reason == "session_reset"
        assert store.get_or_create_session(dm()).session_id == new.session_id

    def test_resetting_an_unknown_key_does_nothing(self, store: SessionStore) -> None:
        assert store.reset_session("agent:main:telegram:dm:nobody") is None
        assert not store.has_any_sessions()

    def test_an_unknown_id_is_told(self, store: SessionStore) -> None:
        with pytest.raises(UnknownSession, match="20260101_000000_abc"):
            store.get_session("20260101_000000_abc")

    def test_whether_there_ever_were_sessions(self, store: SessionStore) -> None:
        assert not store.has_any_sessions()
        first = store.get_or_create_session(dm())
        assert store.has_any_sessions()
        assert not store.has_any_sessions(besides=first.session_id)
        second = store.get_or_create_session(dm(), force_new=True)
        assert store.has_any_sessions(besides=second.session_id)

    def test_runtime_is_set_in_parts(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        store.set_runtime(entry.session_id, model="m-1", cwd="/tmp/a b")  # noqa: S108 - a name, no file
        changed = store.set_runtime(entry.session_id, runtime={"provider": "p", "options": {"max_tokens": 5}})
        assert (changed.model, changed.cwd) == ("m-1", "/tmp/a b")  # noqa: S108
        assert changed.runtime == {"provider": "p", "options": {"max_tokens": 5}}
        assert store.get_session(entry.session_id) == changed

    def test_runtime_takes_no_secrets(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        with pytest.raises(InvalidRequest, match="api_key"):
            store.set_runtime(entry.session_id, model="m-1", runtime={"deep": [{"api_key": "x"}]})
        assert store.get_session(entry.session_id) == entry

    def test_flushed_holds_until_something_is_said(self, store: SessionStore, clock: FakeClock) -> None:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, user("remember me"))
        before = store.get_session(entry.session_id)
        clock.advance(MINUTE)
        flushed = store.mark_flushed(entry.session_id)
        assert flushed.memory_flushed
        assert (flushed.updated_at, flushed.active_at) == (before.updated_at, before.active_at)
        store.append_to_transcript(entry.session_id, assistant("and me"))
        assert not store.get_session(entry.session_id).memory_flushed

    def test_only_people_and_turns_make_a_session_active(self, store: SessionStore, clock: FakeClock) -> None:
        entry = store.get_or_create_session(dm())
        session_id = entry.session_id
        later = clock.advance(MINUTE)
        store.append_to_transcript(session_id, {"role": "system", "content": "note"})
        store.set_title(session_id, "Tea")
        store.record_usage(session_id, "turn-1", input_tokens=3)
        store.set_runtime(session_id, model="m-1")
        store.rewrite_transcript(session_id, [user("said again"), assistant("answered again")])
        kept = store.get_session(session_id)
        assert (kept.active_at, kept.updated_at) == (entry.active_at, later)
        latest = clock.advance(MINUTE)
        store.append_to_transcript(session_id, assistant("done"))
        assert store.get_session(session_id).active_at == latest


class TitleContract:
    """Named sessions."""

    def test_a_title_is_found_however_it_is_typed(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        named = store.set_title(entry.session_id, "  Café  Größe ")
        assert named.title == "Café Größe"
        for typed in ("café größe", "CAFE GROSSE", " Cafe\tgrösse "):
            found = store.find_by_title(typed)
            assert found is not None, typed
            assert found.session_id == entry.session_id
        assert store.find_by_title("cafe") is None

    def test_of_one_name_the_latest_is_meant(self, store: SessionStore, clock: FakeClock) -> None:
        older, newer = store.get_or_create_session(dm("7")), store.get_or_create_session(dm("8"))
        for entry in (newer, older):
            clock.advance(MINUTE)
            store.set_title(entry.session_id, "Plans")
        found = store.find_by_title("plans")
        assert found is not None
        assert found.session_id == older.session_id

    def test_an_ended_session_keeps_its_title(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        store.set_title(entry.session_id, "Plans")
        store.reset_session(entry.session_key)
        found = store.find_by_title("plans")
        assert found is not None
        assert found.session_id == entry.session_id

    def test_a_viewer_finds_only_their_own(self, store: SessionStore) -> None:
        mine, shared = store.get_or_create_session(dm("7")), store.get_or_create_session(thread("8"))
        store.set_title(mine.session_id, "Mine")
        store.set_title(shared.session_id, "Ours")
        assert store.find_by_title("mine", viewer="telegram:7") is not None
        assert store.find_by_title("mine", viewer=dm("8")) is None
        assert store.find_by_title("mine", viewer=group("7")) is None
        assert store.find_by_title("ours", viewer=group("9")) is not None
        assert store.find_by_title("ours", viewer=group("9", "g2")) is None

    def test_a_title_can_be_taken_away(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        store.set_title(entry.session_id, "Plans")
        assert store.set_title(entry.session_id, None).title is None
        assert store.find_by_title("plans") is None

    @pytest.mark.parametrize("title", ["", " \t ", "x" * 201, "a\x00b", "half \ud83d"], ids=short)
    def test_what_can_be_no_title_changes_nothing(self, store: SessionStore, title: str) -> None:
        entry = store.get_or_create_session(dm())
        store.set_title(entry.session_id, "Plans")
        with pytest.raises(InvalidRequest):
            store.set_title(entry.session_id, title)
        assert store.get_session(entry.session_id).title == "Plans"

    def test_an_unknown_session_has_no_title(self, store: SessionStore) -> None:
        with pytest.raises(UnknownSession):
            store.set_title("nothing", "Plans")
