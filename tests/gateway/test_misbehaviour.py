"""Agents that do not keep their promises: their people are told, and the gateway goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.gateway.talk import ask, turns_of
from tests.gateway.world import Open, awaited

from threadline.agents.function import FunctionAgent, FunctionTurn
from threadline.ports.agent import AgentError, Event, Text, ToolCall, ToolResult, Turn, UsageOf
from threadline.testing.agents import ScriptedAgent
from threadline.texts import gateway as texts

GARBAGE: tuple[Any, ...] = (
    None,
    7,
    "text",
    b"bytes",
    {"text": "hello"},
    object(),
    Text(cast(str, None)),
    Text,
    ToolCall("1", "shell", cast(str, {"command": "ls"})),
    ToolResult("1", cast(str, None)),
    UsageOf(cost_micros=cast(int, 1.5)),
)


@pytest.mark.parametrize("said", GARBAGE, ids=lambda said: type(said).__name__ + str(said)[:4])
@awaited
async def test_an_agent_that_says_what_is_no_event_is_a_fault_and_the_next_turn_works(opened: Open, said: Any) -> None:
    async def mumble(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "well?":
            yield said
        yield Text("better")

    async with opened(ScriptedAgent(mumble)) as here:
        told = texts.AGENT_FAULT.format(error="TypeError")
        assert told in await ask(here, "well?")
        assert await ask(here, "and now?") == "better"
        lines = await here.store.maintenance.list_messages()
        assert [(line.fate, line.note) for line in lines] == [("answered", None), ("failed", told)]
        assert [line.fate for line in await here.store.maintenance.list_messages("answered")] == ["answered"]
        assert [line.fate for line in await here.store.maintenance.list_messages("failed")] == ["failed"]
        story = await here.store.maintenance.trace_message(lines[-1].pk)
        assert (story.message.fate, story.message.note) == ("failed", told)


@awaited
async def test_every_message_of_a_turn_that_failed_is_failed_with_the_agents_reason(opened: Open) -> None:
    async def asleep(_turn: Turn) -> AsyncIterator[Event]:
        raise AgentError("The oracle is asleep.")
        yield  # a generator, as agents are

    async with opened(ScriptedAgent(asleep), burst_seconds=1.0) as here:
        here.chat.say("one")
        here.chat.say("two")
        told = texts.AGENT_FAILED.format(reason="The oracle is asleep.")
        await here.shows(told)
        lines = await here.store.maintenance.list_messages()
        assert [(line.fate, line.note) for line in lines] == [("failed", told)] * 2
        known = await here.store.export("scripted:ada")
        assert [(one.event.fate, one.event.note) for one in known if one.event] == [("failed", told)] * 2


class NoAgent:
    """Something that claims to be an agent."""

    replay = "safe"

    def __init__(self, run: Any) -> None:
        self.run = run


async def _coroutine(_turn: Turn) -> str:
    return "hello"


@pytest.mark.parametrize("run", [lambda _turn: None, lambda _turn: "hello", lambda: 7, _coroutine], ids=range(4))
@pytest.mark.filterwarnings("ignore:coroutine")
@awaited
async def test_an_agent_that_is_none_is_a_fault(opened: Open, run: Any) -> None:
    async with opened(cast(Any, NoAgent(run))) as here:
        assert texts.AGENT_FAULT.format(error="TypeError") in await ask(here, "well?")


@awaited
async def test_an_agent_that_falls_silent_is_ended_and_told(opened: Open) -> None:
    async def hangs(turn: Turn) -> AsyncIterator[Event]:
        yield Text("so far")
        if turn.text == "well?":
            await asyncio.Event().wait()

    async with opened(ScriptedAgent(hangs), silence_seconds=0.2) as here:
        await ask(here, "well?")
        await here.chat.wait_for(lambda: texts.AGENT_SILENT.format(minutes=0) in here.texts()[0])
        assert here.texts()[0].startswith("so far")
        assert await ask(here, "and now?") == "so far"


def stubborn(free: asyncio.Event, *, talks: bool = False) -> ScriptedAgent:
    """One that does not end when it is told to, until it is let go; it `talks` all the while."""

    async def runs(turn: Turn) -> AsyncIterator[Event]:
        yield Text("so far")
        while turn.text == "well?" and not free.is_set():
            try:
                await (asyncio.sleep(0.01) if talks and turn.cancelled.is_set() else free.wait())
            except asyncio.CancelledError:
                continue
            yield Text(" and on")

    return ScriptedAgent(runs)


@pytest.mark.parametrize("talks", [False, True])
@awaited
async def test_an_agent_that_does_not_end_when_it_is_stopped_is_left_behind(opened: Open, talks: bool) -> None:
    free = asyncio.Event()
    agent = stubborn(free, talks=talks)
    async with opened(agent, ending_seconds=0.2) as here:
        here.chat.say("well?")
        await turns_of(here, agent, 1)
        here.chat.say("/stop")
        await here.chat.wait_for(lambda: any(texts.STOPS["stop"] in text for text in here.texts()))
        assert await ask(here, "and now?") == "so far"
        ended = await here.transcript()
        free.set()
        await here.gateway.idle()
        assert await here.transcript() == ended


@awaited
async def test_an_agent_that_falls_silent_and_does_not_end_is_left_behind(opened: Open) -> None:
    free = asyncio.Event()
    async with opened(stubborn(free), silence_seconds=0.2, ending_seconds=0.2) as here:
        await ask(here, "well?")
        await here.chat.wait_for(lambda: texts.AGENT_SILENT.format(minutes=0) in here.texts()[0])
        assert await ask(here, "and now?") == "so far"
        free.set()


@awaited
async def test_a_gateway_ends_whatever_its_agents_do(opened: Open) -> None:
    free = asyncio.Event()
    agent = stubborn(free)
    async with opened(agent, ending_seconds=0.2) as here:
        here.chat.say("well?")
        await turns_of(here, agent, 1)
        await here.gateway.stop()
        # It was given back: the next gateway answers.
        assert (await here.store.maintenance.queue_counts()).running_turns == 0
        free.set()


@awaited
async def test_a_function_that_blocks_its_thread_keeps_nobody_else_waiting(opened: Open) -> None:
    free = threading.Event()

    def blocks(turn: FunctionTurn) -> str:
        if turn.text == "block":
            free.wait(20)
        return f"heard {turn.text}"

    async with opened(FunctionAgent(blocks)) as here:
        here.chat.say("block", user="bob")
        await here.chat.wait_for(lambda: not here.chat.unacknowledged)
        assert await ask(here, "hello") == "heard hello"
        assert await ask(here, "/status")
        free.set()
        await here.chat.wait_for(lambda: here.texts("dm-bob") == ["heard block"])


@awaited
async def test_a_call_that_is_never_answered_is_told_as_cancelled_to_the_next_turn(opened: Open) -> None:
    async def forgets(turn: Turn) -> AsyncIterator[Event]:
        yield ToolCall("c1", "look", "{}")
        if turn.text == "well?":
            raise RuntimeError
        yield Text("done")

    agent = ScriptedAgent(forgets)
    async with opened(agent) as here:
        await ask(here, "well?")
        await ask(here, "and now?")
        await turns_of(here, agent, 2)
        roles = [message["role"] for message in agent.turns[1].history]
        calls = [call["id"] for message in agent.turns[1].history for call in message.get("tool_calls", [])]
        answered = [message["tool_call_id"] for message in agent.turns[1].history if message["role"] == "tool"]
        assert roles[:1] == ["user"]
        assert calls == answered == ["c1"]
