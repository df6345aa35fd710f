"""An agent for an editor in a process of its own, over real pipes, that can be told where to die."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from tests.acp.editor_world import GivenAgents

from threadline.config.settings import Config
from threadline.editor import editing
from threadline.ports.agent import Diff, Event, Plan, PlanStep, Text, Thought, ToolCall, ToolResult, Turn
from threadline.rpc.stdio import claim_stdout, open_stdio
from threadline.testing.agents import ScriptedAgent
from threadline.testing.crashing import CrashingStore, Trigger

_MOMENT = 0.012


async def at_length(turn: Turn) -> AsyncIterator[Event]:
    """An answer of every sort, a little at a time."""
    name = turn.text
    yield Thought(f"thinking of {name}. ")
    await asyncio.sleep(_MOMENT)
    for word in ("well", "then"):
        yield Text(f"{word} {name}, ")
        await asyncio.sleep(_MOMENT)
    yield ToolCall(f"{turn.turn_id}.1", "write", '{"path": "/a"}', "Write a", "edit")
    await asyncio.sleep(_MOMENT)
    yield ToolResult(f"{turn.turn_id}.1", "written", diffs=(Diff("/a", "new"),))
    yield Thought(f"so far {name}. ")
    yield Plan((PlanStep("write", "completed"), PlanStep("rest", "in_progress")))
    for word in ("and", "so", "on"):
        yield Text(f"{word} {name}. ")
        await asyncio.sleep(_MOMENT)
    yield ToolCall(f"{turn.turn_id}.2", "read", kind="read")
    yield ToolResult(f"{turn.turn_id}.2", "nothing there", is_error=True)
    yield Text(f"end {name}.\n")


async def _serve(location: str, point: str, nth: int) -> None:
    lines, sink = await open_stdio()
    async with await CrashingStore.open(location) as store:
        store.trigger = Trigger(point or None, nth=nth)
        agents = GivenAgents(ScriptedAgent(at_length, replay="until_tool"))
        async with editing(Config(), store, lines, sink, agents=agents) as (_, gateway):
            await gateway.wait_for_platforms()


if __name__ == "__main__":
    claim_stdout()
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
