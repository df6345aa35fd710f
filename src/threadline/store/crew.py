"""Threads that carry out steps for callers on an event loop, any number at once.

An executor of the standard library does that too. Its futures, which any thread may wait for, cost several times what a
short read does; here the one who waits is always a loop, and is told by its bell.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from threadline.errors import StoreClosed
from threadline.store.doorbell import Bells
from threadline.store.lane import Job


class Crew:
    """So many threads at most, started as they are needed. They do not keep a program from ending."""

    def __init__(self, perform: Callable[[Any], Any], bells: Bells, *, most: int, name: str) -> None:
        """`perform` carries a step out, blocking."""
        self._perform = perform
        self._bells = bells
        self._most = most
        self._name = name
        self._mutex = threading.Lock()
        self._threads: list[threading.Thread] = []
        # Those that wait and those that are being carried out.
        self._open = 0
        self._closed = False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Carries a step out; the future is the running event loop's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = Job(step, self._bells.of(loop), future)
        with self._mutex:
            if self._closed:
                raise StoreClosed
            if self._open >= len(self._threads) < self._most:
                self._start()
            self._open += 1
            self._jobs.put(job)
        return future

    def close(self) -> None:
        """Refuses more, and returns once all that was asked for is done, or refused by who performs it."""
        with self._mutex:
            self._closed = True
            threads, self._threads = self._threads, []
            for _ in threads:
                self._jobs.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            # Nobody wants what its caller has given up meanwhile.
            if not job.is_given_up:
                try:
                    job.result = self._perform(job.step)
                except BaseException as cause:  # noqa: BLE001 - handed to whoever awaits it
                    job.error = cause
                if job.bell is not None:
                    job.bell.ring(job.settle_future)
            with self._mutex:
                self._open -= 1
            # It holds what was read, and its caller's loop: an idle thread has no use for either.
            del job
