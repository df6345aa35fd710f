"""A tool that runs when its turn is cut short: it gets a moment, and what the next turn sees is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.gateway.talk import ask, turns_of
from tests.gateway.world import Open, Running, awaited

from threadline.ports.agent import Event, Text, ToolCall, ToolResult, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.texts import gateway as texts


class Worker(ScriptedAgent):
    """Calls a tool that takes long. One that is `quick` ends it once nobody waits for it any more."""

    def __init__(self, *, quick: bool) -> None:
        super().__init__(self._work)
        self.quick = quick
        self.called = asyncio.Event()

    async def _work(self, turn: Turn) -> AsyncIterator[Event]:
        if turn.text != "work":
            yield Text("here I am")
            return
        yield Text("I look.")
        yield ToolCall("c1", "look", "{}")
        self.called.set()
        await (turn.cancelled if self.quick else asyncio.Event()).wait()
        yield ToolResult("c1", "seen in time")
        yield Text("It is blue.")


async def cut_short(here: Running, agent: Worker, by: str) -> list[tuple[str, object]]:
    """What the turn sees that follows one in which a tool ran."""
    here.chat.say("work")
    await agent.called.wait()
    if by == "/stop":
        await ask(here, by)
        await here.gateway.idle()
    here.chat.say("and?")
    await turns_of(here, agent, 2)
    await here.gateway.idle()
    return [(str(message["role"]), message["content"]) for message in agent.turns[1].history]


@pytest.mark.parametrize("by", ["/stop", "and?"])
@pytest.mark.parametrize("quick", [True, False], ids=["in time", "too late"])
@awaited
async def test_a_tool_that_runs_gets_a_moment_and_then_counts_as_cancelled(
    opened: Open, monkeypatch: pytest.MonkeyPatch, by: str, quick: bool
) -> None:
    monkeypatch.setattr("threadline.gateway.answering._GRACE_SECONDS", 10.0 if quick else 0.2)
    agent = Worker(quick=quick)
    async with opened(agent, when_busy="interrupt") as here:
        seen = await cut_short(here, agent, by)
        result = "seen in time" if quick else texts.TOOL_CANCELLED
        assert seen[:3] == [("user", "work"), ("assistant", "I look."), ("tool", result)]
        notice = texts.STOPPED if by == "/stop" else texts.INTERRUPTED
        assert any(text.startswith("I look.") and text.endswith(notice) for text in here.texts())
        await here.chat.wait_for(lambda: here.texts()[-1] == "here I am")
