"""Contract: when a conversation starts afresh by itself, and who is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from threadline.errors import InvalidRequest, UnknownSession
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, group, system, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, seen

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def policies(**policy: Any) -> ResetPolicies:
    """One policy for all, by default after an idle hour."""
    fields: dict[str, Any] = {"mode": "idle", "idle_minutes": 60} | policy
    return ResetPolicies(default=SessionResetPolicy(**fields))


def said(store: SessionStore, text: str = "hello") -> SessionEntry:
    """The current session of a DM, in which something was said."""
    entry = store.get_or_create_session(dm())
    store.append_to_transcript(entry.session_id, user(text))
    return entry


class ResetContract:
    """Automatic resets by policy, votes against them, and their notices."""

    def test_a_pause_longer_than_allowed_starts_afresh(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        old = said(store)
        now = clock.advance(HOUR + MINUTE)
        new = store.get_or_create_session(dm())
        assert new.session_id != old.session_id
        assert (new.was_auto_reset, new.auto_reset_reason, new.reset_had_activity) == (True, "idle", True)
        assert seen(store, new.session_id) == []
        ended = store.get_session(old.session_id)
        assert (ended.ended_at, ended.end_reason) == (now, "session_reset")
        assert store.get_or_create_session(dm()).session_id == new.session_id

    def test_a_pause_as_long_as_allowed_goes_on(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        old = said(store)
        clock.advance(HOUR)
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_a_new_day_starts_afresh(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(mode="daily", at_hour=4, timezone="Europe/Berlin"))
        clock.set(datetime(2026, 1, 5, 2, 30, tzinfo=UTC))
        old = said(store)
        clock.set(datetime(2026, 1, 5, 2, 59, tzinfo=UTC))
        assert store.get_or_create_session(dm()).session_id == old.session_id
        clock.set(datetime(2026, 1, 5, 3, 20, tzinfo=UTC))
        new = store.get_or_create_session(dm())
        assert new.session_id != old.session_id
        assert new.auto_reset_reason == "daily"

    def test_days_begin_in_the_installations_zone(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(mode="daily", at_hour=0), timezone="Asia/Tokyo")
        clock.set(datetime(2026, 1, 5, 14, 30, tzinfo=UTC))
        old = said(store)
        clock.set(datetime(2026, 1, 5, 15, 30, tzinfo=UTC))
        assert store.get_or_create_session(dm()).session_id != old.session_id

    def test_idle_is_named_where_both_hold(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(mode="both"))
        said(store)
        clock.advance(timedelta(days=2))
        assert store.get_or_create_session(dm()).auto_reset_reason == "idle"

    def test_without_a_policy_nothing_resets(self, store: SessionStore, clock: FakeClock) -> None:
        old = said(store)
        clock.advance(timedelta(days=4000))
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_no_reset_within_the_grace_period(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(mode="daily", at_hour=4))
        clock.set(datetime(2026, 1, 5, 3, 55, tzinfo=UTC))
        old = said(store)
        clock.set(datetime(2026, 1, 5, 4, 5, tzinfo=UTC))
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_a_clock_that_goes_back_resets_nothing(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(mode="both"))
        old = said(store)
        clock.advance(timedelta(days=-300))
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_platform_goes_before_chat_type_goes_before_default(self, open_store: OpenStore, clock: FakeClock) -> None:
        idle, never = SessionResetPolicy(mode="idle", idle_minutes=60), SessionResetPolicy()
        chosen = ResetPolicies(default=never, by_type={"group": idle}, by_platform={"slack": never})
        store = open_store(policies=chosen)
        sources = [dm(), group("7"), group("7", platform="slack")]
        before = [store.get_or_create_session(source).session_id for source in sources]
        clock.advance(2 * HOUR)
        after = [store.get_or_create_session(source).session_id for source in sources]
        assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]

    def test_what_was_said_last_counts(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        old = said(store)
        clock.advance(HOUR)
        store.append_to_transcript(old.session_id, assistant("still here"))
        clock.advance(HOUR)
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_bookkeeping_keeps_no_session_alive(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        old = said(store)
        clock.advance(HOUR)
        store.set_title(old.session_id, "Tea")
        store.record_usage(old.session_id, "turn-1", input_tokens=5)
        store.append_to_transcript(old.session_id, system("a note"))
        clock.advance(MINUTE)
        assert store.get_or_create_session(dm()).session_id != old.session_id


class BusyContract:
    """The embedder's extra vote."""

    def test_a_busy_session_is_not_reset(self, open_store: OpenStore, clock: FakeClock) -> None:
        busy, asked = [True], []

        def is_busy(key: str) -> bool:
            asked.append(key)
            return busy[0]

        store = open_store(policies=policies(), is_busy=is_busy)
        old = said(store)
        store.get_or_create_session(dm())
        assert asked == []
        clock.advance(2 * HOUR)
        assert store.get_or_create_session(dm()).session_id == old.session_id
        assert asked == [old.session_key]
        busy[0] = False
        clock.advance(2 * HOUR)
        assert store.get_or_create_session(dm()).session_id != old.session_id

    def test_a_vote_may_ask_another_store(self, open_store: OpenStore, clock: FakeClock) -> None:
        other = open_store()
        store = open_store(policies=policies(), is_busy=lambda key: bool(other.list_sessions()[0].session_key == key))
        old = said(store)
        clock.advance(2 * HOUR)
        assert store.get_or_create_session(dm()).session_id == old.session_id

    def test_force_overrules_the_vote(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(), is_busy=lambda _: True)
        old = said(store)
        clock.advance(2 * HOUR)
        assert store.get_or_create_session(dm(), force_new=True).session_id != old.session_id


