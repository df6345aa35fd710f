"""Several gateways on one database: what one lets fall another picks up, and nobody does anything twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PostgresServer
from tests.system.gateway_world import World

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
        for word in ("one", "two"):
            for number in range(CHATS):
                world.say(f"{'es'[number % 2]}{number}", word)
        both = ("serve:first", "serve:last")
        await world.chat.wait_for(lambda: all(world.running(owner) for owner in both), timeout=40)
        await world.kill(last)
        await world.chat.wait_for(lambda: not world.running("serve:last"), timeout=40)
        await world.settled()
        await world.kill(first)
        assert not world.faults()
        assert {turn.outcome for turn in world.turns()} == {"answered"}

    in_world(shared, one_is_killed, lease=LEASE)


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
        assert not world.faults()
        assert {turn.outcome for turn in world.turns()} == {"answered"}

    in_world(f"sqlite://{tmp_path}/threadline.db", killed_and_started, lease=3600.0)
