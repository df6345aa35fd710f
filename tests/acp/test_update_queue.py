"""What an editor is told of a session keeps its order, whatever has to be fetched or to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.gateway.world import awaited

from threadline.acp.open_session import UpdateQueue
from threadline.gateway.supervisor import Supervisor


@asynccontextmanager
async def outlet() -> AsyncIterator[tuple[UpdateQueue, list[bytes]]]:
    told: list[bytes] = []
    supervisor = Supervisor()
    yield UpdateQueue(told.append, supervisor.start), told
    await supervisor.stop()


@awaited
async def test_nothing_overtakes_what_has_to_be_fetched() -> None:
    async with outlet() as (out, told):
        arrived = asyncio.Event()

        async def fetch() -> bytes:
            await arrived.wait()
            return b"file"

        out.put(b"before")
        out.put_deferred(fetch)
        out.put(b"after")
        await asyncio.sleep(0)
        assert told == [b"before"]
        arrived.set()
        await out.wait_until_sent()
        out.put(b"last")
        assert told == [b"before", b"file", b"after", b"last"]


@awaited
async def test_what_is_held_is_told_behind_what_passes_by() -> None:
    async with outlet() as (out, told):
        out.hold()
        out.put(b"live")
        out.put(b"gone", "t1")
        out.send_out_of_order(b"past")
        assert told == [b"past"]
        out.drop_turn("t1")
        out.release()
        await out.wait_until_sent()
        assert told == [b"past", b"live"]


@awaited
async def test_a_turn_can_be_forgotten_while_its_file_is_fetched() -> None:
    async with outlet() as (out, told):
        arrived = asyncio.Event()

        async def fetch() -> bytes:
            await arrived.wait()
            return b"file"

        out.put_deferred(fetch, "t1")
        out.put(b"more", "t1")
        await asyncio.sleep(0)
        out.drop_turn("t1")
        out.put(b"other", "t2")
        arrived.set()
        await out.wait_until_sent()
        await asyncio.sleep(0.01)
        assert told == [b"other"]
