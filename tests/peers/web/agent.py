"""The agent that answers in the browser's tests. What it does is asked for in the message: its first word names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeAlias

from threadline.agents.function import FunctionTurn
from threadline.ports.agent import AskPermission, Event, NewFile, Text, Thought, ToolCall, ToolResult, UsageOf

Events: TypeAlias = AsyncGenerator[Event | NewFile, None]

_LOOK = 0.02
_CALL = "call1"
WORDS = "Water the basil at noon, not in the evening."


async def answer(turn: FunctionTurn) -> Events:
    """Does what the first word of the message says; anything else is answered with the same words."""
    name, _, rest = turn.text.partition(" ")
    script = _SCRIPTS.get(name)
    events = _say(turn, turn.text) if script is None else script(turn, rest)
    async for event in events:
        yield event
    yield UsageOf(input_tokens=1200, output_tokens=34, cost_micros=4200, cost_status="estimated", model="scripted")


async def _say(_turn: FunctionTurn, rest: str) -> Events:
    yield Text(rest)


async def _count(turn: FunctionTurn, rest: str) -> Events:
    """`count 40 30`: so many numbered lines, so many milliseconds apart."""
    most, _, pause = rest.partition(" ")
    for number in range(1, int(most) + 1):
        if turn.cancelled.is_set():
            return
        yield Text(f"{number}. line number {number} of {most}\n")
        await asyncio.sleep(int(pause or 30) / 1000)


async def _hold(turn: FunctionTurn, rest: str) -> Events:
    """`hold FILE WORDS`: says half of the words, and the rest once the file is there."""
    gate, _, words = rest.partition(" ")
    half = len(words) // 2
    yield Text(words[:half])
    while not await asyncio.to_thread(Path(gate).exists):
        if turn.cancelled.is_set():
            return
        await asyncio.sleep(_LOOK)
    yield Text(words[half:])


async def _tools(_turn: FunctionTurn, rest: str) -> Events:
    """`tools RESULT`: thinks, calls a tool that gives this back, and tells of it."""
    yield Thought("They ask about plants, so I look into the garden book.")
    yield ToolCall(_CALL, "garden_book", json.dumps({"plant": "basil", "chapter": 3}))
    yield ToolResult(_CALL, rest)
    yield Text(WORDS)


async def _fails(_turn: FunctionTurn, rest: str) -> Events:
    """`fails RESULT`: a tool that fails with this."""
    yield ToolCall(_CALL, rest, json.dumps({rest: rest}))
    yield ToolResult(_CALL, rest, is_error=True)
    yield Thought(rest)
    yield Text(rest)


async def _ask(turn: FunctionTurn, rest: str) -> Events:
    """`ask REASON`: wants to use a tool, with this reason."""
    question = AskPermission(ask_id="q1", tool="open_window", arguments=json.dumps({"room": rest}), reason=rest)
    allowed = turn.permitted(question)
    if allowed is None:
        yield question
    elif allowed:
        yield Text("The window is open.")
    else:
        yield Text("Then the window stays shut.")


async def _files(turn: FunctionTurn, _rest: str) -> Events:
    """`files`: tells what came with the message."""
    for one in turn.attachments:
        content = await turn.read_file(one)
        yield Text(f"- {one.name} with {len(content)} bytes\n")
    if not turn.attachments:
        yield Text("No file came with it.")


async def _send(_turn: FunctionTurn, rest: str) -> Events:
    """`send NAME`: sends a text of that name, and says so."""
    yield Text(f"Here is {rest}.")
    yield NewFile(body=WORDS.encode(), name=rest, mime="text/plain")


async def _drip(_turn: FunctionTurn, rest: str) -> Events:
    """`drip FILE`: says what is in the file, a few characters at a time."""
    words = await asyncio.to_thread(Path(rest).read_text)
    for start in range(0, len(words), 7):
        yield Text(words[start : start + 7])
        if start % 140 == 0:
            # So that the page draws it in many states.
            await asyncio.sleep(_LOOK)


async def _tries(turn: FunctionTurn, _rest: str) -> Events:
    """`tries`: how often this conversation was asked before, and a number that grows with each try of this process."""
    _TRIES.append(turn.turn_id)
    yield Text(f"Try number {len(_TRIES)}.")


_TRIES: list[str] = []
_SCRIPTS = {
    "say": _say,
    "count": _count,
    "hold": _hold,
    "tools": _tools,
    "fails": _fails,
    "ask": _ask,
    "files": _files,
    "send": _send,
    "drip": _drip,
    "tries": _tries,
}
