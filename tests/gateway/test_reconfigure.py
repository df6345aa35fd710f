"""A gateway that is told otherwise while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
from tests.gateway.talk import ask, eventually, turns_of
from tests.gateway.world import EVERYONE, Open, Running, awaited, settings_for

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import ChatRules
from threadline.model.address import SessionScope
from threadline.model.delivery import Target
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.ports.agent import Event, Text, Turn
from threadline.ports.platform import Outgoing
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import NewDelivery
from threadline.testing import dm, user
from threadline.testing.agents import ScriptedAgent
from threadline.testing.clock import FakeClock
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform


async def old(turn: Turn) -> AsyncIterator[Event]:
    yield Text("old")


async def new(turn: Turn) -> AsyncIterator[Event]:
    yield Text(f"new{f', {turn.system_prompt}' if turn.system_prompt else ''}")


@awaited
async def test_the_next_turn_has_the_new_agent_and_the_new_rules(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        assert await ask(here, "who?") == "old"
        settings = settings_for(ScriptedAgent(new), rules_for=lambda _source: ChatRules("be brief"))
        await here.gateway.reconfigure(settings, EVERYONE, here.gateway._platforms)
        assert await ask(here, "who?") == "new, be brief"


@awaited
async def test_a_turn_that_runs_keeps_what_it_began_with(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("who?")
        await turns_of(here, agent, 1)
        await here.gateway.reconfigure(settings_for(ScriptedAgent(new)), EVERYONE, here.gateway._platforms)
        agent.answer("still the old one")
        await here.shows("still the old one")
        assert await ask(here, "and now?") == "new"


@awaited
async def test_who_is_let_in_changes_at_once(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        assert await ask(here, "me too", user="bob") == "old"
        only_ada = AccessRules(owners=frozenset({"scripted:ada"}), pairing=False)
        await here.gateway.reconfigure(settings_for(ScriptedAgent(old)), only_ada, here.gateway._platforms)
        here.chat.say("still me?", user="bob")
        assert await ask(here, "me") == "old"
        assert here.texts("dm-bob") == ["old"]


@awaited
async def test_platforms_that_stay_are_not_touched_and_others_come_and_go(location: str) -> None:
    async with (
        ScriptedChat() as stays,
        ScriptedChat() as goes,
        ScriptedChat() as comes,
        await GatewayStore.open(location) as store,
    ):
        kept, gone = ScriptedPlatform(stays.address), ScriptedPlatform(goes.address, name="goes")
        settings = settings_for(ScriptedAgent(old))
        everyone = msgspec.structs.replace(EVERYONE, owners=frozenset({"scripted:ada", "goes:ada", "comes:ada"}))
        gateway = Gateway(store, settings, everyone, [kept, gone])
        await gateway.start(alone=True)
        try:
            for chat in (stays, goes):
                await chat.wait_for(lambda chat=chat: chat.connected)  # type: ignore[misc]
            fresh = ScriptedPlatform(comes.address, name="comes")
            connection = kept._connection
            await gateway.reconfigure(settings, everyone, [kept, fresh])
            await comes.wait_for(lambda: comes.connected)
            await goes.wait_for(lambda: not goes.connected)
            assert kept._connection is connection
            assert await ask(Running(gateway, store, comes), "hello") == "old"
            assert await ask(Running(gateway, store, stays), "hello") == "old"
            assert await gateway.not_ready() == []
        finally:
            await gateway.stop()


@awaited
async def test_a_platform_that_changed_is_closed_before_it_is_opened_anew(opened: Open) -> None:
    async with opened(ScriptedAgent(old)) as here:
        again = ScriptedPlatform(here.chat.address, capabilities=here.chat.capabilities)
        await here.gateway.reconfigure(settings_for(ScriptedAgent(old)), EVERYONE, [again])
        await eventually(lambda: _is_ready(here))
        assert here.chat.connected == 1
        assert await ask(here, "hello") == "old"


class Hasty(ScriptedPlatform):
    """One whose library fails in its own way when it is closed under a call."""

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        message_id = await super().send(to, message, key=key)
        if self._closed.is_set():
            raise RuntimeError("the session is closed")
        return message_id


@awaited
async def test_what_is_being_sent_arrives_before_its_platform_is_closed(location: str) -> None:
    async with ScriptedChat() as chat, await GatewayStore.open(location) as store:
        settings = settings_for(ScriptedAgent(old))
        gateway = Gateway(store, settings, EVERYONE, [Hasty(chat.address)])
        await gateway.start(alone=True)
        try:
            await eventually(lambda: _is_ready(Running(gateway, store, chat)))
            chat.hold("answers")
            target = Target(platform="scripted", chat_id="dm-ada")
            await store.outbox.enqueue(NewDelivery(delivery_id="1", target=target, text="news"))
            gateway.outbox.wake()
            await chat.wait_for(lambda: chat.texts("dm-ada") == ["news"])
            reload = asyncio.ensure_future(gateway.reconfigure(settings, EVERYONE, [Hasty(chat.address)]))
            while gateway.outbox.accounts:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.01)
            chat.release("answers")
            await reload
            (line,) = await store.outbox.list_page()
            assert (line.state, line.attempts) == ("sent", 1)
            assert await ask(Running(gateway, store, chat), "hello") == "old"
        finally:
            await gateway.stop()


async def _is_ready(here: Running) -> bool:
    return not await here.gateway.not_ready()


@awaited
async def test_the_store_decides_by_the_new_policies(location: str) -> None:
    clock = FakeClock()
    async with await GatewayStore.open(location, clock=clock) as store:
        first = await store.get_or_create_session(dm())
        await store.append_to_transcript(first.session_id, user("hi"))
        clock.advance(timedelta(hours=3))
        assert (await store.get_or_create_session(dm())).session_id == first.session_id
        idle = SessionResetPolicy(mode="idle", idle_minutes=60, grace_minutes=0)
        store.reconfigure(policies=ResetPolicies(default=idle), scope=SessionScope(), timezone="UTC")
        clock.advance(timedelta(hours=3))
        assert (await store.get_or_create_session(dm())).session_id != first.session_id
