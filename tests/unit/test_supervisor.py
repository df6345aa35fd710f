"""Work that is begun at once: what never waits costs no task, and what does goes on as any other."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.world import awaited

from threadline.errors import ThreadlineError
from threadline.gateway.supervisor import Supervisor


@awaited
async def test_work_that_never_waits_is_done_when_it_was_begun() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("all")

    assert Supervisor().begin("work", work()) is None
    assert done == ["all"]


@awaited
async def test_work_that_waits_goes_on_in_a_task_with_what_it_waited_for() -> None:
    done: list[str] = []
    coming: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        done.append("began")
        done.append(await coming)
        await asyncio.sleep(0)
        done.append(await asyncio.sleep(0.001, "slept"))

    task = Supervisor().begin("work", work())
    assert task is not None
    assert done == ["began"]
    coming.set_result("came")
    await task
    assert done == ["began", "came", "slept"]


@awaited
async def test_what_it_waits_for_may_be_there_before_its_task_begins() -> None:
    coming: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await coming

    task = Supervisor().begin("work", work())
    assert task is not None
    coming.set_result(None)
    await task


@awaited
async def test_others_may_wait_for_the_same() -> None:
    coming: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    heard: list[str] = []

    async def work() -> None:
        heard.append(await coming)

    supervisor = Supervisor()
    tasks = [supervisor.begin("work", work()), supervisor.begin("work", work()), asyncio.ensure_future(work())]
    await asyncio.sleep(0)
    coming.set_result("came")
    await asyncio.wait([task for task in tasks if task is not None])
    assert heard == ["came"] * 3


@awaited
async def test_an_error_it_waited_for_is_raised_in_it() -> None:
    caught: list[Exception] = []
    coming: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await coming
        except ZeroDivisionError as cause:
            caught.append(cause)

    task = Supervisor().begin("work", work())
    assert task is not None
    coming.set_exception(ZeroDivisionError())
    await task
    assert len(caught) == 1


@pytest.mark.parametrize("has_begun", [True, False])
@awaited
async def test_it_can_be_cancelled_and_cleans_up(has_begun: bool) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    task = Supervisor().begin("work", work())
    assert task is not None
    if has_begun:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "cleaned up"]


@awaited
async def test_what_is_cancelled_before_it_waits_is_over() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    assert Supervisor().begin("work", work()) is None


@awaited
async def test_no_timer_comes_when_all_is_stopped() -> None:
    supervisor, come = Supervisor(), []
    supervisor.after(0.001, lambda: come.append("late"))
    await supervisor.stop()
    await asyncio.sleep(0.01)
    assert come == []


@pytest.mark.parametrize("waits", [True, False])
@awaited
async def test_what_fails_in_it_is_logged_and_reaches_nobody(waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise ThreadlineError("no")

    task = Supervisor().begin("work", work())
    if task is not None:
        await task
    assert "task.failed" in caplog.text


@awaited
async def test_it_ends_with_all_the_others() -> None:
    supervisor = Supervisor()

    async def work() -> None:
        await asyncio.Event().wait()

    task = supervisor.begin("work", work())
    await supervisor.stop()
    assert task is not None
    assert task.cancelled()


@pytest.mark.parametrize("is_cancelled", [False, True])
@awaited
async def test_the_end_of_work_is_told_once_also_where_it_never_began(is_cancelled: bool) -> None:
    told: list[str] = []

    async def work() -> None:
        told.append("work")

    task = Supervisor().start("work", work(), lambda: told.append("end"))
    if is_cancelled:
        task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert told == (["end"] if is_cancelled else ["work", "end"])
