"""When a session starts afresh by itself: the original's rules, and what tells of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract.compat.talk import assistant, dm, group, user

from threadline.compat import GatewayConfig, Platform, SessionEntry, SessionResetPolicy, SessionStore


def with_policy(**fields: Any) -> GatewayConfig:
    return GatewayConfig(default_reset_policy=SessionResetPolicy(**fields))


def aged(store: SessionStore, **ago: float) -> SessionEntry:
    """A session that was last used so long ago."""
    entry = store.get_or_create_session(dm(), force_new=True)
    entry.updated_at = datetime.now() - timedelta(**ago)  # noqa: DTZ005 - the original's times are naive
    return entry


Open = Callable[..., SessionStore]


@pytest.mark.parametrize(
    ("mode", "ago", "reason"),
    [
        ("none", {"days": 400}, None),
        ("idle", {"minutes": 61}, "idle"),
        ("idle", {"minutes": 59}, None),
        ("daily", {"hours": 25}, "daily"),
        ("both", {"minutes": 61}, "idle"),
        ("both", {"days": 3}, "idle"),
        ("weekly", {"days": 400}, None),
    ],
)
def test_what_each_mode_resets(open_store: Open, mode: str, ago: dict[str, float], reason: str | None) -> None:
    # The boundary of the day is far away in the rows that ask for idleness alone.
    far = (datetime.now().hour + 2) % 24  # noqa: DTZ005
    store = open_store(with_policy(mode=mode, idle_minutes=60, at_hour=far))
    before = aged(store, **ago)
    after = store.get_or_create_session(dm())
    assert (after.session_id != before.session_id) == (reason is not None)
    assert (after.was_auto_reset, after.auto_reset_reason) == (reason is not None, reason)


def test_both_names_the_day_where_the_session_is_not_idle(open_store: Open) -> None:
    store = open_store(with_policy(mode="both", idle_minutes=100_000))
    aged(store, hours=25)
    assert store.get_or_create_session(dm()).auto_reset_reason == "daily"


@pytest.mark.parametrize(("offset", "is_reset"), [(-1, True), (1, False)])
def test_the_day_begins_at_its_hour_by_the_local_clock(open_store: Open, offset: int, is_reset: bool) -> None:
    now = datetime.now()  # noqa: DTZ005
    store = open_store(with_policy(mode="daily", at_hour=now.hour))
    entry = store.get_or_create_session(dm())
    entry.updated_at = now.replace(minute=0, second=0, microsecond=0) + timedelta(microseconds=offset)
    assert store.get_or_create_session(dm()).was_auto_reset is is_reset


def test_before_the_hour_the_day_is_yesterdays(open_store: Open) -> None:
    later = (datetime.now() + timedelta(hours=2)).hour  # noqa: DTZ005
    store = open_store(with_policy(mode="daily", at_hour=later))
    aged(store, hours=21)
    assert not store.get_or_create_session(dm()).was_auto_reset


def test_no_idle_minutes_reset_at_once_and_without_grace(open_store: Open) -> None:
    store = open_store(with_policy(mode="idle", idle_minutes=0))
    ids = [store.get_or_create_session(dm()).session_id for _ in range(3)]
    assert len(set(ids)) == 3


def test_idleness_counts_from_the_last_update(open_store: Open) -> None:
    store = open_store(with_policy(mode="idle", idle_minutes=60))
    entry = aged(store, minutes=90)
    store.update_session(entry.session_key, 5)
    assert store.get_or_create_session(dm()).session_id == entry.session_id


def test_only_the_call_that_reset_tells_of_it(open_store: Open) -> None:
    store = open_store(with_policy(mode="idle", idle_minutes=60))
    old = aged(store, minutes=90)
    store.append_to_transcript(old.session_id, user("hi"))
    old.updated_at = datetime.now() - timedelta(minutes=90)  # noqa: DTZ005
    told = store.get_or_create_session(dm())
    assert (told.was_auto_reset, told.auto_reset_reason, told.reset_had_activity) == (True, "idle", True)
    for entry in (store.get_or_create_session(dm()), *store.list_sessions(), *open_store().list_sessions()):
        assert entry.session_id == told.session_id
        assert (entry.was_auto_reset, entry.auto_reset_reason, entry.reset_had_activity) == (False, None, False)


@pytest.mark.parametrize(
    ("message", "had_activity"), [(None, False), (user("a"), True), (assistant("a"), True)], ids=["none", "user", "bot"]
)
def test_activity_is_a_message_of_the_session(open_store: Open, message: Any, had_activity: bool) -> None:
    store = open_store(with_policy(mode="idle", idle_minutes=60))
    old = store.get_or_create_session(dm())
    if message:
        store.append_to_transcript(old.session_id, message)
    old.updated_at = datetime.now() - timedelta(minutes=90)  # noqa: DTZ005
    assert store.get_or_create_session(dm()).reset_had_activity is had_activity


def test_nothing_else_tells_of_a_reset(store: SessionStore) -> None:
    first = store.get_or_create_session(dm())
    forced = store.get_or_create_session(dm(), force_new=True)
    reset = store.reset_session(first.session_key)
    assert reset is not None
    assert len({first.session_id, forced.session_id, reset.session_id}) == 3
    assert not any(entry.was_auto_reset for entry in (first, forced, reset))


def test_the_policy_is_asked_at_every_call_with_platform_and_type(open_store: Open) -> None:
    asked: list[Any] = []
    policy = SimpleNamespace(mode="none")

    class Config:
        """Nothing but the one method."""

        def get_reset_policy(self, platform: Any = None, session_type: Any = None) -> Any:
            asked.append((platform, session_type))
            return policy

    store = open_store(Config())
    first = store.get_or_create_session(group())
    assert store.get_or_create_session(group()).session_id == first.session_id
    # Without the other attributes the defaults hold.
    policy.mode = "idle"
    first.updated_at = datetime.now() - timedelta(minutes=1439)  # noqa: DTZ005
    assert store.get_or_create_session(group()).session_id == first.session_id
    first.updated_at = datetime.now() - timedelta(minutes=1441)  # noqa: DTZ005
    assert store.get_or_create_session(group()).was_auto_reset
    assert asked == [(Platform.TELEGRAM, "group")] * 4


def test_a_configuration_that_is_changed_holds_from_the_next_call_on(open_store: Open) -> None:
    config = with_policy(mode="none")
    store = open_store(config)
    entry = aged(store, days=9)
    config.default_reset_policy.mode = "idle"
    assert store.get_or_create_session(dm()).session_id != entry.session_id
    config.group_sessions_per_user = False
    assert store.get_or_create_session(group()).session_key == "agent:main:telegram:group:-5"
    store.config = SimpleNamespace(get_reset_policy=lambda **_: SessionResetPolicy("none"))
    assert store.get_or_create_session(group()).session_key == "agent:main:telegram:group:-5:7"


def test_a_key_with_processes_is_not_reset_by_itself(open_store: Open) -> None:
    asked: list[str] = []
    busy = [True]

    def has_processes(key: str) -> bool:
        asked.append(key)
        return busy[0]

    store = open_store(with_policy(mode="idle", idle_minutes=0), has_active_processes_fn=has_processes)
    entry = store.get_or_create_session(dm())
    assert store.get_or_create_session(dm()).session_id == entry.session_id
    assert asked == [entry.session_key]
    assert store.get_or_create_session(dm(), force_new=True).session_id != entry.session_id
    busy[0] = False
    assert store.get_or_create_session(dm()).was_auto_reset


def test_a_reset_session_keeps_its_messages_and_the_new_one_is_empty(open_store: Open) -> None:
    store = open_store(with_policy(mode="idle", idle_minutes=0))
    old = store.get_or_create_session(dm())
    store.append_to_transcript(old.session_id, user("hi"))
    new = store.get_or_create_session(dm())
    assert store.load_transcript(old.session_id) == [user("hi")]
    assert store.load_transcript(new.session_id) == []
    assert [entry.session_id for entry in store.list_sessions()] == [new.session_id]
