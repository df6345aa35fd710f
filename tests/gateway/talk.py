"""What people do in tests of the gateway: they ask, and read what comes back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.gateway.world import EVERYONE, Running, settings_for

from threadline.errors import InvalidRequest
from threadline.gateway.gateway import Gateway
from threadline.model.session import SessionEntry
from threadline.ports.agent import Agent, Event, Text, Turn
from threadline.store.facade import GatewayStore
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

GROUP: dict[str, Any] = {"chat": "den", "chat_type": "group"}
# Shared by all who write in it.
THREAD: dict[str, Any] = {**GROUP, "thread": "plans"}


async def echo(turn: Turn) -> AsyncIterator[Event]:
    """Says what it hears."""
    yield Text(f"you said: {turn.text}")


class ChoosingAgent(ScriptedAgent):
    """One that can answer with other models; those of the provider `none` are not to be had."""

    async def check_model(self, name: str) -> str:
        """The full name of a model."""
        if name.startswith("none:"):
            raise InvalidRequest("there is no provider 'none'")
        return name if ":" in name else f"own:{name}"


async def ask(here: Running, text: str, *, user: str = "ada", chat: str | None = None, **more: Any) -> str:
    """Somebody says something; the next message of ours in that chat."""
    place = chat or f"dm-{user}"
    before = len(here.texts(place))
    here.chat.say(text, user=user, chat=chat, **more)
    await here.chat.wait_for(lambda: len(here.texts(place)) > before)
    return here.texts(place)[before]


async def asked(here: Running, chat: str = "dm-ada", *, count: int = 1) -> str:
    """Waits until so many questions were put; the code of the last."""
    found: list[str] = []

    def is_asked() -> bool:
        found[:] = [code for text in here.texts(chat) for code in re.findall(r"`/approve ([A-Z]{4})`", text)]
        return len(found) >= count

    await here.chat.wait_for(is_asked)
    # The receipt of the question is stored a moment after the chat shows it.
    await here.gateway.idle()
    return found[-1]


async def heard(here: Running) -> None:
    """Waits until all that was said is stored."""
    await here.chat.wait_for(lambda: not here.chat.unacknowledged)


async def turns_of(here: Running, agent: ScriptedAgent, count: int) -> None:
    """Waits until the agent was given so many turns."""
    await here.chat.wait_for(lambda: len(agent.turns) == count)


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits until something holds that no chat shows; the test's own limit ends it."""
    while not await is_so():  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.02)


async def current(here: Running, chat: str = "dm-ada", thread: str | None = None) -> SessionEntry:
    """The session that goes on in a chat."""
    page = await here.store.list_sessions()
    return next(e for e in page if (e.origin.chat_id, e.origin.thread_id) == (chat, thread))


async def said(here: Running, session_id: str) -> list[str]:
    """What a session shows."""
    return [str(message["content"]) for message in await here.store.load_transcript(session_id)]


async def fates(here: Running) -> dict[str, str]:
    """What became of everything that came in: fate by note, for what has a note."""
    return {line.note: line.fate for line in await here.store.maintenance.list_messages() if line.note}


@asynccontextmanager
async def running_with(
    location: str, agent: Agent, *, store: dict[str, Any], rules: Any = EVERYONE, **settings: Any
) -> AsyncIterator[Running]:
    """A gateway whose store was opened with these options."""
    async with ScriptedChat() as world, await GatewayStore.open(location, **store) as opened:
        platform = ScriptedPlatform(world.address, capabilities=world.capabilities)
        gateway = Gateway(opened, settings_for(agent, **settings), rules, [platform])
        await gateway.start(alone=True)
        try:
            await world.wait_for(lambda: world.connected)
            yield Running(gateway, opened, world)
            assert not world.misuses
        finally:
            await gateway.stop()
