"""Several gateways on one database: what one lets fall another picks up, and nobody does anything twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PostgresServer
from tests.system.gateway_world import World, in_worlds
from tests.system.test_gateway_crashes import Case

from threadline.testing.scripted import ScriptedChat

LEASE = 3.0
CHATS = 100


@pytest.fixture
def shared(postgres_server: PostgresServer) -> str:
    """A fresh database on a server."""
    return postgres_server.renew()


def in_world(location: str, test: Callable[[World], Coroutine[Any, Any, None]], *, lease: float) -> None:
    async def run() -> None:
        async with ScriptedChat(resend_after=0.3) as chat:
            with World(location, chat, lease=lease) as world:
                await test(world)

    asyncio.run(run())


def test_of_two_gateways_one_takes_over_what_the_other_was_at(shared: str) -> None:
    async def one_is_killed(world: World) -> None:
        first = world.begin(owner="serve:first")
        await world.connected()
        # Events go to the one that came last.
        last = world.begin(owner="serve:last")
        await world.connected(2)
        for word in ("one", "two", "three"):
            for number in range(CHATS):
                world.say(f"{'es'[number % 2]}{number}", word)
        await frozen_at_work(world, last, "serve:last")
        await world.kill(last)
        assert world.running("serve:last")
        await world.chat.wait_for(lambda: not world.running("serve:last"), timeout=2 * LEASE)
        await world.settled()
        await world.kill(first)
        assert not world.broken()
        assert set(world.outcomes()) == {"answered"}

    in_world(shared, one_is_killed, lease=LEASE)


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
    async def one_sleeps(world: World) -> None:
        sleeper = world.begin(owner="serve:sleeper")
        await world.connected()
        for number in range(12):
            world.say(f"{'stn'[number % 3]}{number}", "one")
        await world.chat.wait_for(world.chat.messages)
        await frozen_at_work(world, sleeper, "serve:sleeper")
        other = world.begin(owner="serve:other")
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

    in_world(shared, one_sleeps, lease=1.5)


async def frozen_at_work(world: World, process: BaseProcess, owner: str) -> None:
    """Stops a gateway in the middle of turns: what it holds then it holds until somebody takes it away."""
    while True:
        await world.chat.wait_for(lambda: world.running(owner) > 1, timeout=40)
        os.kill(process.pid or 0, signal.SIGSTOP)
        if world.running(owner) > 1:
            return
        os.kill(process.pid or 0, signal.SIGCONT)


def test_a_gateway_alone_on_its_file_goes_on_at_once(tmp_path: Path) -> None:
    async def killed_and_started(world: World) -> None:
        first = world.begin()
        await world.connected()
        for number in range(10):
            world.say(f"s{number}", "one")
        await world.chat.wait_for(lambda: len(world.chat.messages()) > 3)
        await world.kill(first)
        second = world.begin()
        # Long before any lease has ended.
        await world.settled()
        await world.kill(second)
        assert not world.broken()
        assert set(world.outcomes()) == {"answered"}

    in_world(f"sqlite://{tmp_path}/threadline.db", killed_and_started, lease=3600.0)
