"""Verbs that take several transactions, awaited: they keep nobody waiting, end with their caller, and are waited for at the end."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from threadline import AsyncSessionStore, SessionStore, StoreClosed
from threadline.store.engine.database import Perform, read, task
from threadline.store.facade import GatewayStore
from threadline.testing import dm


def test_work_elsewhere_in_the_process_keeps_no_verb_waiting(tmp_path: Path) -> None:
    async def searched() -> None:
        release = threading.Event()
        async with await AsyncSessionStore.open(tmp_path / "threadline.db") as store:
            blocked = [asyncio.ensure_future(asyncio.to_thread(release.wait)) for _ in range(64)]
            try:
                await asyncio.wait_for(store.search("anything"), 20)
            finally:
                release.set()
                await asyncio.gather(*blocked)

    asyncio.run(searched())


def test_a_task_whose_caller_is_cancelled_ends_before_its_next_step(tmp_path: Path) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), list[str]()

    def in_two_steps(perform: Perform) -> None:
        begun.set()
        go_on.wait(20)
        try:
            perform(read(lambda tx: tx.find("any_session_besides", besides="")))
            ended.append("went on")
        except StoreClosed:
            ended.append("stopped")
            raise

    async def cancelled() -> None:
        async with await AsyncSessionStore.open(tmp_path / "threadline.db") as store:
            running = asyncio.ensure_future(store.perform_async(task(in_two_steps)))
            await asyncio.to_thread(begun.wait, 20)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            go_on.set()

    asyncio.run(cancelled())
    assert ended == ["stopped"]


def test_closing_waits_for_a_backup_that_runs(tmp_path: Path) -> None:
    written: list[bool] = []

    def slowly(_done: int, _total: int) -> None:
        time.sleep(0.3)

    async def closed() -> None:
        store = await AsyncSessionStore.open(tmp_path / "threadline.db")
        await store.get_or_create_session(dm("1"))
        copying = asyncio.ensure_future(store.backup(tmp_path / "copy.db", progress=slowly))
        await asyncio.sleep(0.1)
        await store.close()
        written.append((tmp_path / "copy.db").exists())
        await copying
        with pytest.raises(StoreClosed):
            await store.prune(timedelta(days=1))

    asyncio.run(closed())
    assert written == [True]


@pytest.mark.parametrize("holder", ["class", "store"])
def test_a_verb_tells_its_name_its_promise_and_its_arguments(holder: str, tmp_path: Path) -> None:
    with SessionStore.open(tmp_path / "threadline.db") as store:
        append = SessionStore.append_to_transcript if holder == "class" else store.append_to_transcript
        assert append.__name__ == "append_to_transcript"
        assert "survive a power cut" in (append.__doc__ or "")
        assert list(inspect.signature(append).parameters)[:2] == ["session_id", "messages"]


def test_a_name_that_was_given_back_is_not_renewed(tmp_path: Path) -> None:
    async def renewed() -> None:
        async with await GatewayStore.open(tmp_path / "threadline.db") as store:
            lease = await store.leases.acquire("bot", "serve:a", duration=10**9)
            assert lease is not None
            await store.leases.release(lease)
            assert await store.leases.renew([lease], duration=10**9) == []
            assert await store.leases.acquire("bot", "serve:b", duration=10**9) is not None

    asyncio.run(renewed())
