"""Blocking code of others, run in a thread of its own and stepped from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import msgspec

from threadline.log import get_logger

log = get_logger(__name__)


class _Ended(msgspec.Struct, frozen=True):
    """Nothing comes after this; `error` is what the code raised."""

    error: BaseException | None = None


async def stepped(call: Callable[[], object]) -> AsyncGenerator[object, None]:
    """What `call` returns, or each item where that is an iterator; what it raises is raised here.

    An iterator takes a step only when the next item is asked for, and is closed in its own thread. Closing this generator
    does not wait for the thread: code that never comes back keeps its thread, and nothing else. The thread is a daemon, so
    it does not keep the process from ending either.
    """
    work = _Work(call, asyncio.get_running_loop())
    threading.Thread(target=work.run, name="threadline-agent", daemon=True).start()
    try:
        while True:
            item = await work.items.get()
            if not isinstance(item, _Ended):
                yield item
                work.wanted.release()
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        work.is_left = True
        work.wanted.release()


class _Work:
    """The thread's side. Only `items` is touched by the event loop's side, through the loop itself."""

    def __init__(self, call: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._call: Final = call
        self._loop: Final = loop
        self.items: Final[asyncio.Queue[object]] = asyncio.Queue()
        self.wanted: Final = threading.Semaphore(0)
        self.is_left = False

    def run(self) -> None:
        """Everything that happens in the thread."""
        try:
            self._step_through(self._call())
        except BaseException as error:  # noqa: BLE001  # carried over to the turn, which raises it
            self._end(_Ended(error))
        else:
            self._end(_Ended())

    def _step_through(self, result: object) -> None:
        if not isinstance(result, Iterator):
            self._hand_over(result)
            return
        try:
            for item in result:
                self._hand_over(item)
                self.wanted.acquire()
                if self.is_left:
                    return
        finally:
            close = getattr(result, "close", None)
            if callable(close):
                close()

    def _end(self, ended: _Ended) -> None:
        if self.is_left and ended.error is not None:
            log.warning("agent.failed_after_stop", error=type(ended.error).__name__)
        self._hand_over(ended)

    def _hand_over(self, item: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)
        except RuntimeError:
            # The loop is closed: nobody is left to tell.
            self.is_left = True
