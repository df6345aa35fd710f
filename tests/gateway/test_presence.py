"""Signs of life, and chats that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from tests.gateway.broken import begun, reply_to
from tests.gateway.talk import ask, echo, eventually
from tests.gateway.world import Open, awaited, settings_for

from threadline.clock import to_instant
from threadline.gateway.presence import Presence
from threadline.gateway.supervisor import Supervisor
from threadline.ports.agent import Event, Text, Turn
from threadline.ports.platform import Capabilities, Gone
from threadline.store.facade import GatewayStore
from threadline.store.work.turn_end import TurnResult
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import gateway as texts

SOON: dict[str, Any] = {"typing_after_seconds": 0.01, "progress_after_seconds": 0.01}


@awaited
async def test_a_chat_shows_that_somebody_types_while_an_answer_takes_long(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, chat=ScriptedChat(capabilities=ALL_CAPABILITIES), **SOON) as here:
        here.chat.say("think")
        await here.chat.wait_for(lambda: here.chat.typings("dm-ada"))
        agent.answer("thought")
        await here.shows("thought")


@awaited
async def test_where_it_can_not_be_shown_people_are_told_once(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, chat=ScriptedChat(capabilities=Capabilities(max_length=4096)), **SOON) as here:
        here.chat.say("think")
        await here.shows(texts.STILL_AT_IT)
        await asyncio.sleep(0.1)
        agent.answer("thought")
        await here.shows(texts.STILL_AT_IT, "thought")


@awaited
async def test_who_has_the_answer_is_not_told_that_it_takes_long(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store)
        # As one sees it whose lease went to another, or whose cancelled write is still on its way.
        end = TurnResult(
            lease=claimed.lease,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=to_instant(store.clock.now()),
            replies=(reply_to(claimed, "the answer"),),
            taken_messages=claimed.messages,
        )
        notice = msgspec.structs.replace(reply_to(claimed, texts.STILL_AT_IT), delivery_id="late")
        assert await store.turns.enqueue_progress(claimed.lease, msgspec.structs.replace(notice, delivery_id="in time"))
        await store.turns.finish(end)
        assert not await store.turns.enqueue_progress(claimed.lease, notice)
        assert [line.delivery_id for line in await store.outbox.list_page()] == [end.replies[0].delivery_id, "in time"]


@awaited
async def test_a_sign_of_life_of_an_ended_turn_is_never_stored(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    chat = ScriptedChat(capabilities=Capabilities(max_length=4096))
    async with opened(agent, chat=chat, lease_seconds=3.0) as here:
        claimed = await begun(here.store, "first", user="eve")
        await here.store.leases.expire_owned_by("serve:dead%")
        await here.shows("you said: first", chat="dm-eve")
        late = msgspec.structs.replace(reply_to(claimed, texts.STILL_AT_IT), delivery_id="late")
        settings = settings_for(agent, **SOON)
        await Presence(here.store, settings, here.gateway.outbox, Supervisor(), claimed.lease, late)._show()
        assert "late" not in [line.delivery_id for line in await here.store.outbox.list_page()]


@awaited
async def test_what_is_answered_in_a_moment_shows_no_sign_of_work(opened: Open) -> None:
    async with opened(ScriptedAgent(echo), chat=ScriptedChat(capabilities=ALL_CAPABILITIES)) as here:
        await ask(here, "hello")
        assert here.chat.typings() == 0


@awaited
async def test_a_platform_that_fails_to_show_it_costs_no_answer(opened: Open) -> None:
    async def slow(turn: Turn) -> AsyncIterator[Event]:
        await asyncio.sleep(0.1)
        yield Text(turn.text)

    async with opened(ScriptedAgent(slow), chat=ScriptedChat(capabilities=ALL_CAPABILITIES), **SOON) as here:
        here.chat.fail_next(Gone("no such chat"), on="typing")
        assert await ask(here, "hello") == "hello"


@awaited
async def test_a_chat_that_is_gone_is_reported_to_the_owner_once_until_it_is_back(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello", user="ada")

        async def lost(text: str) -> None:
            here.chat.fail_next(Gone("no such chat"))
            here.chat.say(text, user="bob")

            async def is_parked() -> bool:
                lines = await here.store.outbox.list_page("parked")
                return any(text in line.text for line in lines)

            await eventually(is_parked)
            await here.gateway.idle()

        await lost("one")
        await here.chat.wait_for(lambda: "dm-bob" in here.texts()[-1])
        await lost("two")
        assert len(here.texts()) == 2
        assert await ask(here, "I am back", user="bob") == "you said: I am back"

        async def is_over() -> bool:
            return not await here.store.owner_alerts.list_open()

        await eventually(is_over)
        await lost("three")
        await here.chat.wait_for(lambda: len(here.texts()) == 3)
