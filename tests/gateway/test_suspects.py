"""Turns that a dead gateway left behind: when they run again, which with each other, and who hears of one that is given up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.broken import DEAD, accepted, begun, charged, claim, suspected
from tests.gateway.talk import echo
from tests.gateway.world import Open, awaited

from threadline.clock import to_instant
from threadline.model.turn import Suspicion, apart_for, back_off, part_of, suspicion
from threadline.store.facade import GatewayStore
from threadline.store.work import turn_end, turns
from threadline.testing.agents import ScriptedAgent
from threadline.texts import gateway as gateway_texts

FIRST = 2_000_000
HOUR = 3_600_000_000


def test_a_death_is_charged_to_those_that_were_at_the_most_deaths_before() -> None:
    assert suspicion(0, [0, 0, 0]) == Suspicion(1, is_sole=False)
    assert suspicion(2, [0, 2, 1]) == Suspicion(3, is_sole=True)
    assert suspicion(2, [2, 2, 1]) == Suspicion(3, is_sole=False)
    # It only ran beside a suspect.
    assert suspicion(0, [0, 2, 1]) == Suspicion(0, is_sole=False)


def test_back_offs_are_two_eight_and_thirty_seconds_at_most_and_half_of_that_at_least() -> None:
    for deaths, longest in enumerate((2, 8, 30, 30, 30), start=1):
        waits = {back_off(f"t{number}", deaths, FIRST) for number in range(100)}
        assert (min(waits), max(waits), len(waits)) == (longest * 500_000, longest * 1_000_000, 4)
    assert back_off("t1", 0, FIRST) == 0


@pytest.mark.parametrize("deaths", range(1, 7))
def test_two_suspects_do_not_stay_together(deaths: int) -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(200)]
    together = [pair for pair in pairs if part_of(pair[0], deaths) == part_of(pair[1], deaths)]
    again = sum(part_of(one, deaths + 1) == part_of(other, deaths + 1) for one, other in together)
    assert 0 < again < len(together) / 2


@awaited
async def test_a_suspect_runs_in_a_gateway_that_has_lived_through_its_back_off(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        lost = await suspected(store, "ada", 2)
        found = to_instant(store.clock.now())
        wait = back_off(lost.lease.turn_id, 2, FIRST)
        # A message in its session does not hurry it, nor overtake it.
        await accepted(store, "and?")
        early = claim(store, at=found + wait - 1_000_000, back_off=FIRST)
        young = claim(store, at=found + wait, since=found + FIRST, back_off=FIRST)
        assert await store.turns.claim(early) == []
        assert await store.turns.claim(young) == []
        (claimed,) = await store.turns.claim(claim(store, at=found + wait + FIRST, since=found + FIRST, back_off=FIRST))
        assert claimed.lease.turn_id == lost.lease.turn_id


@awaited
async def test_suspects_of_two_deaths_run_in_parts_in_each_gateway(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        lost = [charged(await begun(store, user=f"p{number}"), 2) for number in range(12)]
        await store.turns.rerun(lost, first=0)
        found = to_instant(store.clock.now())
        parts, running = [], 0
        for owner, lived in (("serve:one", 4 * FIRST), ("serve:another", 5 * FIRST)):
            # All are due; only those of one part run.
            due = claim(store, 12, owner=owner, at=found + lived, back_off=FIRST)
            claimed = await store.turns.claim(due)
            (part,) = {part_of(turn.lease.turn_id, 2) for turn in claimed}
            parts.append(part)
            running += len(claimed)
        assert parts[0] != parts[1]
        # Long turns keep nobody waiting for ever.
        late = claim(store, 12, owner="serve:one", at=found + apart_for(2, FIRST) + FIRST, back_off=FIRST)
        assert running + len(await store.turns.claim(late)) == 12


@awaited
async def test_what_a_death_left_behind_is_taken_over_together(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        for user, lease in (("ada", -1), ("bob", HOUR // 6)):
            lost = await suspected(store, user, 3)
            (claimed,) = await store.turns.claim(claim(store, duration=lease))
            assert claimed.lease.turn_id == lost.lease.turn_id
        # The second lease has less than a third to go: whoever held it is as late with that one.
        assert await store.turns.take_over("serve:next", ["scripted"], HOUR) == []
        await store.leases.expire_owned_by(f"{DEAD}%")
        taken = await store.turns.take_over("serve:next", ["scripted"], HOUR)
        assert [turn.suspected for turn in taken] == [Suspicion(4, is_sole=False)] * 2


@awaited
async def test_turns_that_died_together_are_recovered_in_one_step(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, recovered = turn_end.release, 0

    def broken_off(*given: Any, **named: Any) -> None:
        nonlocal recovered
        recovered += 1
        if recovered == 2:
            raise RuntimeError
        release(*given, **named)

    async with await GatewayStore.open(location) as store:
        await store.turns.rerun([charged(await begun(store, user=user), 3) for user in ("ada", "bob")], first=0)
        assert len(await store.turns.claim(claim(store, 2, duration=-1))) == 2
        taken = await store.turns.take_over("serve:next", ["scripted"], -1)
        monkeypatch.setattr(turns, "release", broken_off)
        with pytest.raises(RuntimeError):
            await store.turns.rerun(taken, first=0)
        # Neither looks as if it had been alone.
        taken = await store.turns.take_over("serve:last", ["scripted"], HOUR)
        assert [turn.suspected for turn in taken] == [Suspicion(4, is_sole=False)] * 2


@awaited
async def test_a_turn_that_a_living_gateway_let_go_of_is_taken_over_alone(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        let_go = await suspected(store, "ada", 1)
        await store.turns.claim(claim(store, duration=-1))
        await begun(store, user="bob")
        (taken,) = await store.turns.take_over("serve:next", ["scripted"], 15_000_000)
        assert taken.lease.turn_id == let_go.lease.turn_id


@awaited
async def test_a_suspect_can_be_stopped_while_it_waits(opened: Open, location: str) -> None:
    async with await GatewayStore.open(location) as store:
        await begun(store)
    agent = ScriptedAgent(echo)
    async with opened(agent, crash_back_off_seconds=3600.0) as here:
        here.chat.say("/stop")
        await here.chat.wait_for(lambda: gateway_texts.STOPPED in here.texts())
        assert not agent.turns


@awaited
async def test_the_sender_and_the_owner_hear_once_of_a_message_that_is_given_up(opened: Open, location: str) -> None:
    async with await GatewayStore.open(location) as store:
        await suspected(store, "bob", 3)
        assert len(await store.turns.claim(claim(store))) == 1
        await begun(store, user="ada")
    alert = gateway_texts.ALERT_ONCE.format(text=gateway_texts.ALERT_PARKED.format(name="scripted"))
    async with opened(ScriptedAgent(echo), lease_seconds=3.0) as here:
        await here.shows(gateway_texts.PARKED, chat="dm-bob")
        # Who only ran beside it is answered.
        await here.chat.wait_for(lambda: sorted(here.texts()) == sorted([alert, "you said: hello"]))
        assert [line.fate for line in await here.store.maintenance.list_messages("parked")] == ["parked"]
        await here.gateway.turns.recover()
        await here.gateway.idle()
        assert (here.texts().count(alert), here.texts("dm-bob")) == (1, [gateway_texts.PARKED])
        (alarm,) = await here.store.owner_alerts.list_open()
        await here.gateway.alarms.forget_all_but(())
        assert await here.store.owner_alerts.list_open() == [alarm]
