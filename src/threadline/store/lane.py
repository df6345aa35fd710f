"""Group commit: many callers, one writer, one commit for all that waits.

Leader and followers: a blocking caller who finds the lane free runs the batch on its own thread and so pays for no thread
hop; one who finds it taken waits, and is woken either with its outcome or as the next leader. Callers on an event loop are
served by a thread of the lane.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from threadline.errors import StoreClosed, StoreUnavailable
from threadline.log import get_logger
from threadline.store.database import BatchStep

log = get_logger(__name__)

MAX_OPERATIONS = 256
MAX_BYTES = 4 * 1024 * 1024


class Job:
    """One step on its way through the lane, and its outcome."""

    __slots__ = ("_future", "_loop", "_woken", "error", "promoted", "result", "size", "step")

    def __init__(
        self,
        step: Any,
        loop: asyncio.AbstractEventLoop | None = None,
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        self.step = step
        self.size: int = step.size if type(step) is BatchStep else 0
        self.result: Any = None
        self.error: BaseException | None = None
        self.promoted = False
        self._loop = loop
        self._future = future
        self._woken: threading.Lock | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that waits for this job; `None` for a blocking caller."""
        return self._loop

    def prepare_to_wait(self) -> None:
        """Called under the lane's lock by a caller who is about to wait."""
        self._woken = threading.Lock()
        self._woken.acquire()

    def wait(self) -> None:
        """Blocks until the job is settled or its caller is made leader."""
        assert self._woken is not None  # noqa: S101 - prepare_to_wait came first
        self._woken.acquire()

    def wake(self) -> None:
        """Lets a blocking caller go on."""
        if self._woken is not None:
            self._woken.release()

    def settle_future(self) -> None:
        """Hands the outcome to an awaiting caller, on its own loop's thread."""
        future = self._future
        if future is None or future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.result)

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result


class Lane:
    """Serves jobs in the order of their arrival, in batches, one batch at a time."""

    def __init__(self, run_batch: Callable[[Sequence[Job]], None], name: str) -> None:
        """`run_batch` settles every job that it is given (result or error) and raises only if the lane is lost."""
        self._run_batch = run_batch
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()
        self._busy = False
        self._closed = False
        self._stopping = False
        self._lost: BaseException | None = None
        self._idle = threading.Condition(self._mutex)
        self._wake = threading.Semaphore(0)
        self._name = name
        self._thread: threading.Thread | None = None

    def perform(self, step: Any) -> Any:
        """Runs the step, blocking until it is durable."""
        job = Job(step)
        with self._mutex:
            self._admit(job)
            leads = not self._busy
            if leads:
                self._busy = True
            else:
                job.prepare_to_wait()
        if not leads:
            job.wait()
            leads = job.promoted
        if leads:
            self._lead(job)
        return job.outcome()

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Runs the step on the lane's thread; the future is the running event loop's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = Job(step, loop, future)
        with self._mutex:
            self._admit(job)
            starts = not self._busy
            if starts:
                self._busy = True
                self._ensure_thread()
        if starts:
            self._wake.release()
        return future

    def close(self) -> None:
        """Lets the running and waiting jobs finish, then refuses new ones."""
        with self._mutex:
            self._closed = True
            while self._busy:
                self._idle.wait()
            thread, self._thread = self._thread, None
            self._stopping = True
        if thread is not None and thread is not threading.current_thread():
            self._wake.release()
            thread.join()

    def _admit(self, job: Job) -> None:
        if self._lost is not None:
            raise StoreUnavailable("the store's writer stopped; close the store and open it again") from self._lost
        if self._closed:
            raise StoreClosed
        self._queue.append(job)

    def _lead(self, own: Job | None) -> None:
        """Runs batches until `own` is settled (or, with none, until nothing waits), then passes the lead on."""
        while True:
            batch = self._take()
            try:
                self._run_batch(batch)
            except BaseException as cause:
                self._give_up(batch, cause)
                raise
            self._settle(batch, own)
            if self._released(own):
                return

    def _take(self) -> list[Job]:
        with self._mutex:
            queue = self._queue
            batch = [queue.popleft()]
            size = batch[0].size
            while queue and len(batch) < MAX_OPERATIONS and size + queue[0].size <= MAX_BYTES:
                job = queue.popleft()
                size += job.size
                batch.append(job)
            return batch

    def _settle(self, batch: Sequence[Job], own: Job | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in batch:
            if job.loop is not None:
                by_loop.setdefault(job.loop, []).append(job)
            elif job is not own:
                job.wake()
        for loop, jobs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle_futures, jobs)
            except RuntimeError:
                # That loop was closed while its callers waited; what they asked for is stored all the same.
                continue

    def _released(self, own: Job | None) -> bool:
        with self._mutex:
            if not self._queue:
                self._busy = False
                self._idle.notify_all()
                return True
            if own is None:
                return False
            for job in self._queue:
                if job.loop is None:
                    job.promoted = True
                    job.wake()
                    return True
            self._ensure_thread()
        self._wake.release()
        return True

    def _give_up(self, batch: Sequence[Job], cause: BaseException) -> None:
        """The writer died: everyone who waits hears it, and so does everyone who comes later."""
        with self._mutex:
            self._lost = cause
            waiting = [*batch, *self._queue]
            self._queue.clear()
            self._busy = False
            self._idle.notify_all()
        for job in waiting:
            if job.result is None and job.error is None:
                job.error = StoreUnavailable("the store's writer stopped; close the store and open it again")
        self._settle(waiting, None)

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        """Takes the lead each time it is passed to this thread."""
        while True:
            self._wake.acquire()
            if self._stopping:
                return
            try:
                self._lead(None)
            except BaseException as cause:  # noqa: BLE001 - everyone was told in _give_up; no caller is left to raise to
                log.error("store.writer_lost", lane=self._name, error=repr(cause))
                return


def _settle_futures(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle_future()

