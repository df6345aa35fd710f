"""What a platform that shows turns is told of them while they run."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.gateway.pages import CONVERSATION, RULES, Talker
from tests.gateway.talk import eventually
from tests.gateway.world import awaited, settings_for

from threadline.gateway.gateway import Gateway
from threadline.model.client_sources import web_source, web_target
from threadline.model.delivery import Target
from threadline.ports.agent import AskPermission, Event, Text, Thought, ToolCall, ToolResult
from threadline.ports.live import Ending, Growth
from threadline.store.facade import GatewayStore
from threadline.web.platform import WebMessage, WebPlatform, WebUser

SOURCE = web_source("owner", CONVERSATION)


class Onlooking:
    """Remembers what it is told; of each growth also what the journal had by then."""

    def __init__(self) -> None:
        self.began: list[tuple[str, int]] = []
        self.grown: list[Growth] = []
        self.ended: list[str] = []
        self.stirred = asyncio.Event()

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        assert to == web_target("owner", CONVERSATION)
        self.began.append((turn_id, attempt))
        self.stirred.set()

    def turn_grew(self, to: Target, growth: Growth) -> None:
        self.grown.append(growth)
        self.stirred.set()

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        self.ended.append(turn_id)
        self.stirred.set()

    def arrived(self, to: Target) -> None: ...

    @property
    def events(self) -> list[Event]:
        return [event for growth in self.grown for event in growth.events]

    async def until(self, count: int) -> None:
        """Waits until so many events were told."""
        while len(self.events) < count:
            self.stirred.clear()
            await self.stirred.wait()


class Watched:
    def __init__(self, store: GatewayStore, platform: WebPlatform, told: Onlooking, gateway: Gateway) -> None:
        self.store = store
        self.told = told
        self.gateway = gateway
        self._platform = platform

    async def say(self, text: str, key: str) -> None:
        await self._platform.send_message(
            WebUser(user_id="owner", name="Owner"), CONVERSATION, WebMessage(message_id=key, text=text)
        )

    async def journal(self) -> list[Event]:
        """What is on disk of the turn that runs."""
        seen = await self.store.change_feed.snapshot(SOURCE)
        assert seen is not None
        assert seen.turn is not None
        return [msgspec.json.decode(event, type=Event) for _, event in seen.turn.events]

    async def is_over(self) -> None:
        async def ended() -> bool:
            return bool(self.told.ended) and len(self.told.ended) == len(self.told.began)

        await eventually(ended)


@asynccontextmanager
async def watched(location: str, agent: Talker, **settings: Any) -> AsyncIterator[Watched]:
    async with await GatewayStore.open(location) as store:
        told = Onlooking()
        platform = WebPlatform(told)
        gateway = Gateway(store, settings_for(agent, **settings), RULES, [platform])
        await gateway.start(alone=True)

        async def is_ready() -> bool:
            return not await gateway.not_ready()

        try:
            await eventually(is_ready)
            yield Watched(store, platform, told, gateway)
        finally:
            await gateway.stop()


@awaited
async def test_what_may_not_run_again_is_told_only_once_it_is_on_disk(location: str) -> None:
    agent = Talker("never")
    async with watched(location, agent) as here:
        await here.say("go", "m1")
        said: list[Event] = [Thought("hm"), Text("one"), ToolCall("c", "look"), ToolResult("c", "seen")]
        for count, event in enumerate(said, 1):
            agent.says(event)
            await here.told.until(count)
            assert len(await here.journal()) >= count
        assert await here.journal() == here.told.events
        agent.says(None)
        await here.is_over()
        assert here.told.ended == [turn_id for turn_id, _ in here.told.began]


@awaited
async def test_what_may_run_again_is_told_though_nothing_of_it_is_on_disk(location: str) -> None:
    agent = Talker("safe")
    async with watched(location, agent) as here:
        await here.say("go", "m1")
        agent.says("one")
        await here.told.until(1)
        assert await here.journal() == []
        agent.says("two", "three", None)
        await here.is_over()
        assert here.told.events[0] == Text("one")


@awaited
async def test_each_growth_follows_the_one_before_it(location: str) -> None:
    agent = Talker("never")
    async with watched(location, agent) as here:
        await here.say("go", "m1")
        for count in range(1, 6):
            agent.says(f"{count} ", ToolCall(f"c{count}", "look"))
            await here.told.until(2 * count)
        places = [(growth.first, growth.upto) for growth in here.told.grown]
        assert places[0][0] == 0
        assert all(before[1] == after[0] for before, after in itertools.pairwise(places))
        assert places[-1][1] == 10
        assert {(growth.turn_id, growth.attempt) for growth in here.told.grown} == set(here.told.began)
        agent.says(None)
        await here.is_over()


@awaited
async def test_a_turn_that_asked_begins_anew_with_what_it_had_said(location: str) -> None:
    agent = Talker("never")
    async with watched(location, agent) as here:
        agent.says("May I? ", AskPermission(ask_id="a", tool="rm", least="owner"))
        await here.say("go", "m1")
        await here.is_over()

        async def is_shown() -> bool:
            asked = await here.store.approvals.find_open((await here.store.change_feed.find(SOURCE)).entry.session_id)
            return asked is not None and asked.shown_at is not None

        await eventually(is_shown)
        here.told.grown.clear()
        await here.say("/approve", "m2")
        agent.says("Done.", None)

        async def is_done() -> bool:
            return len(here.told.ended) == 2

        await eventually(is_done)
        (first, before), (second, after) = here.told.began
        assert first == second
        assert after > before
        assert here.told.grown[0].first == 0
        assert here.told.events[0] == Text("May I? ")


@awaited
async def test_it_is_told_that_a_turn_is_over_however_it_ends(location: str) -> None:
    agent = Talker("never")
    async with watched(location, agent) as here:
        await here.say("go", "m1")
        agent.says("some words")
        await here.told.until(1)
        await here.say("/stop", "m2")
        await here.is_over()
        # What is no event is the agent's fault.
        agent.said.put_nowait(7)  # type: ignore[arg-type]
        await here.say("again", "m3")

        async def is_failed() -> bool:
            return len(here.told.ended) == 2

        await eventually(is_failed)
        seen = await here.store.change_feed.snapshot(SOURCE)
        assert seen is not None
        assert [ended.outcome for ended in seen.ended_early] == ["stopped", "failed"]
