"""Waiting for what happens in a world that a test drives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
Place = TypeVar("Place", bound=Hashable)
Shown = TypeVar("Shown")

_LOOK_AGAIN = 0.05


class Lookout(Generic[Place, Shown]):
    """Tells those who wait that something changed, or that a message appeared in their chat."""

    def __init__(self, portrait: Callable[[], str]) -> None:
        """`portrait`: how things stand, for whoever has waited in vain."""
        self.changed = asyncio.Event()
        self._portrait = portrait
        self._awaited: dict[Place, list[asyncio.Future[Shown]]] = {}

    def appeared(self, place: Place, message: Callable[[], Shown]) -> None:
        """A message is there; it is looked at only where somebody waits for one."""
        for waiting in self._awaited.pop(place, ()):
            if not waiting.done():
                waiting.set_result(message())

    async def until(self, predicate: Callable[[], T], seconds: float) -> T:
        """The first value that counts as true, asked for after every change and now and then; else `TimeoutError`."""
        try:
            async with asyncio.timeout(seconds):
                while not (value := predicate()):
                    await self._next_change()
                return value
        except TimeoutError as cause:
            raise TimeoutError(f"nothing after {seconds:g} s; {self._portrait()}") from cause

    async def next_in(self, place: Place, seconds: float) -> Shown:
        """The next message there, from now on. However many wait: a message costs only those who wait in its chat."""
        shown: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(place, []).append(shown)
        try:
            async with asyncio.timeout(seconds):
                return await shown
        except TimeoutError as cause:
            raise TimeoutError(f"nothing in {place} after {seconds:g} s; {self._portrait()}") from cause

    async def _next_change(self) -> None:
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), _LOOK_AGAIN)
