"""A gateway on Telegram that dies at any instant loses nothing, and doubles only what it marks."""

from __future__ import annotations

import asyncio
import random

import msgspec
from tests.system.seeds import seeded
from tests.system.telegram_world import TelegramWorld, in_telegram_worlds, on_telegram

from threadline.testing.telegram import Fault, hang, rate_limit

KILLS = 8
# The letter tells how they are answered: at once, or streamed.
TALKERS = ("e1", "e2", "s1", "s2", "s3")
LONGEST_PAUSE = 1.0
# A dead gateway's leases are waited for; those of the one that has to finish must hold on a busy machine.
SURVIVORS_LEASE = 4.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway dies: at a crash point, or while a call of the Bot API hangs. `doubt`: an answer may be there twice."""

    agent: str
    point: str = ""
    nth: int = 1
    method: str = ""
    fault: Fault | None = None
    doubt: bool = False

    @property
    def name(self) -> str:
        """What tells it from the others."""
        done = " after it was done" if self.fault and self.fault.is_performed else ""
        return f"{self.point or self.method + ' hangs' + done} ({self.agent}, {self.nth})"


CASES = [
    # Received, and not stored; stored, and not acknowledged: Telegram tells it again.
    Case(agent="echo", method="getUpdates", fault=hang(performed=True)),
    Case(agent="echo", point="before accept"),
    Case(agent="echo", point="after accept"),
    Case(agent="echo", point="before ack"),
    # Taken to be sent, sent, and nobody heard so.
    Case(agent="echo", point="before finish"),
    Case(agent="echo", point="after finish"),
    Case(agent="echo", point="before send", doubt=True),
    Case(agent="echo", method="sendMessage", fault=hang(), doubt=True),
    Case(agent="echo", method="sendMessage", fault=hang(performed=True), doubt=True),
    Case(agent="echo", point="after send", doubt=True),
    Case(agent="echo", point="before receipt", doubt=True),
    Case(agent="echo", point="after receipt"),
    # In the middle of an answer that is shown as it grows.
    Case(agent="slow", point="after stream", doubt=True),
    Case(agent="slow", point="before send", doubt=True),
    Case(agent="slow", method="sendMessage", fault=hang(), doubt=True),
    Case(agent="slow", method="sendMessage", fault=hang(performed=True), doubt=True),
    Case(agent="slow", point="before stream id", doubt=True),
    Case(agent="slow", point="after stream id"),
    Case(agent="slow", point="before edit"),
    Case(agent="slow", method="editMessageText", fault=hang()),
    Case(agent="slow", method="editMessageText", fault=hang(performed=True)),
    Case(agent="slow", point="after edit"),
    Case(agent="slow", point="before edit", nth=3),
    Case(agent="slow", point="before finish"),
    Case(agent="slow", point="after finish"),
    Case(agent="slow", point="before receipt"),
]


def test_whatever_a_gateway_dies_at_is_finished_by_the_next(location: str) -> None:
    found = in_telegram_worlds(location, CASES, broken_after)
    assert not found, "\n".join(found)


async def broken_after(world: TelegramWorld, number: int, case: Case) -> list[str]:
    """What is not as promised after a gateway died in this way and another came."""
    ada = f"{case.agent[0]}{number}"
    world.people = (ada,)
    if case.fault is not None:
        world.api.fail_next(case.method, case.fault)
        world.say(ada, f"a{number}")
        dying = world.begin()
        await world.hanging()
        await world.kill(dying)
    else:
        dying = world.begin(case.point, nth=case.nth)
        await world.listening()
        world.say(ada, f"a{number}")
        world.say(ada, f"b{number}")
        await world.died_at_point(dying)
    next_one = world.begin(lease=SURVIVORS_LEASE)
    await world.settled()
    await world.kill(next_one)
    found = world.broken(ada)
    if (doubts := world.in_doubt(ada)) != case.doubt:
        found.append(f"{doubts} answers are marked as possible repetitions")
    return [f"{case.name}: {fault}" for fault in found]


def test_nothing_is_lost_or_doubled_whenever_a_gateway_is_killed(location: str) -> None:
    async def kill_again_and_again() -> list[str]:
        rng = seeded(f"{KILLS} kills of a gateway on Telegram")
        async with on_telegram(location, *TALKERS) as world:
            for _ in range(KILLS):
                await killed_at_some_instant(world, rng)
            last = world.begin(lease=SURVIVORS_LEASE)
            await world.settled()
            await world.kill(last)
            return world.broken()

    found = asyncio.run(kill_again_and_again())
    assert not found, "\n".join(found)


async def killed_at_some_instant(world: TelegramWorld, rng: random.Random) -> None:
    """A gateway that is not given much time, while people talk and Telegram has its moods."""
    process = world.begin()
    if rng.random() < 0.5:
        world.api.fail_next("sendMessage", rate_limit(1))
    for _ in range(rng.randint(1, 4)):
        world.say(rng.choice(TALKERS), f"message {len(world.said)}")
        await asyncio.sleep(rng.random() ** 2 * LONGEST_PAUSE)
    if rng.random() < 0.7:
        await world.listening()
        await asyncio.sleep(rng.random() * LONGEST_PAUSE)
    await world.kill(process)
