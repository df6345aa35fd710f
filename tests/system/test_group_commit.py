"""The queue of commits keeps its promises when callers, event loops or the writer itself fall away midway."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from threadline import SessionStore, StoreClosed, StoreUnavailable
from threadline.store.engine.database import Tx, batch, read
from threadline.store.engine.group_commit import GroupCommitQueue, QueuedStep
from threadline.testing import dm, user


class RecordingWriter:
    """Stores what it is told to. It can be held in the middle of a batch, and told how that batch ends.

    A batch that the `stuck` thread leads does not end at all, short of a signal.
    """

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.busy = threading.Event()
        self.stuck: threading.Thread | None = None
        self._go_on = threading.Event()
        self._go_on.set()
        self._ending: Callable[[], None] | None = None

    def hold(self, ending: Callable[[], None] | None = None) -> None:
        """The next batch waits for `release`, then ends with what `ending` raises, or well."""
        self._ending = ending
        self.busy.clear()
        self._go_on.clear()

    def release(self) -> None:
        self._go_on.set()

    def run(self, jobs: Sequence[QueuedStep]) -> None:
        ending, self._ending = self._ending, None
        self.busy.set()
        # Short waits: a signal is heard in between.
        while not self._go_on.wait(0.005) or threading.current_thread() is self.stuck:
            time.sleep(0.001)
        if ending is not None:
            ending()
        for job in jobs:
            self.stored.append(job.step)
            job.result = f"stored {job.step}"


@pytest.fixture
def writer() -> RecordingWriter:
    return RecordingWriter()


@pytest.fixture
def queue(writer: RecordingWriter) -> Iterator[GroupCommitQueue]:
    queue = GroupCommitQueue(writer.run, "queue-under-test")
    yield queue
    writer.release()
    queue.close()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def queue_up(queue: GroupCommitQueue, callers: ThreadPoolExecutor, steps: Sequence[str]) -> list[Future[Any]]:
    """Blocking callers who wait in this order."""
    waiting = []
    for step in steps:
        before = len(queue._queue)
        waiting.append(callers.submit(queue.perform, step))
        wait_until(lambda before=before: len(queue._queue) > before)  # type: ignore[misc]
    return waiting


@contextmanager
def interrupted_when(ready: Callable[[], bool]) -> Iterator[None]:
    """Sends this process's main thread what Ctrl-C sends, once `ready` holds."""

    def strike() -> None:
        wait_until(ready)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)


def dies() -> None:
    raise OSError("the disk fell out")


