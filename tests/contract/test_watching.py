"""Which sessions end by themselves, and what comes after it: on both engines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.contract.gateways import OpenGateway, Run
from tests.contract.watching import (
    HOUR,
    MINUTE,
    accepted,
    claimed,
    multiply,
    opens,
    policies,
    said,
    sound,
    store,
    taken_back,
    watched,
)

from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.store.facade import GatewayStore
from threadline.store.work.expiry import MAX_EXPIRED, SCAN_LIMIT
from threadline.testing import FakeClock, dm, group, user
from threadline.testing.contracts.storage.fixtures import RawExecute

__all__ = ["opens", "store"]


# Which sessions end


def test_a_stale_session_ends_before_anybody_comes_back(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(HOUR)
    assert run(watched(store)) == []
    now = clock.advance(MINUTE)
    assert run(watched(store)) == [old.session_id]
    ended = run(store.get_session(old.session_id))
    assert (ended.ended_at, ended.end_reason, ended.active_at) == (now, "session_reset", old.active_at)
    assert run(store.list_sessions()).items == []
    assert run(watched(store)) == []
    assert run(sound(store))


def test_a_new_day_ends_it_in_the_policys_zone(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    store = opens(policies=policies(mode="daily", at_hour=4, timezone="Europe/Berlin"))
    clock.set(datetime(2026, 1, 5, 2, 30, tzinfo=UTC))
    old = run(said(store))
    clock.set(datetime(2026, 1, 5, 2, 59, tzinfo=UTC))
    assert run(watched(store)) == []
    clock.set(datetime(2026, 1, 5, 3, 1, tzinfo=UTC))
    assert run(watched(store)) == [old.session_id]
    clock.advance(timedelta(days=3))
    assert run(store.get_or_create_session(dm())).auto_reset_reason == "daily"


def test_a_new_day_ends_it_in_its_persons_zone(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    store = opens(policies=policies(mode="daily", at_hour=0, timezone="person"))
    run(store.preferences.set_timezone("telegram:7", "Asia/Tokyo"))
    clock.set(datetime(2026, 1, 5, 12, 0, tzinfo=UTC))
    tokyo, utc = run(said(store)), run(said(store, dm("8")))
    clock.set(datetime(2026, 1, 5, 14, 59, tzinfo=UTC))
    assert run(watched(store)) == []
    clock.set(datetime(2026, 1, 5, 15, 1, tzinfo=UTC))
    assert run(watched(store)) == [tokyo.session_id]
    clock.set(datetime(2026, 1, 6, 0, 1, tzinfo=UTC))
    assert run(watched(store)) == [utc.session_id]


def test_nothing_ends_within_the_grace_period(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    store = opens(policies=policies(mode="daily", at_hour=4))
    clock.set(datetime(2026, 1, 5, 3, 55, tzinfo=UTC))
    old = run(said(store))
    clock.set(datetime(2026, 1, 5, 4, 10, tzinfo=UTC))
    assert run(store.expiry.expire_batch("telegram", "dm")).scanned == 0
    clock.advance(MINUTE)
    assert run(watched(store)) == [old.session_id]


def test_without_a_policy_nothing_ends(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    chosen = ResetPolicies(by_type={"group": SessionResetPolicy(mode="idle", idle_minutes=60)})
    store = opens(policies=chosen)
    _, in_group = run(said(store)), run(said(store, group()))
    clock.advance(timedelta(days=400))
    assert run(watched(store)) == []
    assert run(watched(store, "group")) == [in_group.session_id]


def test_what_is_busy_never_ends_and_is_not_forgotten(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    busy = run(accepted(store, dm()))
    clock.advance(2 * HOUR)
    idle = run(said(store, dm("8")))
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [idle.session_id]
    # Dropped, it leaves the session as it was: nothing moves it to where the watcher has yet to look.
    assert run(store.get_session(busy.session_id)).ended_at is None
    run(taken_back(store, busy))
    clock.advance(10 * MINUTE)
    assert run(watched(store)) == [busy.session_id]


def test_what_was_busy_and_goes_on_is_no_longer_looked_at(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    busy = run(accepted(store, dm()))
    clock.advance(2 * HOUR)
    assert run(store.expiry.expire_batch("telegram", "dm")).scanned == 1
    run(taken_back(store, busy))
    assert run(said(store)).session_id != busy.session_id
    run(store.switch_session(busy.session_key, busy.session_id))
    looked_at = []
    for _ in range(4):
        clock.advance(10 * MINUTE)
        looked_at.append(run(store.expiry.expire_batch("telegram", "dm")).scanned)
    assert looked_at == [1, 0, 0, 0]


def test_a_vote_keeps_a_session_until_it_is_taken_back(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    kept: set[str] = set()
    store = opens(is_busy=lambda key: key in kept)
    old, other = run(said(store)), run(said(store, dm("8")))
    kept.add(old.session_key)
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [other.session_id]
    kept.clear()
    assert run(watched(store)) == []
    clock.advance(10 * MINUTE)
    assert run(watched(store)) == [old.session_id]


def test_a_session_that_goes_on_is_met_again(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old, other = run(said(store)), run(said(store, dm("8")))
    clock.advance(50 * MINUTE)
    assert run(said(store)).session_id == old.session_id
    clock.advance(50 * MINUTE)
    assert run(watched(store)) == [other.session_id]
    clock.advance(20 * MINUTE)
    assert run(watched(store)) == [old.session_id]


def test_a_fork_that_waits_to_be_resumed_is_left_alone(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    fork = run(store.fork_session(old.session_id))
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [old.session_id]
    assert run(store.get_session(fork.session_id)).ended_at is None


def test_a_stricter_policy_holds_for_what_was_there_before(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    lax = opens(policies=policies(idle_minutes=1000))
    old = run(said(lax, dm("1")))
    clock.advance(10 * HOUR)
    young = run(said(lax, dm("2")))
    clock.advance(8 * HOUR)
    assert run(watched(lax)) == [old.session_id]
    strict = opens(policies=policies(idle_minutes=60))
    assert run(watched(strict)) == [young.session_id]


def test_gateways_with_different_policies_do_not_hold_each_other_up(
    opens: OpenGateway, clock: FakeClock, run: Run
) -> None:
    lax, strict = opens(policies=policies(idle_minutes=1000)), opens(policies=policies(idle_minutes=60))
    for number in range(3 * MAX_EXPIRED):
        run(said(strict, dm(str(number))))
    clock.advance(2 * HOUR)
    ended = 0
    for _ in range(6):
        ended += len(run(strict.expiry.expire_batch("telegram", "dm")).ended)
        assert run(lax.expiry.expire_batch("telegram", "dm")).ended == ()
    assert ended == 3 * MAX_EXPIRED


def test_what_is_said_after_the_clock_went_back_ends_too(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    first = run(said(store, dm("1")))
    clock.advance(10 * HOUR)
    assert run(watched(store)) == [first.session_id]
    clock.advance(timedelta(days=-30))
    run(watched(store))
    second = run(said(store, dm("2")))
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [second.session_id]


def test_a_session_of_the_future_ends_in_its_time(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    ahead = run(said(store))
    clock.advance(-3 * HOUR)
    # Bookkeeping puts it where the watcher finds it long before it is stale.
    run(store.set_title(ahead.session_id, "Tea"))
    clock.advance(2 * HOUR)
    assert run(watched(store)) == []
    clock.advance(3 * HOUR)
    assert run(watched(store)) == [ahead.session_id]


def test_two_watchers_at_once_end_each_session_once(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    one, other = opens(), opens()
    there = [run(said(one, dm(str(number)))).session_id for number in range(30)]
    clock.advance(2 * HOUR)

    async def both() -> list[str]:
        return [*(await watched(one)), *(await watched(other))]

    async def race() -> list[str]:
        return [session_id for ended in await asyncio.gather(both(), both()) for session_id in ended]

    ended = run(race())
    ended += run(watched(one))
    assert sorted(ended) == sorted(there)


def test_a_message_at_the_same_time_finds_the_session_or_a_new_one(
    opens: OpenGateway, clock: FakeClock, run: Run
) -> None:
    one, other = opens(), opens()
    there = {run(said(one, dm(str(number)))).session_id for number in range(20)}
    clock.advance(2 * HOUR)

    async def race() -> list[SessionEntry]:
        comes = [accepted(other, dm(str(number)), key=f"m{number}") for number in range(20)]
        results: list[Any] = await asyncio.gather(watched(one), *comes)
        return results[1:]

    fresh = run(race())
    assert {entry.auto_reset_reason for entry in fresh} == {"idle"}
    assert not {entry.session_id for entry in fresh} & there
    assert len(run(other.list_sessions())) == 20
    assert all(run(one.get_session(session_id)).end_reason == "session_reset" for session_id in there)
    assert run(sound(one))


def test_no_message_is_taken_into_a_session_that_ends_just_then(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    strict, lax = opens(), opens(policies=ResetPolicies())
    for number in range(20):
        run(said(strict, dm(str(number))))
    clock.advance(2 * HOUR)

    async def race() -> list[SessionEntry]:
        comes = [accepted(lax, dm(str(number)), key=f"m{number}") for number in reversed(range(20))]
        results: list[Any] = await asyncio.gather(watched(strict), *comes)
        return results[1:]

    taken = [run(lax.get_session(entry.session_id)) for entry in run(race())]
    assert [entry.ended_at for entry in taken] == [None] * 20
    assert run(sound(lax))


def test_a_step_looks_at_few_however_many_there_are(
    store: GatewayStore, clock: FakeClock, run: Run, raw_execute: RawExecute
) -> None:
    stale = [run(said(store, dm(f"stale{number}"))).session_id for number in range(10)]
    clock.advance(2 * HOUR)
    run(said(store, dm("model")))
    multiply(raw_execute, store.location, 5_000)
    step = run(store.expiry.expire_batch("telegram", "dm"))
    assert (sorted(step.ended), step.scanned, step.has_more) == (sorted(stale), 10, False)
    # Nobody wrote: there is nothing to look at, and nothing is looked at.
    assert run(store.expiry.expire_batch("telegram", "dm")).scanned == 0
    # The ten, ended, are not met again; all the others are: a bounded number at a time, each once.
    clock.advance(2 * HOUR)
    looked_at, ended = [], 0
    while True:
        step = run(store.expiry.expire_batch("telegram", "dm"))
        looked_at.append(step.scanned)
        ended += len(step.ended)
        if not step.has_more:
            break
    assert ended == 5_001
    assert max(looked_at) <= SCAN_LIMIT
    assert sum(looked_at) == 5_001


# What comes after it


def test_the_next_message_starts_afresh_and_tells_why_once(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    new = run(store.get_or_create_session(dm()))
    assert new.session_id != old.session_id
    assert (new.was_auto_reset, new.auto_reset_reason, new.reset_had_activity) == (True, "idle", True)
    for audience in ("user", "agent"):
        assert run(store.take_reset_notice(new.session_id, audience)) is not None
        assert run(store.take_reset_notice(new.session_id, audience)) is None
    assert run(store.get_or_create_session(dm())).session_id == new.session_id
    assert run(sound(store))


def test_the_reason_is_the_one_of_its_end(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    store = opens(policies=policies(mode="both", idle_minutes=1000, at_hour=4))
    clock.set(datetime(2026, 1, 5, 3, 0, tzinfo=UTC))
    run(said(store))
    clock.set(datetime(2026, 1, 5, 5, 0, tzinfo=UTC))
    assert len(run(watched(store))) == 1
    clock.advance(timedelta(days=9))
    assert run(store.get_or_create_session(dm())).auto_reset_reason == "daily"


def test_a_silent_policy_silences_the_user_never_the_agent(opens: OpenGateway, clock: FakeClock, run: Run) -> None:
    store = opens(policies=policies(notify=False))
    run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    new = run(store.get_or_create_session(dm()))
    assert run(store.take_reset_notice(new.session_id, "user")) is None
    assert run(store.take_reset_notice(new.session_id, "agent")) is not None


def test_one_in_which_nothing_was_said_ends_in_silence(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(store.get_or_create_session(dm()))
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [old.session_id]
    new = run(store.get_or_create_session(dm()))
    assert (new.was_auto_reset, new.reset_had_activity) == (True, False)
    assert run(store.take_reset_notice(new.session_id, "agent")) is None
    assert run(claimed(store)) is None


def test_who_asked_for_a_new_one_needs_no_notice(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    fresh = run(store.reset_session(old.session_key))
    assert fresh is not None
    assert not fresh.was_auto_reset
    assert run(store.get_or_create_session(dm())).session_id == fresh.session_id
    assert run(sound(store))


def test_the_end_can_be_taken_back_before_the_next_message(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    assert run(store.resume.previous_session(old.session_id)) == old.session_id
    now = clock.now()
    resumed = run(store.switch_session(old.session_key, old.session_id))
    assert resumed is not None
    assert (resumed.session_id, resumed.ended_at, resumed.active_at) == (old.session_id, None, now)
    assert run(store.get_or_create_session(dm())).session_id == old.session_id
    assert run(watched(store)) == []
    clock.advance(2 * HOUR)
    assert run(watched(store)) == [old.session_id]
    assert run(sound(store))


def test_the_end_can_be_taken_back_after_the_next_message(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    new = run(store.get_or_create_session(dm()))
    assert run(store.resume.previous_session(new.session_id)) == old.session_id
    assert run(store.resume.resume(new.session_id, old.session_id)).ended_at is None
    assert run(store.get_or_create_session(dm())).session_id == old.session_id
    assert run(sound(store))


def test_another_place_copies_it_and_the_promise_stays(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    held = run(said(store, group()))
    clock.advance(2 * HOUR)
    run(watched(store, "group"))
    mine = run(store.get_or_create_session(dm()))
    copy = run(store.switch_session(mine.session_key, held.session_id))
    assert copy is not None
    assert (copy.parent_session_id, copy.session_key) == (held.session_id, mine.session_key)
    assert run(store.get_or_create_session(group())).auto_reset_reason == "idle"
    assert run(sound(store))


def test_a_copy_may_take_its_place(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    copy = run(store.fork_session(old.session_id, key=old.session_key))
    assert run(store.get_or_create_session(dm())).session_id == copy.session_id
    assert run(store.get_session(old.session_id)).end_reason == "session_reset"
    assert run(sound(store))


def test_a_thread_goes_on_from_its_message_and_from_no_tip(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(store.get_or_create_session(dm()))
    run(store.append_to_transcript(old.session_id, user("one"), external_id="m1"))
    run(store.append_to_transcript(old.session_id, user("two")))
    clock.advance(2 * HOUR)
    run(watched(store))
    hung = run(store.get_or_create_session(dm(thread="m1")))
    assert [message["content"] for message in run(store.load_transcript(hung.session_id))] == ["one"]
    apart = run(store.get_or_create_session(dm(thread="unheard-of")))
    assert run(store.load_transcript(apart.session_id)) == []


def test_deleted_it_leaves_nothing_to_tell_or_to_flush(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    run(store.delete_session(old.session_id))
    assert run(claimed(store)) is None
    assert not run(store.get_or_create_session(dm())).was_auto_reset
    assert run(sound(store))
