"""Several gateways on one database: what one lets fall another picks up, and nobody does anything twice."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.conftest import PostgresServer
from tests.system.gateway_child import Process
from tests.system.gateway_world import World, in_world, in_worlds
from tests.system.test_gateway_crashes import Case

from threadline.config.settings import Settings

# Of a gateway whose configuration says nothing of it.
DEFAULT_LEASE = 15.0
CHATS = 100
SLEEPER_TALKERS = tuple(f"{'stn'[number % 3]}{number}" for number in range(12))


@pytest.fixture
def shared(postgres_server: PostgresServer) -> str:
    """A fresh database on a server."""
    return postgres_server.renew()


def test_a_lease_lasts_fifteen_seconds_unless_it_is_configured() -> None:
    assert Settings().gateway.lease_seconds == DEFAULT_LEASE


def test_of_two_gateways_one_takes_over_what_the_other_was_at(shared: str) -> None:
    chats = [f"{'es'[number % 2]}{number}" for number in range(CHATS)]

    async def one_is_killed() -> None:
        async with in_world(shared, *chats) as world:
            first = world.begin_plain()
            await world.connected()
            world.say("s1", "zero")
            (mine,) = await world.chat.wait_for(world.owners, timeout=60)
            await world.settled()
            # Events go to the one that came last.
            last = world.begin_plain()
            await world.connected(2)
            for word in ("one", "two", "three"):
                for user in chats:
                    world.say(user, word)
            (theirs,) = await world.chat.wait_for(lambda: world.owners() - {mine}, timeout=60)
            await frozen_at_work(world, last, theirs)
            await world.kill(last)
            assert world.running(theirs) > 1
            await world.chat.wait_for(lambda: not world.running(theirs), timeout=2 * DEFAULT_LEASE)
            await world.settled()
            await world.kill(first)
            assert not world.broken()
            assert set(world.outcomes()) == {"answered"}

    asyncio.run(one_is_killed())


# Where a gateway falls asleep, who answers there, and what becomes of the turn that it was at. Who sleeps after the last look at
# the lease and before the request leaves can't be helped: so neither `before send` nor `before edit`.
SLEEPS = [
    Case("before ack", "echo"),
    Case("after claim", "echo"),
    Case("after claim", "never"),
    Case("after take", "echo"),
    Case("after send", "echo"),
    Case("after stream", "slow"),
    Case("after send", "slow"),
    Case("after stream id", "slow"),
    Case("after edit", "slow"),
    Case("before finish", "slow"),
    Case("after stream", "never", "interrupted"),
    Case("after journal", "never", "interrupted"),
    Case("before tool", "tools"),
    Case("after tool", "tools", "interrupted"),
    Case("before finish", "tools", "interrupted"),
    Case("after finish", "tools"),
]


def test_a_gateway_that_falls_asleep_at_any_instant_spoils_nothing_when_it_wakes(shared: str) -> None:
    found = in_worlds(shared, SLEEPS, broken_by_sleep, lease=1.5)
    assert not found, "\n".join(found)


async def broken_by_sleep(world: World, number: int, case: Case) -> list[str]:
    """What is not as promised after a gateway fell asleep in this way, another did its work, and it woke up."""
    ada = f"{case.agent[0]}{number}"
    world.people = (ada,)
    sleeper = world.begin(case.point, sleeps=True)
    await world.connected()
    world.say(ada, "one")
    await world.fell_asleep(sleeper)
    other = world.begin()
    await world.connected(2)
    await world.settled()
    os.kill(sleeper.pid or 0, signal.SIGCONT)
    # It finds that what it was at is another's by now, and works on.
    await world.kill(other)
    world.say(ada, "two")
    await world.settled()
    await world.kill(sleeper)
    found, outcomes = world.broken(ada), world.outcomes(ada)
    if outcomes != [case.outcome, "answered"]:
        found.append(f"turns ended as {outcomes}")
    return [f"{case.point} ({case.agent}): {fault}" for fault in found]


@pytest.mark.soak
def test_a_gateway_that_slept_through_its_leases_spoils_nothing(shared: str) -> None:
    async def one_sleeps() -> None:
        async with in_world(shared, *SLEEPER_TALKERS, lease=1.5) as world:
            sleeper = world.begin()
            await world.connected()
            for user in SLEEPER_TALKERS:
                world.say(user, "one")
            (sleeping,) = await world.chat.wait_for(world.owners)
            await world.chat.wait_for(world.chat.messages)
            await frozen_at_work(world, sleeper, sleeping)
            other = world.begin()
            await world.connected(2)
            await world.settled()
            os.kill(sleeper.pid or 0, signal.SIGCONT)
            # It finds that all it was at is another's by now, and works on.
            world.say("s0", "two")
            await world.kill(other)
            world.say("s3", "two")
            await world.settled()
            await world.kill(sleeper)
            assert not world.broken()

    asyncio.run(one_sleeps())


async def frozen_at_work(world: World, process: Process, owner: str) -> None:
    """Stops a gateway in the middle of turns: what it holds then it holds until somebody takes it away."""
    while True:
        await world.chat.wait_for(lambda: world.running(owner) > 1, timeout=60)
        os.kill(process.pid or 0, signal.SIGSTOP)
        if world.running(owner) > 1:
            return
        os.kill(process.pid or 0, signal.SIGCONT)


def test_a_gateway_alone_on_its_file_goes_on_at_once(tmp_path: Path) -> None:
    talkers = [f"s{number}" for number in range(10)]

    async def killed_and_started() -> None:
        async with in_world(f"sqlite://{tmp_path}/threadline.db", *talkers, lease=3600.0) as world:
            first = world.begin()
            await world.connected()
            for user in talkers:
                world.say(user, "one")
            await world.chat.wait_for(lambda: len(world.chat.messages()) > 3)
            await world.kill(first)
            second = world.begin()
            # Long before any lease has ended.
            await world.settled()
            await world.kill(second)
            assert not world.broken()
            assert set(world.outcomes()) == {"answered"}

    asyncio.run(killed_and_started())
