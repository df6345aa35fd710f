"""What the gateway itself says to people and of them: they are told of it, and it goes with them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.gateway.talk import ask
from tests.gateway.world import Open, Running, awaited

from threadline.model.context import HomeChannel
from threadline.model.delivery import Target
from threadline.ports.agent import AgentError, Event, Text, Turn
from threadline.testing.agents import ScriptedAgent


async def moody(turn: Turn) -> AsyncIterator[Event]:
    """Fails as a model fails whose key is wrong, whenever it is asked to."""
    if "key" in turn.text:
        raise AgentError("The key is not accepted.", is_owners=True)
    yield Text("fine")


async def notices(here: Running) -> list[str]:
    """What was told of alarms, sent or not, by its id: once it is sent its text is not kept."""
    lines = await here.store.outbox.list_page()
    return [line.delivery_id for line in lines if line.delivery_id.startswith("alarm.")]


async def told(here: Running, person: str) -> list[str]:
    """What a person who asks is told that was sent to them."""
    page = await here.store.export(person, limit=1000)
    return [record.delivery.delivery_id for record in page if record.delivery is not None]


@pytest.mark.parametrize("named", ["nowhere", "in the chat", "in the configuration"])
@awaited
async def test_an_alarm_is_its_readers_to_see_and_to_take_along(opened: Open, named: str) -> None:
    homes = (HomeChannel("scripted", "dm-ada", "Ada"),) if named == "in the configuration" else ()
    async with opened(ScriptedAgent(moody), home_channels=homes) as here:
        await ask(here, "hello")
        if named == "in the chat":
            await ask(here, "/sethome")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: any("only you can mend it" in text for text in here.texts()))
        (notice,) = await notices(here)
        assert notice in await told(here, "scripted:ada")
        assert notice not in await told(here, "scripted:bob")
        await here.gateway.idle()
        await here.store.erase_person("scripted:ada")
        assert await notices(here) == []


@awaited
async def test_an_alarm_goes_with_whoever_the_chat_was_with(opened: Open) -> None:
    """The configuration names a chat, and not with whom it is."""
    async with opened(ScriptedAgent(moody), home_channels=(HomeChannel("scripted", "dm-eve", "Eve"),)) as here:
        await ask(here, "hello", user="eve")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: any("only you can mend it" in text for text in here.texts("dm-eve")))
        await here.gateway.idle()
        await here.store.erase_person("scripted:bob")
        assert len(await notices(here)) == 1
        await here.store.erase_person("scripted:eve")
        assert await notices(here) == []


@awaited
async def test_that_somebodys_chat_is_gone_is_forgotten_with_them(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        await ask(here, "hello", user="bob")
        await here.gateway.alarms.chat_gone(Target(platform="scripted", chat_id="dm-bob"), "blocked")
        await here.chat.wait_for(lambda: any("the chat dm-bob" in text for text in here.texts()))
        (gone,) = await notices(here)
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: any("only you can mend it" in text for text in here.texts()))
        await here.gateway.idle()
        await here.store.erase_person("scripted:bob")
        (left,) = await notices(here)
        assert left != gone
