"""How an agent stops once nobody waits for its answer any more."""

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
    """What `events` yields, until it ends, or until `grace` seconds after `cancelled` is set.

    Nothing is started where `cancelled` is set from the beginning. `on_cancelled` is called once, when it is seen. However
    this ends, `events` is closed. It runs in the caller's own task and asks for the next event only when the caller does:
    what an agent announces can be stored before the agent goes on.
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
    """Ends a wait when the time after a cancellation is up. As long as nothing is cancelled an event costs no timer."""

    def __init__(self, cancelled: asyncio.Event, grace: float, on_cancelled: Callable[[], None] | None) -> None:
        self._cancelled = cancelled
        self._grace = grace
        self._notify_cancelled = on_cancelled
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._call_off = None if cancelled.is_set() else _when_set(cancelled, self._on_cancelled)
        # Who waits for an event just now, and how often it had been cancelled before.
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._has_expired = False

    async def aclose(self) -> None:
        """Nobody is watched for any more, and a cancellation that comes now is not seen."""
        self._ends_at = self._ends_at or 0.0
        if self._call_off is not None:
            self._call_off()
        if self._timer is not None:
            self._timer.cancel()

    def is_over(self) -> bool:
        """Whether the time that was left after the cancellation is up."""
        if not self._cancelled.is_set():
            return False
        self._on_cancelled()
        return asyncio.get_running_loop().time() >= (self._ends_at or 0.0)

    async def next_of(self, events: AsyncGenerator[T, None]) -> T | None:
        """The next event; none if there is none, or if the time was up first."""
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
        """Whether the cancellation of the task was this watch's doing and no other's. The wait is over with that."""
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
    """Calls `call` once the event, which is not set yet, is; what is returned calls that off.

    The wait is stepped by hand, as far as the future that it stands at: a task for it is the supervisor's alone to start,
    and to look at the event now and then instead costs as much as the events themselves.
    """
    waiting = event.wait()
    future: asyncio.Future[Any] = waiting.send(None)
    future.add_done_callback(lambda _: call())
    return waiting.close
