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
RunBatch: TypeAlias = Callable[[Sequence["QueuedStep"]], None]
_PENDING: Any = object()


class QueuedStep:
    """One step in the queue, and its outcome."""

    __slots__ = ("_future", "_wakeup", "error", "loop", "must_lead", "result", "size", "step")

    def __init__(self, step: Any, future: asyncio.Future[Any] | None = None) -> None:
        self.step = step
        self.size: int = getattr(step, "size", 0)
        self.result: Any = _PENDING
        self.error: BaseException | None = None
        self.must_lead = False
        # The event loop that waits for this step; None for a blocking caller.
        self.loop = None if future is None else future.get_loop()
        self._future = future
        self._wakeup: threading.Lock | None = None

    @property
    def is_done(self) -> bool:
        """Whether its outcome is known."""
        return self.error is not None or self.result is not _PENDING

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller, on an event loop, was cancelled."""
        return self._future is not None and self._future.cancelled()

    def arm_wakeup(self) -> None:
        """Prepare for `wait_for_wakeup`. Called under the queue's lock."""
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    def wait_for_wakeup(self) -> None:
        """Block until the step is done or its caller is made leader."""
        assert self._wakeup is not None  # noqa: S101 - arm_wakeup came first
        self._wakeup.acquire()

    def wake_up(self) -> None:
        """Let a blocking caller continue. A second call does no harm."""
        if self._wakeup is not None and self._wakeup.locked():
            self._wakeup.release()

    def resolve_future(self) -> None:
        """Hand the outcome to an awaiting caller, on its own loop's thread."""
        future = self._future
        if future is None or future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.result)

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommitQueue:
    """Runs steps in the order of their arrival, in batches, one batch at a time. Each batch is one commit.

    A blocking caller leads: it runs its own batch and then makes the next waiting caller the leader. Where only awaiting callers
    are left, the queue's own thread leads.
    """

    def __init__(self, run_batch: RunBatch, name: str) -> None:
        """`run_batch` gives every step an outcome (result or error) and raises only if the writer is lost.

        Where a signal's exception (`KeyboardInterrupt`) strikes it, steps that it left without an outcome have changed nothing.
        """
        self._run_batch = run_batch
        self._mutex = threading.Lock()
        self._queue: deque[QueuedStep] = deque()
        self._running: list[QueuedStep] = []
        self._busy = False
        self._leader: QueuedStep | None = None
        self._closed = False
        self._stopping = False
        self._failure: BaseException | None = None
        self._idle = threading.Condition(self._mutex)
        # Locked; released to pass the lead to the queue's thread. Half the latency of a semaphore.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._name = name
        self._thread: threading.Thread | None = None

    def perform(self, step: Any) -> Any:
        """Run the step, blocking until it is durable."""
        queued = QueuedStep(step)
        try:
            with self._mutex:
                self._require_open()
                is_alone = not self._busy
                if is_alone:
                    self._busy, self._leader, self._running = True, queued, [queued]
                else:
                    self._queue.append(queued)
                    queued.arm_wakeup()
            if is_alone:
                self._run_single(queued)
            else:
                queued.wait_for_wakeup()
                if queued.must_lead:
                    self._run_batches(queued)
        except BaseException:
            self._abandon(queued)
            raise
        return queued.outcome()

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Run the step on the queue's thread; the future is the running event loop's."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queued = QueuedStep(step, future)
        with self._mutex:
            self._require_open()
            starts = not self._busy
            if starts:
                self._ensure_thread()
                self._busy = True
            self._queue.append(queued)
        if starts:
            self._wake.release()
        return future

    def close(self) -> None:
        """Wait for the running and waiting steps, then refuse new ones."""
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
        if self._failure is not None:
            raise StoreUnavailable("the store's writer stopped; close the store and open it again") from self._failure
        if self._closed:
            raise StoreClosed

    def _run_single(self, own: QueuedStep) -> None:
        """Run the step of a caller who found the queue empty, without a pass through the queue."""
        try:
            self._run_batch(self._running)
        except Exception as cause:  # noqa: BLE001 - everyone is told, the leader through its own job
            self._fail_all(cause)
            return
        self._end_lead(own)

    def _run_batches(self, own: QueuedStep | None) -> None:
        """Run batches until `own` is done (or, with none, until nothing waits), then pass the lead on."""
        while True:
            batch = self._next_batch()
            try:
                self._run_batch(batch)
            except Exception as cause:  # noqa: BLE001 - everyone is told, the leader through its own job
                self._fail_all(cause)
                return
            self._deliver_outcomes(batch, own)
            if (own is not None or not self._queue) and self._end_lead(own):
                return

    def _next_batch(self) -> list[QueuedStep]:
        """Return the next batch."""
        with self._mutex:
            queue = self._queue
            # Each step is always in one of both lists: a signal that strikes in between must not lose others' steps.
            batch: list[QueuedStep] = []
            self._running = batch
            size = 0
            while queue and len(batch) < MAX_OPERATIONS:
                queued = queue[0]
                size += queued.size
                if batch and size > MAX_BYTES:
                    break
                batch.append(queued)
                queue.popleft()
            return batch

    def _deliver_outcomes(self, batch: Sequence[QueuedStep], own: QueuedStep | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[QueuedStep]] = {}
        for queued in batch:
            if queued.loop is not None:
                by_loop.setdefault(queued.loop, []).append(queued)
            elif queued is not own:
                queued.wake_up()
        for loop, steps in by_loop.items():
            # A loop may have been closed while its callers waited; their steps are stored all the same.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve_futures, steps)

    def _end_lead(self, own: QueuedStep | None) -> bool:
        with self._mutex:
            self._running = []
            if self._queue and own is None:
                return False
            for queued in self._queue:
                if queued.loop is None:
                    self._leader, queued.must_lead = queued, True
                    queued.wake_up()
                    return True
            self._hand_to_thread()
        return True

    def _hand_to_thread(self) -> None:
        """Free the queue, or hand it to its own thread where a step waits. Called under the queue's lock."""
        self._leader = None
        if self._queue:
            self._ensure_thread()
            self._wake.release()
            return
        self._busy = False
        if self._closed:
            # Only `close` waits for that.
            self._idle.notify_all()

    def _abandon(self, own: QueuedStep) -> None:
        """Leave after a signal struck the caller: drop its own step if possible, and let the steps that it led for others go on."""
        with self._mutex:
            if own in self._queue:
                self._queue.remove(own)
            if self._leader is not own:
                return
            batch, self._running = self._running, []
            undone = [
                queued for queued in batch if not queued.is_done and queued is not own and queued not in self._queue
            ]
            self._queue.extendleft(reversed(undone))
            self._hand_to_thread()
        self._deliver_outcomes([queued for queued in batch if queued.is_done], own)

    def _fail_all(self, cause: BaseException) -> None:
        """Fail all waiting steps, and all later ones, because the writer died."""
        with self._mutex:
            self._failure = cause
            failed = [*self._running, *self._queue]
            self._queue.clear()
            self._running = []
            self._busy, self._leader = False, None
            self._idle.notify_all()
        for queued in failed:
            if not queued.is_done:
                queued.error = StoreUnavailable("the store's writer stopped; close the store and open it again")
                queued.error.__cause__ = cause
        self._deliver_outcomes(failed, None)
        log.error("store.writer_lost", queue=self._name, error=repr(cause))

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        """Take the lead each time it is passed to this thread."""
        while True:
            self._wake.acquire()
            if self._stopping:
                return
            try:
                self._run_batches(None)
            except BaseException as cause:  # noqa: BLE001 - no caller is left to raise to; everyone is told
                self._fail_all(cause)
                return


