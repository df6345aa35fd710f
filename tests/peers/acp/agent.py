"""The agent that answers third parties' editors. What it does is asked for in the prompt: its first word names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeAlias

from threadline.agents.function import FunctionTurn
from threadline.ports.agent import (
    AskPermission,
    ContextWindow,
    Diff,
    Event,
    NewFile,
    Place,
    Plan,
    PlanStep,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    UsageOf,
)

Events: TypeAlias = AsyncGenerator[Event | NewFile, None]

_LOOK = 0.02


async def answer(turn: FunctionTurn) -> Events:
    """Does what the first word says; anything else is answered with the same words."""
    name, _, rest = turn.text.partition(" ")
    script = _SCRIPTS.get(name)
    events = _say(turn, turn.text) if script is None else script(turn, rest)
    async for event in events:
        yield event
    yield ContextWindow(used=1234, size=200_000)
    yield UsageOf(input_tokens=1200, output_tokens=34, model="scripted")


async def _say(_turn: FunctionTurn, rest: str) -> Events:
    yield Text(rest)


async def _hold(turn: FunctionTurn, rest: str) -> Events:
    """`hold FILE`: a tool that runs until the file is there, and hears nobody meanwhile. FILE.waits is there once it does."""
    yield Text("I wait.")
    yield ToolCall("wait", "wait_for_file", json.dumps({"path": rest}), "Waiting for a file", "read", (Place(rest, 7),))
    await asyncio.to_thread(Path(f"{rest}.waits").touch)
    while not await asyncio.to_thread(Path(rest).exists):  # noqa: ASYNC110 - a file tells nobody that it came
        await asyncio.sleep(_LOOK)
    yield ToolResult("wait", "it is there")
    yield Text("It came.")


async def _edit(_turn: FunctionTurn, rest: str) -> Events:
    """`edit PATH`: thinks, plans, and changes a file."""
    yield Thought("They want this file changed.")
    yield Plan((PlanStep("Look", "completed", "high"), PlanStep("Change it", "in_progress")))
    yield ToolCall("edit", "edit_file", json.dumps({"path": rest}), "Editing the file", "edit", (Place(rest, 3),))
    yield ToolResult("edit", "", diffs=(Diff(rest, "new\n", "old\n"), Diff(f"{rest}.bak", "old\n")))
    yield Text("Changed.")


async def _ask(turn: FunctionTurn, rest: str) -> Events:
    """`ask WHAT`: wants to use a tool for this."""
    question = AskPermission(
        ask_id="q1", tool="open_window", arguments=json.dumps({"room": rest}), reason="It is warm."
    )
    allowed = turn.permitted(question)
    if allowed is None:
        yield question
    elif allowed:
        yield Text("The window is open.")
    else:
        yield Text("Then the window stays shut.")


async def _files(turn: FunctionTurn, _rest: str) -> Events:
    """`files`: tells what was said and what came with it."""
    yield Text(turn.text)
    for one in turn.attachments:
        content = await turn.read_file(one)
        yield Text(f"\n- {one.name} ({one.mime}) with {len(content)} bytes")


async def _draw(_turn: FunctionTurn, rest: str) -> Events:
    """`draw NAME`: sends a picture of that name."""
    yield Text("Here it is.")
    yield NewFile(body=b"\x89PNG\r\n\x1a\n", name=rest, mime="image/png")


async def _recall(turn: FunctionTurn, _rest: str) -> Events:
    """`recall`: tells what was said before."""
    yield Text(" / ".join(str(message["content"]) for message in turn.history if message.get("content")))


_SCRIPTS = {
    "say": _say,
    "hold": _hold,
    "edit": _edit,
    "ask": _ask,
    "files": _files,
    "draw": _draw,
    "recall": _recall,
}
