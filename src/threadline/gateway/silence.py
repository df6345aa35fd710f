"""The limit of a turn: not its age, but how long its agent says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Silence:
    """Ends the block within it with `TimeoutError` once nothing was heard for `seconds`. `over` is told that it is to end.

    To hear something only moves a number: agents say thousands of things a second, and a timer for each would cost more
    than what they say. The one timer looks at that number when its time has come, and begins anew.
    """

    def __init__(self, seconds: float, over: Callable[[], None] = lambda: None) -> None:
        self._seconds = seconds
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look)

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def heard(self) -> None:
        """Something was said: the time begins anew."""
        self._since = self._loop.time()

    def pause(self) -> None:
        """The agent is kept waiting, until `heard`: that is no silence of its own."""
        self._since = float("inf")

    def _look(self) -> None:
        now = self._loop.time()
        if now - self._since >= self._seconds:
            self._limit.reschedule(now)
            self._over()
        else:
            self._timer = self._loop.call_at(min(self._since, now) + self._seconds, self._look)