def fail_pending(steps: Sequence[QueuedStep], error: ThreadlineError) -> None:
    """Set this error on the steps that have no outcome yet."""
    for queued in steps:
        if not queued.is_done:
            queued.error = error


def _resolve_futures(steps: Sequence[QueuedStep]) -> None:
    for queued in steps:
        queued.resolve_future()


class ReaderPool:
    """At most `max_threads` threads, started as they are needed."""

    def __init__(self, perform: Callable[[Any], Any], *, max_threads: int, name: str) -> None:
        """`perform` performs a step, blocking."""
        self._perform = perform
        self._name = name
        self._executor = ThreadPoolExecutor(max_threads, thread_name_prefix=name)

    def perform_async(self, step: Any) -> asyncio.Future[Any]:
        """Perform a step on a thread of the pool; the future is the running event loop's. Raise `StoreClosed` after `close`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            # Not run_in_executor: its second future costs more than a short read.
            self._executor.submit(self._run, QueuedStep(step, future))
        except RuntimeError as cause:
            raise StoreClosed from cause
        return future

    def close(self) -> None:
        """Refuse more steps, and return once all that were accepted are done."""
        # A step may close the store that it runs in; its own thread can't wait for itself.
        self._executor.shutdown(wait=not threading.current_thread().name.startswith(self._name))

    def _run(self, queued: QueuedStep) -> None:
        # Nobody wants the result of a step whose caller was cancelled.
        if queued.is_cancelled:
            return
        try:
            queued.result = self._perform(queued.step)
        except BaseException as cause:  # noqa: BLE001 - handed to the caller that awaits it
            queued.error = cause
        # The loop may have been closed while its caller waited.
        if queued.loop is not None:
            with suppress(RuntimeError):
                queued.loop.call_soon_threadsafe(queued.resolve_future)
