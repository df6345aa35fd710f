"""A flush that takes long: its holder keeps it while they may, and stops when it is theirs no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from tests.gateway.talk import ask, current, echo
from tests.gateway.test_expiry import ANSWERED, flushed, remembered, shown
from tests.gateway.world import EVERYONE, Running, awaited, settings_for

from threadline.errors import StoreUnavailable
from threadline.gateway.gateway import Gateway
from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.store import leases
from threadline.store.engine.database import Step
from threadline.store.facade import GatewayStore
from threadline.store.work import expiry
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import RawExecute
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

T = TypeVar("T")


class FitfulStore(GatewayStore):
    """A store that does not answer the first times that a flush is to be renewed, and to be finished."""

    away = 2
    renewed = 0
    asked_to_renew = asked_to_finish = 0

    async def perform_async(self, step: Step[T]) -> T:
        if step.call is expiry.finish_flush:
            self.asked_to_finish += 1
            if self.asked_to_finish <= self.away:
                raise StoreUnavailable
        if step.call is not leases.renew:
            return await super().perform_async(step)
        self.asked_to_renew += 1
        if self.asked_to_renew <= self.away:
            raise StoreUnavailable
        is_held = await super().perform_async(step)
        self.renewed += bool(is_held)
        return is_held


class Slow:
    """An agent's memory that takes its time, and remembers whether it was cut short."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.cut_short = 0

    async def __call__(self, _session: SessionEntry, _history: Sequence[Message]) -> None:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cut_short += 1
            raise


@asynccontextmanager
async def running(
    location: str, agent: ScriptedAgent, kind: type[GatewayStore] = GatewayStore, **settings: Any
) -> AsyncIterator[Running]:
    async with ScriptedChat() as chat, await kind.open(location) as store:
        platform = ScriptedPlatform(chat.address, capabilities=chat.capabilities)
        gateway = Gateway(store, settings_for(agent, watch_seconds=0.02, **settings), EVERYONE, [platform])
        await gateway.start(alone=True)
        try:
            await chat.wait_for(lambda: chat.connected)
            yield Running(gateway, store, chat)
        finally:
            await gateway.stop()


async def ended(here: Running, user: str = "ada") -> SessionEntry:
    """A conversation that somebody has ended."""
    await ask(here, "hello", user=user)
    session = await current(here, f"dm-{user}")
    await ask(here, "/new", user=user)
    return session


@awaited
async def test_a_store_that_is_away_for_a_moment_costs_no_flush(location: str) -> None:
    slow = Slow()
    agent = ScriptedAgent(echo, on_flush=slow)
    async with running(location, agent, FitfulStore, lease_seconds=0.6) as here:
        store = here.store
        assert isinstance(store, FitfulStore)
        session = await ended(here)
        await here.chat.wait_for(lambda: store.renewed > 0)
        slow.go_on.set()
        await remembered(here, session)
        assert store.asked_to_finish > store.away
        assert shown(agent) == [ANSWERED]
        assert slow.cut_short == 0


@awaited
async def test_what_this_gateway_is_at_it_does_not_begin_again(location: str, raw_execute: RawExecute) -> None:
    slow = Slow()
    agent = ScriptedAgent(echo, on_flush=slow)
    async with running(location, agent) as here:
        first = await ended(here)
        await flushed(here, agent, 1)
        # As if it could not be renewed in time.
        raw_execute("UPDATE flushes SET lease_until = 0")
        second = await ended(here, "bob")
        await here.chat.wait_for(lambda: any(e.session_id == second.session_id for e, _ in agent.flushes))
        assert [entry.session_id for entry, _ in agent.flushes] == [first.session_id, second.session_id]
        slow.go_on.set()
        for session in (first, second):
            await remembered(here, session)


@pytest.mark.parametrize("is_person", [True, False])
@awaited
async def test_an_agent_is_not_shown_any_longer_what_was_erased(location: str, is_person: bool) -> None:
    slow = Slow()
    agent = ScriptedAgent(echo, on_flush=slow)
    async with running(location, agent, lease_seconds=0.6) as here:
        session = await ended(here)
        await flushed(here, agent, 1)
        if is_person:
            await here.store.erase_person("scripted:ada")
        else:
            await here.store.delete_session(session.session_id)
        await here.chat.wait_for(lambda: slow.cut_short == 1)
        assert await ask(here, "and now?", user="bob") == "you said: and now?"
        assert len(agent.flushes) == 1


@awaited
async def test_what_another_gateway_has_taken_is_let_go(location: str, raw_execute: RawExecute) -> None:
    slow = Slow()
    agent = ScriptedAgent(echo, on_flush=slow)
    async with running(location, agent, lease_seconds=0.6) as here:
        session = await ended(here)
        await flushed(here, agent, 1)
        raw_execute("UPDATE flushes SET owner = 'serve:other', lease_until = lease_until + 60000000, fence = fence + 1")
        await here.chat.wait_for(lambda: slow.cut_short == 1)
        # The other one is gone too: now it is begun anew.
        raw_execute("UPDATE flushes SET lease_until = 0")
        slow.go_on.set()
        await remembered(here, session)
        assert shown(agent) == [ANSWERED, ANSWERED]
