"""A gateway in the test's own process, and the chat that people use it from."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeAlias

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import GatewaySettings
from threadline.ids import new_lease_owner
from threadline.platforms.shared import split, to_plain_text
from threadline.ports.agent import Agent
from threadline.store.facade import GatewayStore
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

P = ParamSpec("P")

EVERYONE = AccessRules(
    owners=frozenset({"scripted:ada"}),
    trusted=frozenset({"scripted:tim"}),
    guests=frozenset({"scripted:bob", "scripted:eve"}),
    answer_groups=frozenset({"*"}),
    pairing=True,
)


class Running:
    """A gateway that runs, with all that a test looks at."""

    def __init__(self, gateway: Gateway, store: GatewayStore, chat: ScriptedChat) -> None:
        self.gateway = gateway
        self.store = store
        self.chat = chat

    def texts(self, chat: str = "dm-ada") -> list[str]:
        """What the chat shows of ours, in order."""
        return [message.text for message in self.chat.messages(chat)]

    async def shows(self, *texts: str, chat: str = "dm-ada") -> None:
        """Waits until the chat shows exactly these."""
        await self.chat.wait_for(lambda: self.texts(chat) == list(texts))

    async def shown(self, count: int, chat: str = "dm-ada") -> list[str]:
        """Waits until the chat shows that many messages of ours, none of which is still growing; those."""
        await self.chat.wait_for(lambda: len(self.texts(chat)) >= count)
        await self.gateway.idle()
        return self.texts(chat)

    async def transcript(self, chat: str = "dm-ada", user: str = "ada") -> list[tuple[str, str]]:
        """Role and text of the conversation in a direct chat."""
        page = await self.store.list_sessions(include_ended=False)
        entry = next(e for e in page if e.origin.chat_id == chat)
        messages = await self.store.load_transcript(entry.session_id)
        return [(str(m["role"]), str(m["content"])) for m in messages]


Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Running]]


@asynccontextmanager
async def running(
    location: str,
    agent: Agent,
    *,
    rules: AccessRules = EVERYONE,
    chat: ScriptedChat | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A gateway on the database at `location`, connected to a chat."""
    async with chat or ScriptedChat() as world, await GatewayStore.open(location) as store:
        platform = ScriptedPlatform(world.address, capabilities=world.capabilities)
        gateway = Gateway(store, settings_for(agent, **settings), rules, [platform])
        await gateway.start(alone=True)
        try:
            await world.wait_for(lambda: world.connected)
            yield Running(gateway, store, world)
            assert not world.misuses
        finally:
            await gateway.stop()


def awaited(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that awaits, with a limit: what hangs fails."""

    @functools.wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(*args, **options), 120)

        asyncio.run(limited())

    return run


def settings_for(agent: Agent, **changes: Any) -> GatewaySettings:
    """The settings of a gateway that waits for nothing."""
    values: dict[str, Any] = {
        "owner": new_lease_owner("serve"),
        "agent_for": lambda _source: ("main", agent),
        "split": lambda text, can: split(text, can.max_length, can.length_unit),
        "plain": to_plain_text,
        "burst_seconds": 0.0,
        "crash_back_off_seconds": 0.0,
        "poll_seconds": 0.2,
        "drain_seconds": 0.2,
        "welcome": False,
    }
    return GatewaySettings(**values | changes)
