"""Steps of callers on an event loop: carried out beside each other, each with an outcome of its own."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from threadline import StoreClosed
from threadline.store.engine.group_commit import ReaderPool


def pool_of(max_threads: int) -> ReaderPool:
    """A pool whose steps are plain functions."""

    def perform(step: Callable[[], object]) -> object:
        return step()

    return ReaderPool(perform, max_threads=max_threads, name="pool")


def test_steps_run_beside_each_other_and_no_more_at_once_than_there_are_threads() -> None:
    pool, together, running, most = pool_of(3), threading.Barrier(3), [0], [0]
    mutex = threading.Lock()

    def step() -> int:
        with mutex:
            running[0] += 1
            most[0] = max(most[0], running[0])
        # Three have to meet here, six times over: with fewer threads nobody would get past it.
        place = together.wait(10)
        with mutex:
            running[0] -= 1
        return place

    async def all_of_them() -> list[int]:
        places: list[int] = await asyncio.gather(*(pool.perform_async(step) for _ in range(18)))
        return places

    assert sorted(asyncio.run(all_of_them())) == sorted([0, 1, 2] * 6)
    assert most == [3]
    pool.close()


def test_an_error_is_heard_by_its_own_caller_alone() -> None:
    pool = pool_of(1)

    def fail() -> None:
        raise ValueError("this one")

    async def several() -> list[object]:
        asked = [pool.perform_async(step) for step in (lambda: 1, fail, lambda: 2)]
        outcomes: list[object] = await asyncio.gather(*asked, return_exceptions=True)
        return outcomes

    one, error, two = asyncio.run(several())
    assert (one, two) == (1, 2)
    assert isinstance(error, ValueError)
    pool.close()


def test_what_was_asked_for_before_the_end_is_done_and_nothing_after_it() -> None:
    pool, go_on = pool_of(1), threading.Event()

    async def over() -> list[int]:
        asked = [pool.perform_async(lambda n=n: (go_on.wait(10), n)[1]) for n in range(3)]
        closing = threading.Thread(target=pool.close)
        closing.start()
        while not pool._executor._shutdown:  # noqa: ASYNC110 - there is nothing else to see of it
            await asyncio.sleep(0.001)
        with pytest.raises(StoreClosed):
            pool.perform_async(lambda: 0)
        go_on.set()
        done = await asyncio.gather(*asked)
        closing.join()
        return done

    assert asyncio.run(over()) == [0, 1, 2]


def test_who_waits_no_longer_is_in_nobodys_way() -> None:
    pool, go_on = pool_of(1), threading.Event()

    async def given_up() -> str:
        first = pool.perform_async(lambda: go_on.wait(10))
        second: asyncio.Future[str] = pool.perform_async(lambda: "still there")
        first.cancel()
        go_on.set()
        return await second

    assert asyncio.run(given_up()) == "still there"
    pool.close()


def test_what_was_given_up_before_it_began_is_not_done() -> None:
    pool, go_on, done = pool_of(1), threading.Event(), threading.Event()

    async def given_up() -> bool:
        first: asyncio.Future[bool] = pool.perform_async(lambda: go_on.wait(10))
        pool.perform_async(done.set).cancel()
        last: asyncio.Future[bool] = pool.perform_async(done.is_set)
        go_on.set()
        return await first and await last

    assert asyncio.run(given_up()) is False
    pool.close()


def test_an_idle_thread_holds_nothing_of_what_it_did() -> None:
    class Result:
        pass

    pool = pool_of(1)

    async def kept() -> weakref.ref[Result]:
        return weakref.ref(await pool.perform_async(Result))

    result = asyncio.run(kept())
    deadline = time.monotonic() + 10
    while result() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    assert result() is None
    pool.close()


def test_a_loop_that_ends_first_harms_nobody() -> None:
    pool, go_on, done = pool_of(1), threading.Event(), threading.Event()

    def step() -> None:
        go_on.wait(10)
        done.set()

    async def leave() -> None:
        pool.perform_async(step)

    asyncio.run(leave())
    go_on.set()
    assert done.wait(10)

    async def another() -> int:
        seven: int = await pool.perform_async(lambda: 7)
        return seven

    assert asyncio.run(another()) == 7
    pool.close()
