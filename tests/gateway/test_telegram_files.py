"""Files through a whole gateway on Telegram: what people send is read by the agent, and what it sends back they see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.gateway.world import awaited, settings_for

from threadline.agents.echo import EchoAgent
from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.platforms.registry import PlatformSetup
from threadline.platforms.telegram import make_telegram
from threadline.ports.agent import Agent, Event, Turn
from threadline.store.facade import GatewayStore
from threadline.testing.agents import ScriptedAgent
from threadline.testing.telegram import BotApi

PICTURE = b"\x89PNG\r\n\x1a\n a heron"


@asynccontextmanager
async def served(location: str, agent: Agent) -> AsyncIterator[tuple[BotApi, GatewayStore]]:
    """A Bot API and a gateway on it that answers Ada."""
    async with BotApi() as api, await GatewayStore.open(location) as store:
        ada = api.person("ada")
        options = {"token": api.token, "base_url": api.url, "limits": False}
        platform = make_telegram(PlatformSetup(name="telegram", account="main", options=options))
        rules = AccessRules(owners=frozenset({f"telegram:{ada.id}"}))
        gateway = Gateway(store, settings_for(agent), rules, [platform])
        await gateway.start(alone=True)
        try:
            yield api, store
        finally:
            await gateway.stop()


@awaited
async def test_echo_gives_back_a_picture_and_a_document(location: str) -> None:
    async with served(location, EchoAgent(pause=0.0)) as (api, _):
        api.say("look", photo=api.add_file(PICTURE, kind="photo"))
        chat = api.private("ada")
        await api.wait_for(lambda: len(api.messages(chat)) == 2)
        said, sent = api.messages(chat)
        assert said.text == "look"
        assert [file.body for file in sent.files] == [PICTURE]
        api.say("", document=api.add_file(b"a plan", name="plan.txt", mime="text/plain"))
        await api.wait_for(lambda: len(api.messages(chat)) == 3)
        assert [(file.name, file.body) for file in api.messages(chat)[-1].files] == [("plan.txt", b"a plan")]


@awaited
async def test_pictures_of_an_answer_are_an_album(location: str) -> None:
    async def album(turn: Turn) -> AsyncIterator[Event]:
        for number in range(3):
            yield await turn.file(PICTURE + b"%d" % number, name=f"{number}.png", mime="image/png")

    async with served(location, ScriptedAgent(album)) as (api, store):
        api.say("show me")
        chat = api.private("ada")
        await api.wait_for(lambda: len(api.messages(chat)) == 3)
        shown = api.messages(chat)
        assert [file.body for message in shown for file in message.files] == [PICTURE + b"%d" % n for n in range(3)]
        assert len({message.album for message in shown}) == 1
        assert [len(line.files) for line in await store.outbox.list_page()] == [3]
