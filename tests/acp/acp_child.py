"""An agent for an editor in a process of its own, over real pipes, that can be told where to die."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator

import msgspec
from tests.acp.editor_world import GivenAgents

from threadline.config.settings import Config
from threadline.editor import editing
from threadline.model.turn import Replay
from threadline.ports.agent import (
    AskPermission,
    Diff,
    Event,
    Place,
    Plan,
    PlanStep,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    Turn,
)
from threadline.rpc.stdio import claim_stdout, open_stdio
from threadline.testing.agents import ScriptedAgent
from threadline.testing.crashing import CrashingStore, Trigger

_MOMENT = 0.012
_LONG = 0.05


async def at_length(turn: Turn) -> AsyncIterator[Event]:
    """An answer of every sort, a little at a time, with a question in the middle.

    It says all in the order in which a transcript keeps it: in each step thoughts, words, files, calls. No two runs say the same.
    """
    call = ToolCall(f"{turn.turn_id}.2", "shell", '{"command": "rm /a"}', "Remove a", "delete", is_asked=True)
    asked = AskPermission(ask_id=call.call_id, tool=call.name, arguments=call.arguments, reason="It is old.", call=call)
    allowed = turn.permitted(asked)
    name = f"{turn.text} ({secrets.token_hex(2)})"
    if allowed is None:
        async for event in _until_asked(turn, name):
            yield event
        yield call
        yield asked
        return
    yield ToolResult(call.call_id, f"removed for {name}" if allowed else "left where it was", is_error=not allowed)
    async for event in _since_asked(turn, name):
        yield event


async def _until_asked(turn: Turn, name: str) -> AsyncIterator[Event]:
    yield Thought(f"thinking of {name}. ")
    # Longer than a journal waits: so it may be all that was ever seen.
    await asyncio.sleep(_LONG)
    for word in ("well", "then"):
        yield Text(f"{word} {name}, ")
        await asyncio.sleep(_MOMENT)
    yield await turn.file(f"sketch of {name}".encode(), name="sketch.png", mime="image/png")
    await asyncio.sleep(_MOMENT)
    yield ToolCall(f"{turn.turn_id}.1", "write", '{"path": "/a"}', "Write a", "edit", (Place("/a", 3),))
    yield Plan((PlanStep(f"write {name}", "in_progress"), PlanStep("rest", priority="low")))
    await asyncio.sleep(_MOMENT)
    yield ToolResult(f"{turn.turn_id}.1", f"written {name}", diffs=(Diff("/a", name),))
    yield Thought(f"so far {name}. ")
    await asyncio.sleep(_LONG)
    yield Text(f"may I, {name}? ")
    await asyncio.sleep(_MOMENT)


async def _since_asked(turn: Turn, name: str) -> AsyncIterator[Event]:
    for word in ("and", "so", "on"):
        yield Text(f"{word} {name}. ")
        await asyncio.sleep(_MOMENT)
    yield Plan((PlanStep(f"write {name}", "completed"), PlanStep("rest", "in_progress")))
    yield ToolCall(f"{turn.turn_id}.3", "read", kind="read")
    yield ToolResult(f"{turn.turn_id}.3", "nothing there", is_error=True)
    yield Text(f"end {turn.text}.\n")


class _LoggedTrigger(Trigger):
    """Tells on standard error of each point that is passed."""

    def passed(self, point: str) -> None:
        sys.stderr.write(f"passed {point}\n")
        super().passed(point)


async def _serve(location: str, point: str, nth: int, replay: Replay) -> None:
    lines, sink = await open_stdio()
    async with await CrashingStore.open(location) as store:
        store.trigger = _LoggedTrigger(point or None, nth=nth)
        agents = GivenAgents(ScriptedAgent(at_length, replay=replay))
        async with editing(Config(), store, lines, sink, agents=agents) as (_, gateway):
            await gateway.wait_for_platforms()


if __name__ == "__main__":
    claim_stdout()
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), msgspec.convert(sys.argv[4], Replay)))
