"""Ends the event stream of an agent after its turn was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def until_cancelled(
    events: AsyncGenerator[T, None],
    cancelled: asyncio.Event,
    *,
    grace: float = 0.0,
    on_cancelled: Callable[[], None] | None = None,
) -> AsyncGenerator[T, None]:
    """Yield the items of `events` until it ends, or until `grace` seconds after `cancelled` is set.

    If `cancelled` is already set, nothing is started. `on_cancelled` is called once, when the cancellation is noticed. However
    the generator ends, `events` is closed. It runs in the task of the caller and takes the next event only when the caller
    asks: an event can be stored before the agent continues.
    """
    async with aclosing(events), aclosing(_CancellationWatch[T](cancelled, grace, on_cancelled)) as watch:
        if cancelled.is_set():
            return
        while not watch.is_over():
            event = await watch.next_of(events)
            if event is None:
                return
            yield event


class _CancellationWatch(Generic[T]):
    """Ends the wait for an event when the grace period after a cancellation is over. Until a cancellation no timer is set."""

    def __init__(self, cancelled: asyncio.Event, grace: float, on_cancelled: Callable[[], None] | None) -> None:
        self._cancelled = cancelled
        self._grace = grace
        self._notify_cancelled = on_cancelled
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._call_off = None if cancelled.is_set() else _when_set(cancelled, self._on_cancelled)
        # The task that waits for an event now, and how often that task had been cancelled before.
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._has_expired = False

    async def aclose(self) -> None:
        """Stop watching. A cancellation that comes later is ignored."""
        self._ends_at = self._ends_at or 0.0
        if self._call_off is not None:
            self._call_off()
        if self._timer is not None:
            self._timer.cancel()

    def is_over(self) -> bool:
        """Return whether the grace period after the cancellation is over."""
        if not self._cancelled.is_set():
            return False
        self._on_cancelled()
        return asyncio.get_running_loop().time() >= (self._ends_at or 0.0)

    async def next_of(self, events: AsyncGenerator[T, None]) -> T | None:
        """Return the next event, or None if the stream has ended or the grace period was over first."""
        self._task = task = asyncio.current_task()
        self._cancelling = 0 if task is None else task.cancelling()
        try:
            return await events.__anext__()
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self._take_expiry():
                return None
            raise
        finally:
            self._take_expiry()

    def _take_expiry(self) -> bool:
        """Return whether this watch, and nobody else, cancelled the task. End the wait."""
        task, self._task = self._task, None
        if task is None or not self._has_expired:
            return False
        self._has_expired = False
        return task.uncancel() <= self._cancelling

    def _on_cancelled(self) -> None:
        if self._ends_at is not None:
            return
        loop = asyncio.get_running_loop()
        self._ends_at = loop.time() + self._grace
        self._timer = loop.call_at(self._ends_at, self._expire)
        if self._notify_cancelled is not None:
            self._notify_cancelled()

    def _expire(self) -> None:
        if self._task is not None:
            self._has_expired = True
            self._task.cancel()


def _when_set(event: asyncio.Event, call: Callable[[], None]) -> Callable[[], object]:
    """Call `call` once the event, which is not set yet, is set; return a function that cancels this.

    The coroutine of `event.wait()` is driven by hand up to its future. A task for it could be started by the supervisor alone,
    and polling the event costs as much as the agent events themselves.
    """
    waiting = event.wait()
    future: asyncio.Future[Any] = waiting.send(None)
    future.add_done_callback(lambda _: call())
    return waiting.close
