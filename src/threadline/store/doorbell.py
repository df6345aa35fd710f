"""How a thread tells the callers on an event loop that their outcomes are there.

`call_soon_threadsafe` does that too, by way of a socket that the loop then reads twice. A pipe of our own, for all callers
of a loop, is read once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary


class Doorbell:
    """One loop's. Made on the loop's thread, rung from any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A loop that ends before the store does takes its bell along.
        self.loop = weakref.ref(loop)
        self._calls: deque[Callable[[], None]] = deque()
        self._mutex = threading.Lock()
        self._closed = True
        self._read, self._write = os.pipe()
        self._closed = False
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        loop.add_reader(self._read, self._answer)

    def ring(self, call: Callable[[], None]) -> None:
        """Has the loop make this call. Where the loop is no more, nobody waits for it."""
        self._calls.append(call)
        with self._mutex:
            is_up = not self._closed
            if is_up:
                # Full: it has been rung thousands of times, and will be answered.
                with suppress(BlockingIOError):
                    os.write(self._write, b"\0")
        if not is_up:
            self._ask(self._make_calls)

    def dismiss(self) -> None:
        """Takes the bell down once all that it was rung for has been done. From any thread."""
        if not self._ask(self._take_down):
            self._close()

    def _ask(self, call: Callable[[], None]) -> bool:
        """Has the loop make a call the slow way; false where the loop is no more."""
        loop = self.loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(call)
        except RuntimeError:
            # It was closed.
            return False
        return loop is not None

    def _answer(self) -> None:
        os.read(self._read, 65_536)
        self._make_calls()

    def _make_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _take_down(self) -> None:
        if not self._closed:
            asyncio.get_running_loop().remove_reader(self._read)
            self._close()
        self._make_calls()

    def _close(self) -> None:
        with self._mutex:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)

    def __del__(self) -> None:
        self._close()


class Bells:
    """The bells of one store: one for each loop that uses it, put up the first time."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Doorbell] = WeakKeyDictionary()
        self._last: Doorbell | None = None

    def of(self, loop: asyncio.AbstractEventLoop) -> Doorbell:
        """The bell of a loop. Called on the loop's thread."""
        last = self._last
        if last is not None and last.loop() is loop:
            return last
        with self._mutex:
            bell = self._of_loops.get(loop)
            if bell is None:
                bell = self._of_loops[loop] = Doorbell(loop)
            self._last = bell
            return bell

    def dismiss(self) -> None:
        """Takes all of them down; see `Doorbell.dismiss`."""
        with self._mutex:
            bells, self._last = list(self._of_loops.values()), None
            self._of_loops.clear()
        for bell in bells:
            bell.dismiss()
