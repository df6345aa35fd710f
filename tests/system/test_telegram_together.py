"""Several gateways with one bot: one of them listens, and when it dies another goes on without a gap and without a double."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import PostgresServer
from tests.system.telegram_world import TelegramWorld, on_telegram
from tests.system.test_gateway_together import DEFAULT_LEASE

TALKERS = tuple(f"{'es'[number % 2]}{number}" for number in range(6))


@pytest.fixture
def shared(postgres_server: PostgresServer) -> str:
    """A fresh database on a server."""
    return postgres_server.renew()


def test_of_two_gateways_one_listens_and_the_other_goes_on_when_it_is_killed(shared: str) -> None:
    async def one_is_killed() -> None:
        async with on_telegram(shared, *TALKERS) as world:
            first = world.begin(lease=DEFAULT_LEASE)
            await world.listening()
            listener = holder(world)
            second = world.begin(lease=DEFAULT_LEASE)
            await both_are_up(world)
            for text in ("one", "two"):
                for user in TALKERS:
                    world.say(user, text)
            await world.api.wait_for(lambda: len(world.api.unconfirmed) < len(world.said), timeout=30)
            assert holder(world) == listener
            await world.kill(first)
            for user in TALKERS:
                world.say(user, "three")
            await world.api.wait_for(lambda: holder(world) != listener, timeout=2 * DEFAULT_LEASE)
            await world.settled()
            await world.kill(second)
            assert not world.broken()
            assert not were_two(world)

    asyncio.run(one_is_killed())


async def both_are_up(world: TelegramWorld) -> None:
    """Waits until both have asked who we are: then both can send."""

    def have_asked() -> bool:
        return len(world.api.calls_of("getMe")) >= 2

    await world.api.wait_for(have_asked, timeout=30)


def holder(world: TelegramWorld) -> str:
    """Which gateway listens."""
    ((owner,),) = world.rows("SELECT owner FROM named_leases")
    return str(owner)


def were_two(world: TelegramWorld) -> bool:
    """Whether a gateway was turned away because another one listened."""
    logs = "".join(log.read_text() for log in world._folder.glob("serve*.log"))
    assert "platform.another_listens" in logs
    return "telegram.contested" in logs
