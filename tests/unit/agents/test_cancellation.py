"""Events until nobody waits for them any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import pytest

from threadline.agents.cancellation import until_cancelled
from threadline.testing.contracts.agents import PATIENCE

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


async def forever(said: str = "a", closed: list[str] | None = None) -> AsyncGenerator[str, None]:
    try:
        yield said
        await asyncio.Event().wait()
    finally:
        if closed is not None:
            closed.append(said)


def test_without_a_cancellation_everything_passes() -> None:
    async def three() -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number

    async def taken() -> list[int]:
        return [number async for number in until_cancelled(three(), asyncio.Event())]

    assert run(taken()) == [0, 1, 2]


def test_a_wait_ends_with_the_cancellation_and_what_waited_is_closed() -> None:
    closed: list[str] = []

    async def taken() -> list[str]:
        cancelled = asyncio.Event()
        heard = []
        async for event in until_cancelled(forever(closed=closed), cancelled):
            heard.append(event)
            asyncio.get_running_loop().call_soon(cancelled.set)
        return heard

    assert run(taken()) == ["a"]
    assert closed == ["a"]


def test_nothing_is_begun_for_nobody() -> None:
    begun: list[str] = []

    async def begin() -> AsyncGenerator[str, None]:
        begun.append("begun")
        yield "a"

    async def taken() -> list[str]:
        cancelled = asyncio.Event()
        cancelled.set()
        return [event async for event in until_cancelled(begin(), cancelled, grace=PATIENCE)]

    assert run(taken()) == []
    assert begun == []


def test_a_grace_leaves_time_for_the_last_words() -> None:
    async def taken() -> tuple[list[str], list[str]]:
        cancelled, told = asyncio.Event(), []

        async def parting() -> AsyncGenerator[str, None]:
            yield "a"
            await cancelled.wait()
            for word in ("last", "words"):
                await asyncio.sleep(0)
                yield word

        heard = []
        async for event in until_cancelled(
            parting(), cancelled, grace=PATIENCE, on_cancelled=lambda: told.append("told")
        ):
            heard.append(event)
            cancelled.set()
        return heard, told

    assert run(taken()) == (["a", "last", "words"], ["told"])


def test_a_time_out_of_its_own_is_not_taken_for_a_cancellation() -> None:
    async def too_slow() -> AsyncGenerator[str, None]:
        yield "a"
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    async def taken() -> list[str]:
        return [event async for event in until_cancelled(too_slow(), asyncio.Event())]

    with pytest.raises(TimeoutError):
        run(taken())


def test_the_callers_own_cancellation_goes_through_and_leaves_nothing_open() -> None:
    closed: list[str] = []

    async def taken() -> None:
        async def take() -> None:
            async for _ in until_cancelled(forever(closed=closed), asyncio.Event()):
                started.set()

        started = asyncio.Event()
        task = asyncio.create_task(take())
        await started.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(taken())
    assert closed == ["a"]


def test_who_ignores_the_end_is_not_asked_again() -> None:
    async def stubborn() -> AsyncGenerator[str, None]:
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "b"
        yield "c"

    async def taken() -> list[str]:
        cancelled = asyncio.Event()
        heard = []
        async for event in until_cancelled(stubborn(), cancelled):
            heard.append(event)
            asyncio.get_running_loop().call_soon(cancelled.set)
        return heard

    assert run(taken()) == ["a", "b"]


def test_a_cancellation_that_comes_when_all_is_said_is_nobodys() -> None:
    async def taken() -> list[str]:
        cancelled, told = asyncio.Event(), []

        async def one() -> AsyncGenerator[str, None]:
            yield "a"

        events = until_cancelled(one(), cancelled, grace=PATIENCE, on_cancelled=lambda: told.append("told"))
        heard = [event async for event in events]
        cancelled.set()
        await asyncio.sleep(0.01)
        return heard + told

    assert run(taken()) == ["a"]


def test_each_event_may_be_awaited_in_a_task_of_its_own() -> None:
    async def taken() -> list[str]:
        cancelled = asyncio.Event()
        events = until_cancelled(forever(), cancelled)
        heard = [await asyncio.wait_for(anext(events), PATIENCE)]
        waiting = asyncio.ensure_future(anext(events, "ended"))
        await asyncio.sleep(0)
        cancelled.set()
        return [*heard, await waiting]

    assert run(taken()) == ["a", "ended"]
