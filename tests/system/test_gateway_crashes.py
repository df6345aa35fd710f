"""A gateway that dies at any instant loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.system.gateway_world import World, in_world, in_worlds
from tests.system.seeds import seeded, soak_count
from tests.system.test_gateway_permissions import CASES as ASKING

from threadline.testing.crashing import CRASH_POINTS

KILLS = 20
# The letter tells which agent answers: slow ones, some with tools, some that never run again.
TALKERS = ("s1", "s2", "s3", "t1", "t2", "n1", "e1")
LONGEST_PAUSE = 0.6
# A dead gateway's leases are waited for; those of the one that has to finish must hold on a busy machine.
SURVIVORS_LEASE = 4.0


class Case(msgspec.Struct, frozen=True):
    """Where a gateway dies, who answers there, and what becomes of the turn that it was at.

    `doubtful`: how many answers may be in doubt after that, of which it may have sent each or not.
    """

    point: str
    agent: str
    outcome: str = "answered"
    nth: int = 1
    doubtful: int = 0


def both(
    what: str, agent: str, before: str = "answered", after: str = "answered", doubtful: tuple[int, int] = (0, 0)
) -> list[Case]:
    return [
        Case(f"before {what}", agent, before, doubtful=doubtful[0]),
        Case(f"after {what}", agent, after, doubtful=doubtful[1]),
    ]


# Where an echo or a slow agent answers two people talk: an answer to each may be on its way, and on a busy machine the start of an
# echo too.
CASES = [
    *both("accept", "echo"),
    Case("before ack", "echo"),
    *both("claim", "echo"),
    *both("finish", "echo", doubtful=(1, 1)),
    *both("take", "echo", doubtful=(1, 2)),
    *both("send", "echo", doubtful=(2, 2)),
    *both("receipt", "echo", doubtful=(2, 1)),
    # What is streamed is one message, before and after.
    *both("claim", "slow"),
    *both("stream", "slow", doubtful=(0, 2)),
    *both("send", "slow", doubtful=(2, 2)),
    *both("stream id", "slow", doubtful=(2, 1)),
    *both("edit", "slow", doubtful=(1, 1)),
    Case("before edit", "slow", nth=3, doubtful=1),
    *both("finish", "slow", doubtful=(1, 1)),
    *both("take", "slow", doubtful=(1, 2)),
    *both("receipt", "slow", doubtful=(2, 1)),
    # Until a tool was called the turn runs again.
    *both("claim", "tools"),
    *both("journal", "tools"),
    *both("tool", "tools", "answered", "interrupted", doubtful=(1, 1)),
    Case("after journal", "tools", "interrupted", nth=3, doubtful=1),
    *both("finish", "tools", "interrupted", "answered"),
    # Nothing was done yet when a turn that never runs again was only claimed.
    *both("claim", "never"),
    *both("journal", "never", "interrupted", "interrupted"),
    *both("stream", "never", "interrupted", "interrupted", doubtful=(0, 1)),
    *both("stream id", "never", "interrupted", "interrupted", doubtful=(1, 0)),
    *both("finish", "never", "interrupted", "answered"),
]


def test_every_instant_that_matters_is_a_crash_point() -> None:
    answering = ("accept", "claim", "journal", "tool", "ask", "finish")
    showing = ("stream", "stream id", "take", "send", "edit", "receipt")
    points = {f"{when} {what}" for what in answering + showing for when in ("before", "after")}
    assert set(CRASH_POINTS) == points | {"before ack"}
    # A case fails whose gateway does not die at its point: so each of these is passed.
    assert {case.point for case in CASES} | {case.point for case in ASKING} == set(CRASH_POINTS)


def test_whatever_a_gateway_dies_at_is_finished_by_the_next(location: str) -> None:
    found = in_worlds(location, CASES, broken_after, lease=None)
    assert not found, "\n".join(found)


async def broken_after(world: World, number: int, case: Case) -> list[str]:
    """What is not as promised after a gateway died in this way and another came."""
    ada, bob = world.people = f"{case.agent[0]}{2 * number}", f"{case.agent[0]}{2 * number + 1}"
    dying = world.begin(case.point, nth=case.nth)
    await world.connected()
    world.say(ada, "one")
    world.say(ada, "two")
    if case.agent in ("echo", "slow"):
        # Whatever runs beside the one that the gateway dies at runs again.
        world.say(bob, "three")
    await world.died_at_point(dying)
    next_one = world.begin(lease=max(world.lease, SURVIVORS_LEASE))
    await world.settled()
    await world.kill(next_one)
    found, outcomes = world.broken(ada, bob), world.outcomes(ada, bob)
    if outcomes != [case.outcome] + ["answered"] * (len(outcomes) - 1):
        found.append(f"turns ended as {outcomes}")
    if (doubts := world.in_doubt(ada, bob)) > case.doubtful:
        found.append(f"{doubts} answers are marked as possible repetitions")
    return [f"{case.point} ({case.agent}, {case.nth}): {fault}" for fault in found]


def test_a_platform_that_says_when_is_believed_however_many_gateways_died_at_the_delivery(tmp_path: Path) -> None:
    async def asked_to_wait() -> None:
        async with in_world(f"sqlite://{tmp_path}/threadline.db", "e1") as world:
            world.say("e1", "one")
            for _ in range(6):
                await world.died_at_point(world.begin("after take"))
            world.chat.rate_limit_next(0.1)
            last = world.begin()
            # After so many attempts a pause of our own would take a minute.
            await world.chat.wait_for(world.chat.messages, timeout=30)
            await world.settled()
            await world.kill(last)
            assert not world.broken()

    asyncio.run(asked_to_wait())


def test_nothing_is_lost_or_doubled_whenever_a_gateway_is_killed(location: str) -> None:
    asyncio.run(kill_again_and_again(location, KILLS))


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_however_often_a_gateway_is_killed(location: str) -> None:
    asyncio.run(kill_again_and_again(location, soak_count()))


async def kill_again_and_again(location: str, count: int) -> None:
    rng = seeded(f"{count} kills of a gateway")
    async with in_world(location, *TALKERS) as world:
        # So that some die while a call is on its way.
        world.chat.delay = 0.01
        for _ in range(count):
            await killed_at_some_instant(world, rng)
        last = world.begin()
        await world.settled()
        await world.kill(last)
        found, outcomes = world.broken(), Counter(world.outcomes())
        told = f"{len(world.said)} messages, turns {dict(outcomes)}, {world.agent.runs.total()} runs"
        sys.stdout.write(f"{told}, {world.doubtful} sends in doubt\n")
    assert not found, "\n".join(found)


async def killed_at_some_instant(world: World, rng: random.Random) -> None:
    """A gateway that is not given much time, while people talk and the platform has its moods."""
    process = world.begin()
    if rng.random() < 0.2:
        world.chat.rate_limit_next(0.1)
    if rng.random() < 0.2:
        world.chat.lose_acks()
    for _ in range(rng.randint(1, 4)):
        world.say(rng.choice(TALKERS), f"message {len(world.said)}")
        await asyncio.sleep(rng.random() ** 2 * LONGEST_PAUSE)
    await world.kill(process)