class NoticeContract:
    """Who is told that a conversation started afresh, and how often."""

    def test_each_audience_is_told_exactly_once(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        said(store)
        clock.advance(2 * HOUR)
        new = store.get_or_create_session(dm())
        notice = store.take_reset_notice(new.session_id, "user")
        assert notice is not None
        assert (notice.reason, notice.audience, notice.session_id) == ("idle", "user", new.session_id)
        assert store.take_reset_notice(new.session_id, "user") is None
        told = store.take_reset_notice(new.session_id, "agent")
        assert told is not None
        assert store.take_reset_notice(new.session_id, "agent") is None

    def test_once_holds_across_restarts_and_stores(self, open_store: OpenStore, clock: FakeClock) -> None:
        first, second = open_store(policies=policies()), open_store()
        said(first)
        clock.advance(2 * HOUR)
        new = first.get_or_create_session(dm())
        assert first.take_reset_notice(new.session_id, "user") is not None
        assert second.take_reset_notice(new.session_id, "user") is None
        first.close()
        third = open_store()
        assert third.take_reset_notice(new.session_id, "user") is None
        assert third.take_reset_notice(new.session_id, "agent") is not None
        assert second.take_reset_notice(new.session_id, "agent") is None

    def test_a_silent_policy_silences_the_user_never_the_agent(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies(notify=False))
        said(store)
        clock.advance(2 * HOUR)
        new = store.get_or_create_session(dm())
        assert store.take_reset_notice(new.session_id, "user") is None
        assert store.take_reset_notice(new.session_id, "agent") is not None

    def test_without_activity_nobody_is_told(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        old = store.get_or_create_session(dm())
        store.append_to_transcript(old.session_id, system("you are kind"))
        clock.advance(2 * HOUR)
        new = store.get_or_create_session(dm())
        assert (new.was_auto_reset, new.reset_had_activity) == (True, False)
        assert store.take_reset_notice(new.session_id, "user") is None
        assert store.take_reset_notice(new.session_id, "agent") is None

    def test_inherited_messages_are_no_activity(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(policies=policies())
        said(store)
        seeded = store.get_or_create_session(dm(thread="t"))
        assert seen(store, seeded.session_id) == ["hello"]
        clock.advance(2 * HOUR)
        new = store.get_or_create_session(dm(thread="t"))
        assert (new.was_auto_reset, new.reset_had_activity) == (True, False)
        assert store.take_reset_notice(new.session_id, "agent") is None

    def test_who_asked_for_a_new_session_needs_no_notice(self, store: SessionStore) -> None:
        old = said(store)
        forced = store.get_or_create_session(dm(), force_new=True)
        store.append_to_transcript(forced.session_id, user("hello"))
        fresh = store.reset_session(old.session_key)
        assert fresh is not None
        for entry in (forced, fresh):
            assert store.take_reset_notice(entry.session_id, "user") is None
            assert store.take_reset_notice(entry.session_id, "agent") is None

    def test_a_notice_is_for_someone_and_of_a_session(self, store: SessionStore) -> None:
        entry = said(store)
        with pytest.raises(InvalidRequest, match="everyone"):
            store.take_reset_notice(entry.session_id, cast(Any, "everyone"))
        with pytest.raises(UnknownSession):
            store.take_reset_notice("nothing", "user")
