"""What a running gateway tells its operator: what it has done, and whether it can do its work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.gateway.broken import begun
from tests.gateway.talk import ask, eventually
from tests.gateway.world import EVERYONE, Open, Running, awaited, running, settings_for

from threadline.clock import SystemClock
from threadline.errors import StoreUnavailable
from threadline.model.address import SessionScope
from threadline.model.policy import ResetPolicies
from threadline.ports.agent import AgentError, Event, Text, Turn
from threadline.ports.platform import Gone, Transient
from threadline.store.engine.database import Database
from threadline.store.facade import GatewayStore, open_database
from threadline.store.leases import TurnLease
from threadline.store.verbs import StoreSettings
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedPlatform


async def old(turn: Turn) -> AsyncIterator[Event]:
    if "fail" in turn.text:
        raise AgentError("It failed.")
    yield Text("old")


async def _is_ready(here: Running) -> bool:
    return not await here.gateway.not_ready()


async def counted(here: Running, *lines: str) -> None:
    """Waits until all these lines are told."""

    async def are_there() -> bool:
        return set(lines) <= set((await here.gateway.metrics_text()).splitlines())

    await eventually(are_there)


@awaited
async def test_counts_and_gauges_tell_what_happened(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        await ask(here, "one", message_id="m1")
        here.chat.say("one", message_id="m1")
        here.chat.say("not for us", user="zoe", chat="den", chat_type="group", mention=False)
        await ask(here, "fail")
        await counted(
            here,
            'threadline_messages_total{platform="scripted",verdict="accepted"} 2',
            'threadline_messages_total{platform="scripted",verdict="ignored"} 1',
            'threadline_messages_total{platform="scripted",verdict="duplicate"} 1',
            'threadline_turns_total{outcome="answered"} 1',
            'threadline_turns_total{outcome="failed"} 1',
            'threadline_deliveries_total{platform="scripted",result="sent"} 2',
            'threadline_turn_seconds_bucket{le="+Inf"} 2',
            "threadline_turn_seconds_count 2",
            "threadline_turns_running 0",
            "threadline_messages_waiting 0",
            "threadline_deliveries_pending 0",
            "threadline_alarms_open 0",
            "threadline_store_unavailable_total 0",
            'threadline_platform_connected{platform="scripted",account="main"} 1',
        )


@awaited
async def test_what_waits_and_what_could_not_be_sent_is_counted(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.fail_next(Transient("not now"))
        here.chat.say("one")
        await here.chat.wait_for(lambda: agent.turns)
        here.chat.say("two")
        await counted(here, "threadline_turns_running 1", "threadline_messages_waiting 1")
        agent.answer("first")
        await counted(here, 'threadline_deliveries_total{platform="scripted",result="retried"} 1')
        here.chat.fail_next(Gone("the chat is gone"), 2)
        await counted(
            here,
            'threadline_deliveries_total{platform="scripted",result="parked"} 1',
            "threadline_deliveries_parked 1",
        )
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("second")


@awaited
async def test_turns_that_were_taken_over_are_counted(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        await begun(store)
        await store.leases.expire_owned_by("serve:dead")
    async with running(location, ScriptedAgent(old)) as here:
        await here.shows("old")
        await counted(here, 'threadline_turns_recovered_total{decision="rerun"} 1')


class Outage:
    """A database that does not answer while `is_away`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away and name.startswith("perform"):
            raise StoreUnavailable
        return getattr(self._database, name)


@awaited
async def test_how_often_the_store_did_not_answer_is_counted(location: str) -> None:
    outage = Outage(open_database(location))
    settings = StoreSettings(policies=ResetPolicies(), scope=SessionScope(), clock=SystemClock(), zone="UTC")
    async with GatewayStore(cast("Database", outage), settings) as store:
        await store.maintenance.queue_counts()
        assert store.unavailable == 0
        outage.is_away = True
        with pytest.raises(StoreUnavailable):
            await store.maintenance.queue_counts()
        with pytest.raises(StoreUnavailable):
            store.renew_leases_blocking([TurnLease("turns", 1, 1, "t")], duration=1)
        outage.is_away = False
        await store.maintenance.queue_counts()
        assert store.unavailable == 2


@awaited
async def test_a_platform_that_is_away_is_named_as_not_ready(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        await eventually(lambda: _is_ready(here))
        await here.gateway.reconfigure(
            settings_for(ScriptedAgent(old)),
            EVERYONE,
            [*here.gateway._platforms, ScriptedPlatform("127.0.0.1:9", name="nowhere")],
        )
        assert await here.gateway.not_ready() == ["platform nowhere@main"]


@awaited
async def test_a_store_that_does_not_answer_is_named_as_not_ready(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        await eventually(lambda: _is_ready(here))
        await here.store.close()
        assert (await here.gateway.not_ready())[:2] == ["store", "leases"]
