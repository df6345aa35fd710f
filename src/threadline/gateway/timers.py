"""Calls that come later. Most never do: what they wait for is over long before."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Final, TypeAlias

from threadline.log import get_logger

log = get_logger(__name__)

# With fewer that were taken back it is not worth the while to look for them.
_FEW: Final = 100


class Timer:
    """A call that is to come, until it is taken back."""

    __slots__ = ("_timers", "call")

    def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
        self._timers = timers
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """It does not come any more. Nothing happens where it has come, or was taken back before."""
        if self.call is not None:
            self.call = None
            self._timers.taken_back()


# Sets a timer: see `Timers.after`.
After: TypeAlias = Callable[[float, Callable[[], None]], Timer]


class Timers:
    """Any number of timers for one of the event loop's: every turn sets some, and takes them back a moment later.

    The loop's timer stands at the earliest of them, or at one that was: then it is set anew when it comes.
    """

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Timer]] = []
        self._order: Final = count()
        self._taken_back = 0
        self._next: asyncio.TimerHandle | None = None
        self._next_at = inf

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls in so many seconds, of those for the same moment the first first."""
        loop = asyncio.get_running_loop()
        at, timer = loop.time() + seconds, Timer(self, call)
        heapq.heappush(self._due, (at, next(self._order), timer))
        if at < self._next_at:
            self._set(loop, at)
        return timer

    def taken_back(self) -> None:
        """One more of them will not come. They are let go in time, however far off they were."""
        self._taken_back += 1
        if self._taken_back > _FEW and self._taken_back * 2 > len(self._due):
            self._due = [due for due in self._due if due[2].call is not None]
            heapq.heapify(self._due)
            self._taken_back = 0

    def clear(self) -> None:
        """None of them comes any more."""
        for *_, timer in self._due:
            timer.call = None
        self._due, self._taken_back = [], 0
        if self._next is not None:
            self._next.cancel()
        self._next, self._next_at = None, inf

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next_at = at
        self._next = loop.call_at(at, self._come)

    def _come(self) -> None:
        loop = asyncio.get_running_loop()
        self._next, self._next_at = None, inf
        # Those that are due now: what they set in turn is for the next time.
        now, due = loop.time(), []
        while self._due and (self._due[0][0] <= now or self._due[0][2].call is None):
            due.append(heapq.heappop(self._due)[2])
        if self._due:
            self._set(loop, self._due[0][0])
        for timer in due:
            call, timer.call = timer.call, None
            if call is None:
                self._taken_back = max(0, self._taken_back - 1)
            else:
                self._make(call)

    def _make(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            # The others come all the same.
            log.exception("timer.failed")
