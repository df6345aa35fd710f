"""Callers on an event loop hear of their outcomes, and nothing of that is left when the store or the loop is gone."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

from threadline import AsyncSessionStore
from threadline.store.doorbell import Doorbell
from threadline.testing import dm, user


def open_files() -> int:
    """How many files and pipes this process holds."""
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))


async def say_something(path: Path) -> None:
    async with await AsyncSessionStore.open(path) as store:
        session_id = (await store.get_or_create_session(dm())).session_id
        await asyncio.gather(*(store.append_to_transcript(session_id, user(str(n))) for n in range(20)))


def test_a_store_that_is_closed_leaves_nothing_on_the_loop(tmp_path: Path) -> None:
    async def several() -> None:
        await say_something(tmp_path / "threadline.db")
        before = open_files()
        for _ in range(5):
            await say_something(tmp_path / "threadline.db")
            # The loop takes the bell down in its own time.
            await asyncio.sleep(0)
        assert open_files() <= before

    asyncio.run(several())


def test_loops_come_and_go_while_the_store_stays(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(AsyncSessionStore.open(tmp_path / "threadline.db"))
        session_id = runner.run(store.get_or_create_session(dm())).session_id
    before = open_files()
    for n in range(5):
        asyncio.run(store.append_to_transcript(session_id, user(str(n))))
    assert open_files() <= before
    assert len(asyncio.run(store.load_transcript(session_id))) == 5
    asyncio.run(store.close())


def test_calls_are_made_in_order_on_the_loop(tmp_path: Path) -> None:
    heard: list[tuple[int, bool]] = []

    async def listen() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        bell, here = Doorbell(loop), threading.get_ident()

        def ring() -> None:
            for n in range(100_000):
                bell.ring(lambda n=n: heard.append((n, threading.get_ident() == here)))  # type: ignore[misc]
            bell.ring(done.set)

        await asyncio.to_thread(ring)
        await done.wait()
        bell.dismiss()

    asyncio.run(listen())
    assert heard == [(n, True) for n in range(100_000)]


def test_nobody_is_forgotten_when_it_is_taken_down() -> None:
    heard: list[str] = []

    async def listen() -> None:
        bell = Doorbell(asyncio.get_running_loop())
        bell.ring(lambda: heard.append("before"))
        bell.dismiss()
        await asyncio.sleep(0)
        assert heard == ["before"]
        bell.ring(lambda: heard.append("after"))
        bell.dismiss()
        await asyncio.sleep(0)

    asyncio.run(listen())
    assert heard == ["before", "after"]


def test_a_loop_that_is_no_more_is_no_trouble() -> None:
    async def make() -> Doorbell:
        return Doorbell(asyncio.get_running_loop())

    bell = asyncio.run(make())
    bell.ring(lambda: None)
    bell.dismiss()
    bell.ring(lambda: None)
    bell.dismiss()
