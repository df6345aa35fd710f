"""The agent of the gateways that are killed. It lives in the test's process, outlives them all, and counts what it is asked to do.

A gateway has of it only what a person would write to reach an agent elsewhere: `asking`, a function for the kind `function`, and
`make_outside`, an agent kind of its own for what says how it may be run again. Both ask over a socket, and take one event at a
time: the agent goes on only when the gateway has taken the last one.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Self, TypeAlias, TypeVar

import msgspec

from threadline.agents.function import AgentFunction, FunctionTurn
from threadline.agents.registry import AgentSetup
from threadline.model.turn import Replay
from threadline.ports.agent import AskPermission, Done, Event, Text, ToolCall, ToolResult, Turn

T = TypeVar("T", FunctionTurn, Turn)

LOOKS = "Let me look. "
FOUND = "something"
CALL = ToolCall("c1", "look", "{}")
# What takes the gateway's process with it that works on it.
POISON = "poison"
ASK = AskPermission(ask_id=CALL.call_id, tool=CALL.name, arguments=CALL.arguments, least="guest")
# Who answers whom: the first letter of somebody's name tells.
# echo  one piece      slow  streamed      tools  streamed, with a tool call      never  streamed, runs once
# asks  in one piece, with a tool call that it may not make unasked
# waits  in one piece, once the test lets it
KINDS = {name[0]: name for name in ("echo", "slow", "tools", "never", "asks", "waits")}
_PIECES = 5
# A gateway shows nothing of an answer that is over sooner.
_BEFORE_STREAM = 0.45
_BETWEEN_PIECES = 0.06


class Asked(msgspec.Struct, frozen=True):
    """A turn, as far as the agent needs to know it."""

    turn_id: str
    user: str
    texts: tuple[str, ...]
    # What was answered to the question of an agent that asks.
    granted: bool | None = None


class Outside(msgspec.Struct, frozen=True):
    """The settings of the agent kind `outside`: where the agent is, and whether its turns may run again."""

    address: str
    replay: Replay


Script: TypeAlias = Callable[[Asked], AsyncGenerator[Event, None]]


def answer_to(texts: Sequence[str]) -> str:
    """What the agent has to say in the end, whoever asks."""
    return f"Of {' and '.join(texts)} I know that it is so, and why, and since when, and no more."


def kind_of(user: str) -> str:
    """How somebody is answered."""
    return KINDS[user[0]]


class OutsideAgent:
    """Answers every gateway that asks, each person in their own way: `async with OutsideAgent() as agent`."""

    def __init__(self) -> None:
        self.address = ""
        # How often each turn was begun, and how often its tool ran.
        self.runs: Counter[str] = Counter()
        self.tool_runs: Counter[str] = Counter()
        # Those that wait are answered from then on.
        self.may_answer = asyncio.Event()
        self._scripts: dict[str, Script] = {
            "echo": _echo,
            "slow": _slow,
            "tools": self._tools,
            "never": _slow,
            "asks": self._asks,
            "waits": self._waits,
        }
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving: asyncio.Task[None] | None = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        try:
            # A gateway that is gone asks no more, and hears nothing.
            with suppress(ConnectionError, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            self._serving.discard(serving)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (line := await reader.readline()):
            return
        asked = msgspec.json.decode(line, type=Asked)
        self.runs[asked.turn_id] += 1
        async with aclosing(self._scripts[kind_of(asked.user)](asked)) as events:
            async for event in events:
                writer.write(msgspec.json.encode(event) + b"\n")
                if not await reader.readline():
                    return
        writer.write(msgspec.json.encode(Done()) + b"\n")
        await writer.drain()

    async def _tools(self, asked: Asked) -> AsyncGenerator[Event, None]:
        yield Text(LOOKS)
        await asyncio.sleep(0.1)
        yield CALL
        self.tool_runs[asked.turn_id] += 1
        await asyncio.sleep(0.05)
        yield ToolResult(CALL.call_id, FOUND)
        async for event in _slow(asked):
            yield event

    async def _asks(self, asked: Asked) -> AsyncGenerator[Event, None]:
        if asked.granted is None:
            yield Text(LOOKS)
            yield ASK
            return
        yield CALL
        self.tool_runs[asked.turn_id] += 1
        yield ToolResult(CALL.call_id, FOUND)
        yield Text(answer_to(asked.texts))

    async def _waits(self, asked: Asked) -> AsyncGenerator[Event, None]:
        await self.may_answer.wait()
        yield Text(answer_to(asked.texts))


async def _echo(asked: Asked) -> AsyncGenerator[Event, None]:
    yield Text(answer_to(asked.texts))


async def _slow(asked: Asked) -> AsyncGenerator[Event, None]:
    answer = answer_to(asked.texts)
    size = len(answer) // _PIECES + 1
    for start in range(0, len(answer), size):
        yield Text(answer[start : start + size])
        await asyncio.sleep(_BETWEEN_PIECES if start else _BEFORE_STREAM)


# What is in a gateway's process.


def asking(address: str) -> AgentFunction:
    """A function that lets the agent at `address` answer."""
    return functools.partial(_ask, address)


def make_outside(settings: AgentSetup) -> RemoteAgent:
    """The agent kind `outside`."""
    return RemoteAgent(msgspec.convert(dict(settings.options), Outside))


class RemoteAgent:
    """Lets the agent outside answer."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    @property
    def replay(self) -> Replay:
        return self._outside.replay

    def run(self, turn: Turn) -> AsyncIterator[Event]:
        return _ask(self._outside.address, turn)


async def _ask(address: str, turn: T) -> AsyncGenerator[Event, None]:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    texts = tuple(spoken.text for spoken in turn.messages)
    if POISON in texts:
        os.kill(os.getpid(), signal.SIGKILL)
    asked = Asked(turn.turn_id, turn.source.user_id or "", texts, turn.permitted(ASK))
    try:
        writer.write(msgspec.json.encode(asked) + b"\n")
        while line := await reader.readline():
            event: Event = msgspec.json.decode(line, type=Event)
            yield event
            if isinstance(event, Done):
                return
            writer.write(b"\n")
        raise ConnectionResetError("the agent died")
    finally:
        writer.close()
