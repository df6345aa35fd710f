"""Timers that cost little: each comes in its time, once, in order, and not when it was taken back."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest
from tests.gateway.world import awaited

from threadline.gateway.timers import Timer, Timers


@awaited
async def test_each_comes_in_its_order_however_they_were_set() -> None:
    timers, over = Timers(), asyncio.Event()
    come: list[float] = []
    delays = [number / 1000 for number in range(40)]
    random.Random(1).shuffle(delays)
    for delay in delays:
        timers.after(delay, partial(come.append, delay))
    timers.after(0.05, over.set)
    await over.wait()
    assert come == sorted(delays)


@awaited
async def test_those_for_the_same_moment_come_as_they_were_set() -> None:
    timers, over = Timers(), asyncio.Event()
    come: list[int] = []
    for number in range(5):
        timers.after(0.0, partial(come.append, number))
    timers.after(0.001, over.set)
    await over.wait()
    assert come == list(range(5))


@awaited
async def test_none_comes_early() -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    until = loop.time() + 0.02
    Timers().after(0.02, over.set)
    await over.wait()
    assert loop.time() >= until


@awaited
async def test_what_was_taken_back_does_not_come_and_the_rest_does() -> None:
    timers, over = Timers(), asyncio.Event()
    come: list[str] = []
    first = timers.after(0.001, lambda: come.append("first"))
    timers.after(0.002, lambda: come.append("second"))
    timers.after(0.003, over.set)
    first.cancel()
    first.cancel()
    await over.wait()
    assert come == ["second"]


@awaited
async def test_one_that_comes_takes_back_another_that_is_due_as_well() -> None:
    timers, over = Timers(), asyncio.Event()
    come: list[str] = []
    rest: list[Timer] = []

    def take_back() -> None:
        for timer in rest:
            timer.cancel()

    timers.after(0.0, take_back)
    rest.append(timers.after(0.0, lambda: come.append("late")))
    timers.after(0.01, over.set)
    await over.wait()
    assert come == []


@awaited
async def test_what_comes_may_set_the_next() -> None:
    timers, over = Timers(), asyncio.Event()
    left = [3]

    def again() -> None:
        left[0] -= 1
        if left[0]:
            timers.after(0.001, again)
        else:
            over.set()

    timers.after(0.001, again)
    await over.wait()


@awaited
async def test_one_that_fails_keeps_no_other_from_coming(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    timers, over = Timers(), asyncio.Event()
    timers.after(0.0, fail)
    timers.after(0.0, over.set)
    await over.wait()
    assert "timer.failed" in caplog.text


@awaited
async def test_those_that_were_taken_back_are_not_kept() -> None:
    timers, over = Timers(), asyncio.Event()
    timers.after(0.01, over.set)
    for _ in range(10_000):
        timers.after(3600.0, over.clear).cancel()
    assert len(timers._due) < 500
    await over.wait()
