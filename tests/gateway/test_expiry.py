"""The watcher in a gateway: what nobody goes on with ends, and its agent sees it once more, in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from tests.gateway.talk import ask, current, echo, eventually, running_with, turns_of
from tests.gateway.world import Running, awaited

from threadline.agents.echo import EchoAgent
from threadline.model.message import Message
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.ports.agent import Agent, Event, Text, Turn
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.texts import gateway as texts

HOUR = timedelta(hours=1)
LONG = timedelta(hours=9)
ANSWERED = ["hello", "you said: hello"]


def watching(location: str, agent: Agent, clock: FakeClock, **options: Any) -> AbstractAsyncContextManager[Running]:
    """A gateway that looks for stale conversations all the time; they go stale after an idle hour."""
    policy = SessionResetPolicy(mode="idle", idle_minutes=60, notify=options.pop("notify", True))
    store = {"clock": clock, "timezone": "UTC", "policies": ResetPolicies(default=policy)}
    return running_with(location, agent, store=store, **{"watch_seconds": 0.02} | options)


def shown(agent: ScriptedAgent) -> list[list[str]]:
    """What the agent was shown once more, conversation by conversation."""
    return [[str(message["content"]) for message in history] for _, history in agent.flushes]


async def flushed(here: Running, agent: ScriptedAgent, count: int) -> None:
    """Waits until the agent was shown so many conversations."""
    await here.chat.wait_for(lambda: len(agent.flushes) == count)


async def ended(here: Running, session: SessionEntry) -> None:
    """Waits until a session is over."""

    async def is_over() -> bool:
        return (await here.store.get_session(session.session_id)).ended_at is not None

    await eventually(is_over)


async def remembered(here: Running, session: SessionEntry) -> None:
    """Waits until all of a session is known to be flushed."""

    async def is_so() -> bool:
        return (await here.store.get_session(session.session_id)).memory_flushed

    await eventually(is_so)


class Refusing:
    """What an agent does with the conversations that it is shown, until it is told otherwise."""

    def __init__(self) -> None:
        self.hangs = False
        self.is_well = False

    async def __call__(self, _session: SessionEntry, _history: Sequence[Message]) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if not self.is_well:
            raise ValueError("no room in my memory")


@awaited
async def test_a_conversation_that_nobody_goes_on_with_ends_and_is_shown_to_its_agent(
    location: str, clock: FakeClock
) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock) as here:
        await ask(here, "hello")
        session = await current(here)
        clock.advance(2 * HOUR)
        await flushed(here, agent, 1)
        await remembered(here, session)
        assert shown(agent) == [ANSWERED]
        assert agent.flushes[0][0].session_id == session.session_id
        after = await here.store.get_session(session.session_id)
        assert (after.end_reason, after.active_at) == ("session_reset", session.active_at)
        # Nobody hears of it.
        assert here.texts() == ["you said: hello"]


@awaited
async def test_who_comes_back_is_told_once_and_starts_afresh(location: str, clock: FakeClock) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock) as here:
        await ask(here, "hello")
        before = await current(here)
        clock.advance(2 * HOUR)
        await ended(here, before)
        here.chat.say("again")
        await here.shows("you said: hello", texts.RESET_IDLE, "you said: again")
        assert list(agent.turns[-1].history) == []
        await ask(here, "and again")
        assert here.texts()[2:] == ["you said: again", "you said: and again"]


@awaited
async def test_where_nobody_is_to_be_told_nobody_is(location: str, clock: FakeClock) -> None:
    async with watching(location, ScriptedAgent(echo), clock, notify=False) as here:
        await ask(here, "hello")
        before = await current(here)
        clock.advance(2 * HOUR)
        await ended(here, before)
        here.chat.say("again")
        await here.shows("you said: hello", "you said: again")


@awaited
async def test_resume_takes_it_back_and_only_the_new_part_is_shown_again(location: str, clock: FakeClock) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock) as here:
        await ask(here, "hello")
        session = await current(here)
        clock.advance(2 * HOUR)
        await remembered(here, session)
        here.chat.say("/resume")
        await here.chat.wait_for(lambda: len(here.texts()) == 3)
        await here.gateway.idle()
        assert (await current(here)).session_id == session.session_id
        await ask(here, "go on")
        assert [message["content"] for message in agent.turns[-1].history] == ANSWERED
        clock.advance(2 * HOUR)
        await flushed(here, agent, 2)
        assert shown(agent)[1] == ["go on", "you said: go on"]


@awaited
async def test_what_is_busy_goes_on_however_long_it_takes(location: str, clock: FakeClock) -> None:
    found_out = asyncio.Event()

    async def ponders(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "a hard one":
            await found_out.wait()
        yield Text("I see.")

    agent = ScriptedAgent(ponders)
    async with watching(location, agent, clock) as here:
        here.chat.say("a hard one")
        await turns_of(here, agent, 1)
        busy = await current(here)
        clock.advance(2 * HOUR)
        await ask(here, "an easy one", user="bob")
        clock.advance(2 * HOUR)
        # When this one has ended, the watcher has passed the other.
        await flushed(here, agent, 1)
        assert (await here.store.get_session(busy.session_id)).ended_at is None
        found_out.set()
        await here.shows("I see.")
        assert (await current(here)).session_id == busy.session_id
        clock.advance(2 * HOUR)
        await ended(here, busy)


@awaited
async def test_new_shows_the_agent_what_it_ends(location: str, clock: FakeClock) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock) as here:
        await ask(here, "hello")
        await ask(here, "/new")
        await flushed(here, agent, 1)
        assert shown(agent) == [ANSWERED]


@awaited
async def test_so_does_a_message_that_comes_before_the_watcher(location: str, clock: FakeClock) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock, watch_seconds=600.0) as here:
        await ask(here, "hello")
        clock.advance(2 * HOUR)
        await ask(here, "again")
    async with watching(location, agent, clock) as here:
        await flushed(here, agent, 1)
        assert shown(agent) == [ANSWERED]


@awaited
async def test_an_agent_that_keeps_failing_is_asked_three_times(location: str, clock: FakeClock) -> None:
    refusing = Refusing()
    agent = ScriptedAgent(echo, on_flush=refusing)
    async with watching(location, agent, clock) as here:
        await ask(here, "hello")
        await ask(here, "/new")
        for count in (1, 2, 3):
            await flushed(here, agent, count)
            clock.advance(LONG)
        # By now it would have been asked again: what follows was.
        refusing.is_well = True
        await ask(here, "later", user="bob")
        await ask(here, "/new", user="bob")
        await flushed(here, agent, 4)
        assert shown(agent) == [ANSWERED, ANSWERED, ANSWERED, ["later", "you said: later"]]


@awaited
async def test_one_that_hangs_is_cut_and_asked_again(location: str, clock: FakeClock) -> None:
    refusing = Refusing()
    refusing.hangs = refusing.is_well = True
    agent = ScriptedAgent(echo, on_flush=refusing)
    async with watching(location, agent, clock, silence_seconds=0.2, flushes_at_once=1) as here:
        await ask(here, "hello")
        session = await current(here)
        await ask(here, "/new")
        await flushed(here, agent, 1)
        refusing.hangs = False

        async def is_remembered() -> bool:
            clock.advance(HOUR)
            return (await here.store.get_session(session.session_id)).memory_flushed

        await eventually(is_remembered)
        assert shown(agent) == [ANSWERED, ANSWERED]


@awaited
async def test_those_that_hang_are_in_nobodys_way_and_end_with_the_gateway(location: str, clock: FakeClock) -> None:
    refusing = Refusing()
    refusing.hangs = True
    agent = ScriptedAgent(echo, on_flush=refusing)
    async with watching(location, agent, clock, flushes_at_once=2) as here:
        for user in ("ada", "bob", "eve"):
            await ask(here, "hello", user=user)
            await ask(here, "/new", user=user)
        await flushed(here, agent, 2)
        assert await ask(here, "still there?") == "you said: still there?"
    # Given back, and so it has cost no attempt.
    after = ScriptedAgent(echo)
    async with watching(location, after, clock) as here:
        await flushed(here, after, 3)
        assert shown(after) == [ANSWERED] * 3
        assert len(agent.flushes) == 2


@awaited
async def test_what_a_dead_gateway_was_at_is_taken_up(location: str, clock: FakeClock) -> None:
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock, watch_seconds=600.0) as here:
        await ask(here, "hello")
        session = await current(here)
        await ask(here, "/new")
    async with await GatewayStore.open(location, clock=clock) as store:
        lost = await store.expiry.claim_flush(["scripted"], owner="serve:dead", duration=300_000)
        assert lost is not None
    clock.advance(timedelta(seconds=1))
    async with watching(location, agent, clock) as here:
        await flushed(here, agent, 1)
        await remembered(here, session)
        assert not await here.store.expiry.finish_flush(lost)


@awaited
async def test_an_agent_that_remembers_nothing_is_not_asked(location: str, clock: FakeClock) -> None:
    async with watching(location, EchoAgent(), clock) as here:
        await ask(here, "hello")
        session = await current(here)
        await ask(here, "/new")

        async def is_dropped() -> bool:
            # Whatever is still there is handed back at once.
            there = await here.store.expiry.claim_flush(["scripted"], owner="test", duration=1_000_000)
            if there is not None:
                await here.store.expiry.release_flush(there)
            return there is None

        await eventually(is_dropped)
    clock.advance(LONG)
    agent = ScriptedAgent(echo)
    async with watching(location, agent, clock, flushes_at_once=1) as here:
        await ask(here, "later", user="bob")
        await ask(here, "/new", user="bob")
        await flushed(here, agent, 1)
        assert shown(agent) == [["later", "you said: later"]]
        assert not (await here.store.get_session(session.session_id)).memory_flushed
