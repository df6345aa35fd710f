"""Threads for steps: a queue whose writers share a commit, and a pool of readers."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias

from threadline.errors import StoreClosed, StoreUnavailable, ThreadlineError
from threadline.log import get_logger

log = get_logger(__name__)
MAX_OPERATIONS = 256
MAX_BYTES = 4 * 1024 * 1024
RunBatch: TypeAlias = Callable[[Sequence["Job"]], None]
_PENDING: Any = object()


class Job:
    """One step on its way through the lane, and its outcome."""

    __slots__ = ("_future", "_woken", "error", "loop", "promoted", "result", "size", "step")

    def __init__(self, step: Any, future: asyncio.Future[Any] | None = None) -> None:
        self.step = step
        self.size: int = getattr(step, "size", 0)
        self.result: Any = _PENDING
        self.error: BaseException | None = None
        self.promoted = False
        # The event loop that waits for this job; None for a blocking caller.
        self.loop = None if future is None else future.get_loop()
        self._future = future
        self._woken: threading.Lock | None = None

    @property
    def settled(self) -> bool:
        """Whether its outcome is known."""
        return self.error is not None or self.result is not _PENDING

    @property
    def is_given_up(self) -> bool:
        """Whether its caller, on an event loop, waits no longer."""
        return self._future is not None and self._future.cancelled()

    def prepare_to_wait(self) -> None:
        """Called under the lane's lock by a caller who is about to wait."""
        self._woken = threading.Lock()
        self._woken.acquire()

    def wait(self) -> None:
        """Blocks until the job is settled or its caller is made leader."""
        assert self._woken is not None  # noqa: S101 - prepare_to_wait came first
        self._woken.acquire()

    def wake(self) -> None:
        """Lets a blocking caller go on. Once more does no harm."""
        if self._woken is not None and self._woken.locked():
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

    def __init__(self, run_batch: RunBatch, name: str) -> None:
        """`run_batch` settles every job that it is given (result or error) and raises only if the lane is lost.

        Where a signal's exception (`KeyboardInterrupt`) strikes it, jobs that it left unsettled have changed nothing.
        """
        self._run_batch = run_batch
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()
        self._running: list[Job] = []
        self._busy = False
        self._leader: Job | None = None
        self._closed = False
        self._stopping = False
        self._lost: BaseException | None = None
        self._idle = threading.Condition(self._mutex)
        # A bare lock, held: whoever passes the lead to the lane's thread releases it. Half the latency of a semaphore.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._name = name
        self._thread: threading.Thread | None = None

    def perform(self, step: Any) -> Any:
        """Runs the step, blocking until it is durable."""
        job = Job(step)
        try:
            with self._mutex:
                self._require_open()
                alone = not self._busy
                if alone:
                    self._busy, self._leader, self._running = True, job, [job]
                else:
                    self._queue.append(job)
                    job.prepare_to_wait()
            if alone:
                self._lead_alone(job)
            else:
                job.wait()
                if job.promoted:
                    self._lead(job)
        except BaseException:
            self._leave(job)
            raise
        return job.outcome()

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Runs the step on the lane's thread; the future is the running event loop's."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = Job(step, future)
        with self._mutex:
            self._require_open()
            starts = not self._busy
            if starts:
                self._ensure_thread()
                self._busy = True
            self._queue.append(job)
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

    def _require_open(self) -> None:
        if self._lost is not None:
            raise StoreUnavailable("the store's writer stopped; close the store and open it again") from self._lost
        if self._closed:
            raise StoreClosed

    def _lead_alone(self, own: Job) -> None:
        """The shortest way for a caller whom nobody waits beside."""
        try:
            self._run_batch(self._running)
        except Exception as cause:  # noqa: BLE001 - everyone is told, the leader through its own job
            self._give_up(cause)
            return
        self._released(own)

    def _lead(self, own: Job | None) -> None:
        """Runs batches until `own` is settled (or, with none, until nothing waits), then passes the lead on."""
        while True:
            batch = self._take()
            try:
                self._run_batch(batch)
            except Exception as cause:  # noqa: BLE001 - everyone is told, the leader through its own job
                self._give_up(cause)
                return
            self._settle(batch, own)
            if (own is not None or not self._queue) and self._released(own):
                return

    def _take(self) -> list[Job]:
        """The next batch."""
        with self._mutex:
            queue = self._queue
            # Never out of both lists: a signal that strikes in between must not take others' jobs away.
            batch: list[Job] = []
            self._running = batch
            size = 0
            while queue and len(batch) < MAX_OPERATIONS:
                job = queue[0]
                size += job.size
                if batch and size > MAX_BYTES:
                    break
                batch.append(job)
                queue.popleft()
            return batch

    def _settle(self, batch: Sequence[Job], own: Job | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in batch:
            if job.loop is not None:
                by_loop.setdefault(job.loop, []).append(job)
            elif job is not own:
                job.wake()
        for loop, jobs in by_loop.items():
            # A loop may have been closed while its callers waited; what they asked for is stored all the same.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle_futures, jobs)

    def _released(self, own: Job | None) -> bool:
        with self._mutex:
            self._running = []
            if self._queue and own is None:
                return False
            for job in self._queue:
                if job.loop is None:
                    self._leader, job.promoted = job, True
                    job.wake()
                    return True
            self._pass_on()
        return True

    def _pass_on(self) -> None:
        """Frees the lane, or hands it to its own thread where something waits. Called under the lane's lock."""
        self._leader = None
        if self._queue:
            self._ensure_thread()
            self._wake.release()
            return
        self._busy = False
        if self._closed:
            # Nobody else waits for that.
            self._idle.notify_all()

    def _leave(self, own: Job) -> None:
        """A signal struck the caller: its own job is dropped if it can be, and what it led for others goes on."""
        with self._mutex:
            if own in self._queue:
                self._queue.remove(own)
            if self._leader is not own:
                return
            batch, self._running = self._running, []
            undone = [job for job in batch if not job.settled and job is not own and job not in self._queue]
            self._queue.extendleft(reversed(undone))
            self._pass_on()
        self._settle([job for job in batch if job.settled], own)

    def _give_up(self, cause: BaseException) -> None:
        """The writer died: everyone who waits hears it, and so does everyone who comes later."""
        with self._mutex:
            self._lost = cause
            waiting = [*self._running, *self._queue]
            self._queue.clear()
            self._running = []
            self._busy, self._leader = False, None
            self._idle.notify_all()
        for job in waiting:
            if not job.settled:
                job.error = StoreUnavailable("the store's writer stopped; close the store and open it again")
                job.error.__cause__ = cause
        self._settle(waiting, None)
        log.error("store.writer_lost", lane=self._name, error=repr(cause))

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
            except BaseException as cause:  # noqa: BLE001 - no caller is left to raise to; everyone is told
                self._give_up(cause)
                return


def fail_unsettled(jobs: Sequence[Job], error: ThreadlineError) -> None:
    """Those jobs whose outcome is not known yet end with this error."""
    for job in jobs:
        if not job.settled:
            job.error = error


def _settle_futures(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle_future()


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
