"""Terminals of one database: one at a time has the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.gateway.talk import eventually
from tests.gateway.world import awaited

from threadline.errors import AlreadyServed
from threadline.gateway.seat import NAME, seated
from threadline.gateway.supervisor import Supervisor
from threadline.store.facade import GatewayStore

LEASE = 0.3


class Sitter:
    """Somebody who wants the seat, and gets up when told."""

    def __init__(self, store: GatewayStore, *, is_pipe: bool) -> None:
        self._store = store
        self._is_pipe = is_pipe
        self.notes: list[str] = []
        self.sits = asyncio.Event()
        self.gets_up = asyncio.Event()
        self.refusal: str | None = None
        self.is_over = asyncio.Event()

    async def sit(self) -> None:
        try:
            async with seated(self._store, is_pipe=self._is_pipe, note=self.notes.append, lease_seconds=LEASE):
                self.sits.set()
                await self.gets_up.wait()
        except AlreadyServed as cause:
            self.refusal = str(cause)
        finally:
            self.is_over.set()


class Room:
    """Where they meet."""

    def __init__(self, store: GatewayStore, tasks: Supervisor) -> None:
        self.store = store
        self._tasks = tasks

    def enter(self, *, is_pipe: bool) -> Sitter:
        sitter = Sitter(self.store, is_pipe=is_pipe)
        self._tasks.start("sitter", sitter.sit())
        return sitter


@asynccontextmanager
async def room(location: str) -> AsyncIterator[Room]:
    tasks = Supervisor()
    async with await GatewayStore.open(location) as store:
        try:
            yield Room(store, tasks)
        finally:
            await tasks.stop()


@pytest.mark.parametrize("is_pipe", [False, True])
@awaited
async def test_beside_a_terminal_nobody_else_gets_the_conversation(location: str, is_pipe: bool) -> None:
    async with room(location) as here:
        first = here.enter(is_pipe=False)
        await first.sits.wait()
        second = here.enter(is_pipe=is_pipe)
        await second.is_over.wait()
        assert not second.sits.is_set()
        assert second.refusal is not None
        assert "another terminal has this conversation open" in second.refusal
        first.gets_up.set()
        await first.is_over.wait()
        third = here.enter(is_pipe=is_pipe)
        await third.sits.wait()


@pytest.mark.parametrize("is_pipe", [False, True])
@awaited
async def test_a_pipe_is_waited_for_however_long_it_takes(location: str, is_pipe: bool) -> None:
    async with room(location) as here:
        first = here.enter(is_pipe=True)
        await first.sits.wait()
        second = here.enter(is_pipe=is_pipe)
        await asyncio.sleep(3 * LEASE)
        assert not second.sits.is_set()
        assert len(second.notes) == 1
        first.gets_up.set()
        await second.sits.wait()


@awaited
async def test_a_terminal_that_died_is_followed_by_the_next(location: str) -> None:
    async with room(location) as here:
        assert await here.store.leases.acquire(NAME, "chat:dead/terminal 7", duration=int(LEASE * 1_000_000))
        second = here.enter(is_pipe=False)
        await second.sits.wait()
        assert "7" in second.notes[0]


@awaited
async def test_who_slept_while_another_sat_down_ends(location: str) -> None:
    async with room(location) as here:
        first = here.enter(is_pipe=False)
        await first.sits.wait()

        async def is_taken() -> bool:
            held = [one.owner for one in await here.store.leases.list_all()]
            if held and held != ["chat:other/terminal 7"]:
                await here.store.leases.expire_owned_by(held[0])
            lease = await here.store.leases.acquire(NAME, "chat:other/terminal 7", duration=60_000_000)
            return lease is not None

        await eventually(is_taken)
        await first.is_over.wait()
        assert first.refusal is not None
        assert [one.owner for one in await here.store.leases.list_all()] == ["chat:other/terminal 7"]
