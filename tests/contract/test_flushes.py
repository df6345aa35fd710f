"""Flushes as the store keeps them: queued with the end of a session, leased, tried three times. On both engines."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.gateways import OpenGateway, Run
from tests.contract.watching import (
    HOUR,
    LEASE,
    MINUTE,
    accepted,
    claimed,
    covered,
    opens,
    policies,
    said,
    store,
    watched,
)

from threadline.store.facade import GatewayStore
from threadline.store.work.expiry import FLUSH_SPACING, MAX_ATTEMPTS
from threadline.testing import FakeClock, dm, exchange, user
from threadline.testing.builders import system
from threadline.testing.contracts.storage.fixtures import RawExecute

__all__ = ["opens", "store"]


def test_the_end_queues_a_flush_that_touches_no_clock(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    before = run(store.get_session(old.session_id))
    clock.advance(MINUTE)
    assert run(covered(store)) == ["hello", "hello to you"]
    after = run(store.get_session(old.session_id))
    assert (after.updated_at, after.active_at) == (before.updated_at, before.active_at)
    assert (before.memory_flushed, after.memory_flushed) == (False, True)
    assert run(claimed(store)) is None


def test_a_message_that_finds_it_stale_queues_one_too(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    assert run(accepted(store, dm())).session_id != old.session_id
    assert run(covered(store)) == ["hello", "hello to you"]
    assert run(store.get_session(old.session_id)).memory_flushed


def test_so_does_who_starts_afresh(store: GatewayStore, run: Run) -> None:
    old = run(said(store))
    run(store.resume.start_new(old.session_id))
    assert run(covered(store)) == ["hello", "hello to you"]


def test_where_no_gateway_runs_nothing_is_queued(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    assert run(store.get_or_create_session(dm())).session_id != old.session_id
    assert run(claimed(store)) is None


def test_a_resumed_session_is_flushed_again_for_its_new_part(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    run(covered(store))
    run(store.switch_session(old.session_key, old.session_id))
    run(store.append_to_transcript(old.session_id, user("more")))
    assert not run(store.get_session(old.session_id)).memory_flushed
    clock.advance(2 * HOUR)
    run(watched(store))
    assert run(covered(store)) == ["more"]
    assert run(store.get_session(old.session_id)).memory_flushed


def test_resumed_at_once_it_is_not_flushed_until_it_ends_again(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    run(store.switch_session(old.session_key, old.session_id))
    assert run(claimed(store)) is None
    clock.advance(2 * HOUR)
    run(watched(store))
    assert run(covered(store)) == ["hello", "hello to you"]


def test_what_is_said_during_a_flush_is_another(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    clock.advance(2 * HOUR)
    run(watched(store))
    flush = run(claimed(store))
    assert flush is not None
    run(store.switch_session(old.session_key, old.session_id))
    run(store.append_to_transcript(old.session_id, user("more")))
    run(store.resume.start_new(old.session_id))
    assert run(claimed(store)) is None
    assert run(store.expiry.finish_flush(flush))
    assert not run(store.get_session(old.session_id)).memory_flushed
    assert run(covered(store)) == ["more"]
    assert run(store.get_session(old.session_id)).memory_flushed


def test_it_covers_what_the_session_shows_of_its_own(store: GatewayStore, run: Run) -> None:
    parent = run(said(store, text="inherited"))
    entry = run(store.fork_session(parent.session_id, key=parent.session_key))
    run(store.append_to_transcript(entry.session_id, [system("a note"), *exchange("kept", "well")]))
    run(store.append_to_transcript(entry.session_id, exchange("undone", "never mind")))
    run(store.rewind_session(entry.session_id, 1))
    run(store.append_to_transcript(entry.session_id, user("last")))
    run(store.resume.start_new(entry.session_id))
    assert run(covered(store)) == ["a note", "kept", "well", "last"]


def test_three_attempts_and_it_is_given_up(store: GatewayStore, clock: FakeClock, run: Run) -> None:
    old = run(said(store))
    run(store.resume.start_new(old.session_id))
    pauses = []
    for attempt in range(1, MAX_ATTEMPTS + 1):
        flush = run(claimed(store))
        while flush is None:
            clock.advance(MINUTE)
            pauses.append(attempt)
            flush = run(claimed(store))
        assert flush.attempts == attempt
        assert run(store.expiry.fail_flush(flush)) is (attempt == MAX_ATTEMPTS)
    assert pauses.count(2) < pauses.count(3)
    clock.advance(timedelta(days=9))
    assert run(claimed(store)) is None
    assert not run(store.get_session(old.session_id)).memory_flushed


def test_who_has_lost_a_flush_notes_nothing(store: GatewayStore, run: Run, raw_execute: RawExecute) -> None:
    old = run(said(store))
    run(store.resume.start_new(old.session_id))
    flush = run(claimed(store, "dead"))
    assert flush is not None
    assert run(claimed(store, "other")) is None
    assert run(store.leases.renew([flush.lease], duration=LEASE))
    raw_execute("UPDATE flushes SET lease_until = 0")
    again = run(claimed(store, "other"))
    assert again is not None
    assert (again.last_seq, again.attempts) == (flush.last_seq, 2)
    assert not run(store.leases.renew([flush.lease], duration=LEASE))
    assert not run(store.expiry.finish_flush(flush))
    assert not run(store.expiry.fail_flush(flush))
    assert not run(store.get_session(old.session_id)).memory_flushed
    assert run(store.expiry.finish_flush(again))
    assert run(store.get_session(old.session_id)).memory_flushed


def test_given_back_it_has_cost_no_attempt(store: GatewayStore, run: Run) -> None:
    old = run(said(store))
    run(store.resume.start_new(old.session_id))
    for _ in range(2 * MAX_ATTEMPTS):
        flush = run(claimed(store))
        assert flush is not None
        assert flush.attempts == 1
        run(store.expiry.release_flush(flush))


def test_a_flush_is_its_platforms(store: GatewayStore, run: Run) -> None:
    old = run(said(store))
    run(store.resume.start_new(old.session_id))
    assert run(store.expiry.claim_flush(["discord"], owner="here", duration=LEASE)) is None
    assert run(claimed(store)) is not None


def test_those_that_should_have_ended_long_ago_are_flushed_one_after_the_other(
    opens: OpenGateway, clock: FakeClock, run: Run
) -> None:
    """Conversations may end for the first time, after years: an agent that pays for each flush is not to pay at once."""
    before = opens(policies=policies(mode="none"))
    for number in range(5):
        run(said(before, dm(f"{number}")))
    clock.advance(timedelta(days=400))
    after = opens()
    fresh = run(said(after, dm("fresh")))
    clock.advance(HOUR + MINUTE)
    assert len(run(watched(after))) == 6

    def due() -> list[str]:
        found = []
        while (flush := run(claimed(after))) is not None:
            run(after.expiry.finish_flush(flush))
            found.append(flush.session.session_id)
        return found

    at_once = due()
    assert len(at_once) == 2, "the first of the old ones, and the one that ends in its time"
    assert fresh.session_id in at_once
    pause = timedelta(microseconds=FLUSH_SPACING)
    for _ in range(4):
        assert due() == []
        clock.advance(pause)
        assert len(due()) == 1
    clock.advance(pause)
    assert due() == []
