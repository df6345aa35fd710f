"""Agents for tests: they say what they are told to, when they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.model.turn import Replay
from threadline.ports.agent import Event, Text, Turn

Script: TypeAlias = Callable[[Turn], AsyncIterator[Event]]
FlushScript: TypeAlias = Callable[[SessionEntry, Sequence[Message]], Awaitable[None]]


class ScriptedAgent:
    """Answers each turn by its script, and remembers the turns that it was given.

    Without a script it waits until `answer` is called, and says that: so a test decides how long a turn takes.

    It also remembers each conversation that it was shown once more after its end, and then does what `on_flush` says.
    """

    def __init__(
        self, script: Script | None = None, *, replay: Replay = "safe", on_flush: FlushScript | None = None
    ) -> None:
        self.turns: list[Turn] = []
        self.flushes: list[tuple[SessionEntry, tuple[Message, ...]]] = []
        self._on_flush = on_flush
        self._replay = replay
        self._script = script
        self._waiting: dict[str, asyncio.Future[Sequence[Event]]] = {}

    @property
    def replay(self) -> Replay:
        """Whether a turn may run again."""
        return self._replay

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """The events of the script."""
        self.turns.append(turn)
        if self._script is not None:
            async for event in self._script(turn):
                yield event
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[turn.turn_id] = waiting
        for event in await waiting:
            yield event

    async def flush(self, session: SessionEntry, history: Sequence[Message]) -> None:
        """Remembers what it was shown."""
        self.flushes.append((session, tuple(history)))
        if self._on_flush is not None:
            await self._on_flush(session, history)

    def answer(self, *said: str | Event) -> None:
        """Lets the turn that has waited longest go on with this, and end."""
        self._waiting = {turn_id: waiting for turn_id, waiting in self._waiting.items() if not waiting.done()}
        turn_id = next(iter(self._waiting))
        events = [Text(part) if isinstance(part, str) else part for part in said]
        self._waiting.pop(turn_id).set_result(events)
