"""How an agent stops once nobody waits for its answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_EVERY = 0.05


async def until_cancelled(
    events: AsyncGenerator[T, None],
    cancelled: asyncio.Event,
    *,
    grace: float = 0.0,
    on_cancelled: Callable[[], None] | None = None,
) -> AsyncGenerator[T, None]:
    """What `events` yields, until it ends, or until `grace` seconds after `cancelled` is set.

    Nothing is started where `cancelled` is set from the beginning. `on_cancelled` is called once, when it is seen. However
    this ends, `events` is closed. It runs in the caller's own task and asks for the next event only when the caller does:
    what an agent announces can be stored before the agent goes on.
    """
    async with aclosing(events):
        if cancelled.is_set():
            return
        watch = _Watch[T](cancelled, grace, on_cancelled)
        while not watch.is_over():
            event = await watch.next_of(events)
            if event is None:
                return
            yield event


class _Watch(Generic[T]):
    """Looks at `cancelled` while an event is awaited: an `asyncio.Event` calls nobody, and only the supervisor starts tasks."""

    def __init__(self, cancelled: asyncio.Event, grace: float, on_cancelled: Callable[[], None] | None) -> None:
        self._cancelled = cancelled
        self._grace = grace
        self._on_cancelled = on_cancelled
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def is_over(self) -> bool:
        """Whether the time that was left after the cancellation is up."""
        return self._end() is not None and asyncio.get_running_loop().time() >= (self._ends_at or 0.0)

    async def next_of(self, events: AsyncGenerator[T, None]) -> T | None:
        """The next event; none if there is none, or if the time was up first."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._look(limit)
                try:
                    return await anext(events, None)
                finally:
                    self._rest()
        except TimeoutError:
            if limit.expired():
                return None
            raise

    def _look(self, limit: asyncio.Timeout) -> None:
        if (end := self._end()) is not None:
            limit.reschedule(end)
        else:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look, limit)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> float | None:
        if self._ends_at is None and self._cancelled.is_set():
            self._ends_at = asyncio.get_running_loop().time() + self._grace
            if self._on_cancelled is not None:
                self._on_cancelled()
        return self._ends_at