def test_when_the_writer_dies_every_waiter_and_every_later_caller_hears_it(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.hold(dies)
    leading = callers.submit(queue.perform, "a")
    assert writer.busy.wait(10)
    waiting = queue_up(queue, callers, ["b", "c"])
    writer.release()

    for future in (leading, *waiting):
        with pytest.raises(StoreUnavailable, match="open it again") as heard:
            future.result(10)
        assert isinstance(heard.value.__cause__, OSError)
    with pytest.raises(StoreUnavailable):
        queue.perform("d")
    assert writer.stored == []


def test_when_the_writer_dies_awaiting_callers_hear_it_too(queue: GroupCommitQueue, writer: RecordingWriter) -> None:
    async def main() -> list[Any]:
        writer.hold(dies)
        futures = [queue.perform_async("a"), queue.perform_async("b")]
        await asyncio.to_thread(writer.busy.wait, 10)
        futures.append(queue.perform_async("c"))
        writer.release()
        return await asyncio.gather(*futures, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3

    async def later() -> None:
        await queue.perform_async("d")

    with pytest.raises(StoreUnavailable):
        asyncio.run(later())


def test_what_was_stored_before_the_writer_died_is_not_denied(
    queue: GroupCommitQueue, callers: ThreadPoolExecutor
) -> None:
    def settles_one_and_dies(jobs: Sequence[QueuedStep]) -> None:
        jobs[0].result = None
        dies()

    half = GroupCommitQueue(settles_one_and_dies, "half")
    assert half.perform("a") is None
    half.close()


def test_an_interrupted_leader_leaves_the_others_jobs_to_be_done(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.stuck = threading.main_thread()
    waiting: list[Future[Any]] = []

    def others_wait() -> bool:
        assert writer.busy.wait(10)
        waiting.extend(queue_up(queue, callers, ["b", "c"]))
        return True

    with interrupted_when(others_wait):
        queue.perform("a")

    assert [future.result(10) for future in waiting] == ["stored b", "stored c"]
    assert callers.submit(queue.perform, "d").result(10) == "stored d"
    assert writer.stored == ["b", "c", "d"]


def test_an_interrupted_leader_takes_no_job_of_its_own_batch_with_it(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.stuck = threading.main_thread()
    writer.hold()
    first = callers.submit(queue.perform, "first")
    assert writer.busy.wait(10)
    waiting: list[Future[Any]] = []

    def main_leads_a_batch_of_three() -> bool:
        wait_until(lambda: len(queue._queue) == 1)
        waiting.extend(queue_up(queue, callers, ["b", "c"]))
        writer.release()
        wait_until(lambda: [job.step for job in queue._running] == ["main", "b", "c"])
        return True

    with interrupted_when(main_leads_a_batch_of_three):
        queue.perform("main")

    assert [future.result(10) for future in (first, *waiting)] == ["stored first", "stored b", "stored c"]
    assert writer.stored == ["first", "b", "c"]


def test_an_interrupted_follower_is_never_made_leader(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.hold()
    first = callers.submit(queue.perform, "first")
    assert writer.busy.wait(10)
    with interrupted_when(lambda: len(queue._queue) == 1):
        queue.perform("impatient")
    after = queue_up(queue, callers, ["later"])
    writer.release()

    assert first.result(10) == "stored first"
    assert after[0].result(10) == "stored later"
    assert writer.stored == ["first", "later"]


def test_a_cancelled_task_does_not_disturb_the_others(queue: GroupCommitQueue, writer: RecordingWriter) -> None:
    async def main() -> list[Any]:
        async def perform(step: str) -> Any:
            return await queue.perform_async(step)

        writer.hold()
        tasks = [asyncio.ensure_future(perform(step)) for step in "abc"]
        await asyncio.to_thread(writer.busy.wait, 10)
        tasks[1].cancel()
        writer.release()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert outcomes[0] == "stored a"
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert outcomes[2] == "stored c"


def test_a_closed_event_loop_does_not_stop_the_lane(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.hold()

    async def asks_and_leaves() -> None:
        queue.perform_async("forgotten")

    asyncio.run(asks_and_leaves())
    waiting = callers.submit(queue.perform, "b")
    writer.release()
    assert waiting.result(10) == "stored b"
    assert writer.stored == ["forgotten", "b"]


def test_close_waits_for_what_was_accepted_and_refuses_the_rest(
    queue: GroupCommitQueue, writer: RecordingWriter, callers: ThreadPoolExecutor
) -> None:
    writer.hold()
    accepted = [callers.submit(queue.perform, "a")]
    assert writer.busy.wait(10)
    accepted += queue_up(queue, callers, ["b", "c"])
    closing = callers.submit(queue.close)
    wait_until(lambda: queue._closed)
    with pytest.raises(StoreClosed):
        queue.perform("late")
    assert not closing.done()
    writer.release()

    closing.result(10)
    assert [future.result(10) for future in accepted] == ["stored a", "stored b", "stored c"]
    assert writer.stored == ["a", "b", "c"]


def test_a_batch_is_bounded_and_keeps_the_order(queue: GroupCommitQueue, writer: RecordingWriter) -> None:
    async def main() -> list[Any]:
        writer.hold()
        futures = [queue.perform_async(number) for number in range(1_000)]
        writer.release()
        return list(await asyncio.gather(*futures))

    assert asyncio.run(main()) == [f"stored {number}" for number in range(1_000)]
    assert writer.stored == list(range(1_000))


def test_ctrl_c_in_a_store_leaves_it_working_for_all_threads(location: str, callers: ThreadPoolExecutor) -> None:
    """With the real writers: what was interrupted is rolled back, the others' appends are stored once."""
    with SessionStore.open(location) as store:
        session = store.get_or_create_session(dm()).session_id
        queue: GroupCommitQueue = store.database._commit_queue  # type: ignore[attr-defined]
        struck = threading.Event()
        waiting: list[Future[Any]] = []

        def never_ends(tx: Tx, requests: Sequence[Any]) -> list[Any]:
            tx.run("set_meta", name="half", value="done")
            struck.set()
            while requests:
                time.sleep(0.005)
            return []

        def others_wait() -> bool:
            assert struck.wait(10)
            append = store.append_to_transcript
            waiting.extend(callers.submit(append, session, user(f"{turn}"), f"k{turn}") for turn in range(4))
            wait_until(lambda: len(queue._queue) == 4)
            return True

        with interrupted_when(others_wait):
            store.database.perform(batch(never_ends, "mine"))

        assert [future.result(10).count for future in waiting] == [1] * 4
        assert store.append_to_transcript(session, user("after")).count == 1
        assert sorted(str(m["content"]) for m in store.load_transcript(session)) == ["0", "1", "2", "3", "after"]
        assert store.database.perform(read(lambda tx: tx.find("find_meta", name="half"))) is None
        assert store.check().ok


def test_callers_of_a_batch_that_was_stored_hear_of_it_when_the_next_batch_fails() -> None:
    def fails_on_bad(jobs: Sequence[QueuedStep]) -> None:
        if any(job.step == "bad" for job in jobs):
            dies()
        for job in jobs:
            job.result = f"stored {job.step}"

    queue = GroupCommitQueue(fails_on_bad, "fails")

    async def many() -> list[Any]:
        steps = [*(f"step {n}" for n in range(40)), "bad"]
        return await asyncio.gather(*(queue.perform_async(step) for step in steps), return_exceptions=True)

    outcomes = asyncio.run(many())
    queue.close()
    assert len(outcomes) == 41
    assert isinstance(outcomes[-1], StoreUnavailable)
    assert all(isinstance(o, StoreUnavailable) or str(o).startswith("stored step") for o in outcomes)


def test_a_steady_stream_of_awaiting_callers_all_hear_in_order(
    queue: GroupCommitQueue, writer: RecordingWriter
) -> None:
    async def caller(n: int) -> list[Any]:
        return [await queue.perform_async(f"{n}.{turn}") for turn in range(50)]

    async def many() -> list[list[Any]]:
        return await asyncio.gather(*(caller(n) for n in range(16)))

    heard = asyncio.run(many())
    assert heard == [[f"stored {n}.{turn}" for turn in range(50)] for n in range(16)]
    assert len(writer.stored) == len(set(writer.stored)) == 800
