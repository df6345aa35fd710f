"""The gateway: from a message in a chat to its stored and delivered answer, beside what the store alone takes for a turn."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count

from bench import prepare
from bench.measure import Figure, Pace, Sample, say
from bench.stage import Stage
from bench.turns import Turns
from threadline import AsyncSessionStore
from threadline.agents.echo import EchoAgent
from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import GatewaySettings
from threadline.ids import new_owner
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.platforms.text import plain, split
from threadline.ports.platform import Accept, Capabilities, Outgoing
from threadline.store.gateway import GatewayStore

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ACTIVE = (1, 64, 1_000)
_TURNS = {1: 60, 64: 640, 1_000: 2_000}


def gateway_scale(stage: Stage) -> Iterator[Sample]:
    """Turns of the echo agent, from accept to receipt, with ten sessions stored and with a hundred thousand."""
    (many_url, _), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    for chats in _ACTIVE:
        turns = stage.scaled(_TURNS[chats], least=chats)
        floor, work = asyncio.run(_both(few_url, many_url, chats, turns))
        yield Sample(
            Figure(
                name=f"gateway turn, {chats:,} chats",
                unit="microseconds",
                beside="the same with 10 sessions",
                at_most=1.3,
            ),
            work.microseconds,
            floor.microseconds,
        )
        if chats == _ACTIVE[1]:
            alone = asyncio.run(_store_alone(stage, few_url, few))
            yield Sample(
                Figure(name="gateway turn, 64 chats", unit="microseconds", beside="the store's own turn", at_most=4.0),
                floor.microseconds,
                alone.microseconds,
            )


async def _both(few_url: str, many_url: str, chats: int, turns: int) -> tuple[Pace, Pace]:
    """The pace on each of two stores, in turn: twice each, so that a drift of the machine meets both."""
    paces: dict[str, list[Pace]] = {few_url: [], many_url: []}
    for url in (few_url, many_url, few_url, many_url):
        paces[url].append(await _pace(url, chats, turns))
    return _summed(paces[few_url]), _summed(paces[many_url])


def _summed(paces: list[Pace]) -> Pace:
    return Pace(sum(pace.operations for pace in paces), sum(pace.seconds for pace in paces))


async def _pace(url: str, chats: int, turns: int) -> Pace:
    async with _running(url) as desk:
        await _converse(desk, chats, chats)
        started = time.perf_counter()
        waits = await _converse(desk, chats, turns)
        seconds = time.perf_counter() - started
    cuts = statistics.quantiles(waits, n=100) if len(waits) > 1 else waits * 99
    say(
        f"    {chats:,} chats: {turns / seconds:,.0f} turns a second,"
        f" p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms"
    )
    return Pace(turns, seconds)


async def _converse(desk: Desk, chats: int, turns: int) -> list[float]:
    """So many turns, one after the other in each chat; how long each took from the word to the answer."""
    waits: list[float] = []
    left = iter(range(turns))

    async def talk(user: str) -> None:
        waits.extend([await desk.exchange(user, f"message {number}") for number in left])

    await asyncio.gather(*(talk(f"user{number}") for number in range(chats)))
    return waits


class Desk:
    """A platform in this very process: what it costs is what the gateway costs."""

    name = "scripted"
    account = "main"
    capabilities = Capabilities(max_length=4096)

    def __init__(self) -> None:
        self._accept: Accept | None = None
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._numbers = count()

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        self._accept = accept
        ready.set()
        await asyncio.Event().wait()

    async def exchange(self, user: str, text: str) -> float:
        """Somebody says something and waits for the answer; how long that took."""
        assert self._accept is not None
        began = time.perf_counter()
        answer = self._answers[user] = asyncio.get_running_loop().create_future()
        number = uuid.uuid4().hex
        source = SessionSource(platform=self.name, chat_id=user, user_id=user)
        event = Inbound(dedupe_key=number, message_id=number, source=source, text=text, sent_at=_NOW)
        assert await self._accept(event) == "accepted"
        assert await asyncio.wait_for(answer, 120) == text
        return time.perf_counter() - began

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self._answers.pop(to.chat_id).set_result(message.text)
        return str(next(self._numbers))

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        raise AssertionError("not declared")

    async def typing(self, to: Target) -> None:
        raise AssertionError("not declared")

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def _running(url: str) -> AsyncIterator[Desk]:
    async with await GatewayStore.open(url) as store:
        agent, desk = EchoAgent(pause=0.0), Desk()
        settings = GatewaySettings(
            owner=new_owner("bench"),
            agent_for=lambda _source: ("main", agent),
            split=lambda text, to: split(text, to.max_length, to.length_unit),
            plain=plain,
            burst_seconds=0.0,
            turns_at_once=64,
            turns_per_platform=64,
            welcome=False,
        )
        everyone = AccessRules(guests=frozenset(f"scripted:user{n}" for n in range(max(_ACTIVE))))
        gateway = Gateway(store, settings, everyone, [desk])
        await gateway.start()
        await asyncio.sleep(0.1)
        try:
            yield desk
        finally:
            await gateway.stop()


async def _store_alone(stage: Stage, url: str, spread: prepare.Spread) -> Pace:
    """Whole turns of as many callers on the same store, without a gateway around them."""
    async with await AsyncSessionStore.open(url) as store:
        turns = Turns(stage, spread)
        await turns.take_async(store, 1)
        started = time.perf_counter()
        done = await turns.take_async(store, stage.scaled(20, least=2))
        return Pace(done, time.perf_counter() - started)
