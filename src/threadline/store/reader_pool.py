"""Threads that perform steps for callers on an event loop, several at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from threadline.errors import StoreClosed
from threadline.store.lane import Job


class ReaderPool:
    """At most `max_threads` threads, started as they are needed."""

    def __init__(self, perform: Callable[[Any], Any], *, max_threads: int, name: str) -> None:
        """`perform` performs a step, blocking."""
        self._perform = perform
        self._name = name
        self._executor = ThreadPoolExecutor(max_threads, thread_name_prefix=name)

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Perform a step on a thread of the pool; the future is the running event loop's. `StoreClosed` after the end."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            # Not run_in_executor: its second future costs more than a short read.
            self._executor.submit(self._run, Job(step, future))
        except RuntimeError as cause:
            raise StoreClosed from cause
        return future

    def close(self) -> None:
        """Refuse more steps, and return once all that were accepted are done."""
        # A step may close the store that it runs in; its own thread can't wait for itself.
        self._executor.shutdown(wait=not threading.current_thread().name.startswith(self._name))

    def _run(self, job: Job) -> None:
        # Nobody wants the result of a step whose caller was cancelled.
        if job.is_given_up:
            return
        try:
            job.result = self._perform(job.step)
        except BaseException as cause:  # noqa: BLE001 - handed to the caller that awaits it
            job.error = cause
        # The loop may have been closed while its caller waited.
        if job.loop is not None:
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(job.settle_future)
