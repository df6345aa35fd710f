"""A message that kills the gateway is put aside alone; deaths that nothing explains put nothing aside."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import pytest
from tests.system.gateway_world import World, in_world
from tests.system.outside import POISON
from tests.system.seeds import seeded, soak_count

from threadline.model.turn import PARKED_AFTER
from threadline.texts import gateway as texts

INNOCENT = [f"s{number}" for number in range(30)]
RUNNING = [f"w{number}" for number in range(64)]
KILLS = 8
# As many back-offs as there are, in the time that a test has.
SHORT_BACK_OFF = 0.1


async def supervised(world: World) -> None:
    """Starts a gateway whenever the one before it has died, until nothing is left to do."""
    settled = asyncio.create_task(world.settled())
    while True:
        process = world.begin()
        death = asyncio.create_task(world.died(process))
        await asyncio.wait((settled, death), return_when=asyncio.FIRST_COMPLETED)
        if settled.done():
            process.kill()
            await death
            return await settled
        await death


def test_a_poisonous_message_is_parked_and_all_others_are_answered(location: str) -> None:
    async def one_of_many() -> None:
        async with in_world(location, "s99", *INNOCENT, lease=lease_of(location)) as world:
            world.back_off = SHORT_BACK_OFF
            # In the middle: it is neither the first nor the last that runs.
            for user in [*INNOCENT[:15], "s99", *INNOCENT[15:]]:
                world.say(user, POISON if user == "s99" else "bread")
            await supervised(world)
            assert not world.broken()
            assert world.outcomes("s99") == ["parked"]
            assert world.outcomes(*INNOCENT) == ["answered"] * len(INNOCENT)
            sys.stdout.write(f"parked after {world.kills - 1} deaths\n")

    asyncio.run(one_of_many())


def test_a_poisonous_message_that_is_alone_is_parked_after_four_deaths(location: str) -> None:
    async def alone() -> None:
        async with in_world(location, "s1", lease=lease_of(location)) as world:
            world.back_off = SHORT_BACK_OFF
            world.say("s1", POISON)
            await supervised(world)
            assert world.kills - 1 == PARKED_AFTER
            world.say("s1", "bread")
            await supervised(world)
            assert not world.broken()
            assert world.outcomes() == ["parked", "answered"]
            told = [message.text for message in world.chat.messages("dm-s1")]
            assert told.count(texts.PARKED) == 1

    asyncio.run(alone())


def test_kills_from_outside_park_nothing(location: str) -> None:
    asyncio.run(storm(location, KILLS))


@pytest.mark.soak
def test_however_many_kills_from_outside_park_nothing(location: str) -> None:
    asyncio.run(storm(location, soak_count()))


async def storm(location: str, count: int) -> None:
    """Kills gateways that run 64 turns, with the back-offs that the program has."""
    rng = seeded(f"a storm of {count} kills")
    async with in_world(location, *RUNNING, lease=lease_of(location)) as world:
        world.back_off = None
        for user in RUNNING:
            world.say(user, "bread")
        for _ in range(count):
            process = world.begin()
            # However slow the machine is: one that has not begun runs nothing.
            await world.connected()
            await asyncio.sleep(rng.uniform(0.3, 2.5))
            await world.kill(process)
        world.agent.may_answer.set()
        last = world.begin()
        await world.settled()
        await world.kill(last)
        runs = Counter(world.agent.runs.values())
        sys.stdout.write(f"turns that ran so many times: {sorted(runs.items())}\n")
        assert not world.broken()
        assert world.outcomes() == ["answered"] * len(RUNNING)


def lease_of(location: str) -> float | None:
    """A short one where a dead gateway's leases are waited for."""
    return None if location.startswith("sqlite") else 1.0
