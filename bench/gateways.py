"""The gateway: from a message in a chat to its stored and delivered answer, beside what the store alone takes for a turn."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec

from bench import prepare
from bench.measure import Figure, Pace, Sample, cpu_seconds, say
from bench.serving import Served, Serving, served
from bench.stage import Stage
from bench.turns import Turns
from threadline import AsyncSessionStore
from threadline.testing.scripted import ScriptedChat

# Says a word as a user and returns when it was answered.
Exchange: TypeAlias = Callable[[str, str], Awaitable[None]]
_TURNS_AT_ONCE = 64
_PATIENCE_SECONDS = 120.0


class Active(msgspec.Struct, frozen=True):
    """So many chats are active, and have so many turns in each of the rounds."""

    chats: int
    turns: int
    rounds: int


_ACTIVE = (Active(1, turns=30, rounds=5), Active(64, turns=320, rounds=4), Active(1_000, turns=2_000, rounds=2))


def gateway_scale(stage: Stage) -> Iterator[Sample]:
    """Turns of the echo agent over the scripted platform, with ten sessions stored and with a hundred thousand."""
    (many_url, _), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    for active in _ACTIVE:
        turns = stage.scaled(active.turns, least=active.chats)
        floor, work = asyncio.run(_both(few_url, many_url, msgspec.structs.replace(active, turns=turns)))
        name = f"gateway turn, {active.chats:,} chats"
        beside_few = Figure(name=name, unit="microseconds", beside="the same with 10 sessions", at_most=1.3)
        yield Sample(beside_few, work.microseconds, floor.microseconds)
        if active.chats == _TURNS_AT_ONCE:
            alone = asyncio.run(_store_alone(stage, few_url, few))
            beside_store = Figure(name=name, unit="microseconds", beside="the store's own turn", at_most=4.0)
            yield Sample(beside_store, floor.microseconds, alone.microseconds)
    stage.check(few_url)
    if stage.is_last:
        stage.check(many_url)


async def _both(few_url: str, many_url: str, active: Active) -> tuple[Pace, Pace]:
    """The pace on each of two stores, in turn and more than once, so that a drift of the machine meets both."""
    async with talking(few_url) as (few, _), talking(many_url) as (many, _):
        for side in (few, many):
            await side.converse(active.chats, active.chats)
        for _ in range(active.rounds):
            for side in (few, many):
                await side.take(active)
    say(f"    {active.chats:,} chats, few sessions: {few.told()}")
    say(f"    {active.chats:,} chats, many sessions: {many.told()}")
    return few.pace, many.pace


class Side:
    """People in a chat who talk to one gateway: how long they wait, and what that costs."""

    def __init__(self, exchange: Exchange, pid: int) -> None:
        """`exchange` says a single word as a user, and returns once the answer is there."""
        self._exchange = exchange
        self._pid = pid
        self._waits: list[float] = []
        self._seconds = 0.0
        self._computed = 0.0
        self._computed_here = 0.0

    @property
    def pace(self) -> Pace:
        """Of all rounds together."""
        return Pace(len(self._waits), self._seconds)

    @property
    def computed(self) -> Pace:
        """The same turns by the time that the gateway has computed for them."""
        return Pace(len(self._waits), self._computed)

    def told(self) -> str:
        """For whoever watches."""
        cuts, turns = statistics.quantiles(self._waits, n=100), len(self._waits)
        return (
            f"{self.pace.per_second:,.0f} turns a second, p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms;"
            f" a turn computes {self._computed / turns * 1000:.2f} ms in serve,"
            f" {self._computed_here / turns * 1000:.2f} ms in the chat"
        )

    async def take(self, active: Active) -> None:
        """A round, on the clock."""
        began, computed, computed_here = time.perf_counter(), cpu_seconds(self._pid), time.process_time()
        self._waits += await self.converse(active.chats, active.turns)
        self._seconds += time.perf_counter() - began
        self._computed += cpu_seconds(self._pid) - computed
        self._computed_here += time.process_time() - computed_here

    async def converse(self, chats: int, turns: int) -> list[float]:
        """So many turns, one after the other in each chat; how long each took from the word to the answer."""
        left = iter(range(turns))

        async def talk(user: str) -> list[float]:
            return [await self._timed(user, f"message-{number}") for number in left]

        waits = await asyncio.gather(*(talk(f"user{number}") for number in range(chats)))
        return [wait for of_one in waits for wait in of_one]

    async def _timed(self, user: str, word: str) -> float:
        # A single word: between words the echo agent pauses.
        began = time.perf_counter()
        await self._exchange(user, word)
        return time.perf_counter() - began


@asynccontextmanager
async def talking(url: str) -> AsyncIterator[tuple[Side, Served]]:
    """A gateway in a process of its own, the chat in this one: what people and their chats cost is not the gateway's."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            ScriptedChat(f"unix:{folder}/chat", resend_after=_PATIENCE_SECONDS) as chat,
            served(_serving(url, chat.address).config()) as serving,
        ):
            await chat.wait_for(lambda: chat.connected, timeout=_PATIENCE_SECONDS)

            async def exchange(user: str, word: str) -> None:
                chat.say(word, user=user, message_id=uuid.uuid4().hex)
                answer = await chat.next_message(f"dm-{user}", timeout=_PATIENCE_SECONDS)
                assert answer.text == word, answer

            yield Side(exchange, serving.pid), serving


def _serving(url: str, address: str) -> Serving:
    return Serving(
        url=url,
        address=address,
        people=max(active.chats for active in _ACTIVE),
        turns_at_once=_TURNS_AT_ONCE,
        agent='kind = "echo"',
        # It can't edit: so an answer is shown only once it is stored.
        capabilities="{ max_length = 4096 }",
    )


async def _store_alone(stage: Stage, url: str, spread: prepare.Spread) -> Pace:
    """Whole turns of as many callers on the same store, without a gateway around them."""
    async with await AsyncSessionStore.open(url) as store:
        turns = Turns(stage, spread)
        await turns.take_async(store, 1)
        started = time.perf_counter()
        done = await turns.take_async(store, stage.scaled(20, least=2))
        return Pace(done, time.perf_counter() - started)
