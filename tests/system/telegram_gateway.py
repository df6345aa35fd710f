"""A gateway in the test's own process, on a Telegram of the test's own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeAlias

from tests.gateway.world import settings_for
from tests.system.telegram_bot import make_bot

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.model.session import SessionEntry
from threadline.ports.agent import Agent
from threadline.store.facade import GatewayStore
from threadline.testing.telegram import Bot, BotApi, Chat, Happened, Person, ShownMessage

P = ParamSpec("P")


class OnTelegram:
    """A gateway that runs, with all that a test looks at. Ada owns it, Tim is trusted, Bob and Eve are guests."""

    def __init__(self, gateway: Gateway, store: GatewayStore, api: BotApi, bot: Bot) -> None:
        self.gateway = gateway
        self.store = store
        self.api = api
        self.bot = bot

    def texts(self, chat: Chat | Person | str = "ada", thread: int | None = None) -> list[str]:
        """What this bot shows in a group, or in its chat with somebody."""
        return [shown.text for shown in self.shown(chat, thread)]

    def shown(self, chat: Chat | Person | str = "ada", thread: int | None = None) -> list[ShownMessage]:
        """The same, whole."""
        place = chat if isinstance(chat, Chat) else self.api.private(chat, bot=self.bot)
        return [one for one in self.api.messages(place, thread=thread) if one.sender == self.bot.id]

    async def heard(self) -> None:
        """Waits until all that was said is stored, answered and sent."""
        await self.api.wait_for(lambda: not self.bot.queue)
        await self.gateway.settled("telegram")

    async def ask(self, text: str, *, user: Person | str = "ada", **more: Any) -> str:
        """Somebody says something to the bot; the one thing that it shows then in that chat."""
        (answer,) = await self.answers(text, user=user, **more)
        return answer

    async def answers(self, text: str, *, user: Person | str = "ada", **more: Any) -> list[str]:
        """Somebody says something to the bot; all that it shows then in that chat."""
        return await self.told(functools.partial(self.api.say, text, user=user, **more), more.get("chat") or user)

    async def told(self, act: Callable[[], Happened], chat: Chat | Person | str = "ada") -> list[str]:
        """Somebody does something; all that the bot shows then in the chat."""
        before = len(self.texts(chat))
        act()
        await self.heard()
        return self.texts(chat)[before:]

    async def sessions(self) -> list[SessionEntry]:
        """Those that go on."""
        return list(await self.store.list_sessions())

    async def said(self, session_id: str) -> list[str]:
        """What a session shows."""
        return [str(message["content"]) for message in await self.store.load_transcript(session_id)]

    def named(self, text: str) -> str:
        """The text as people write it to the bot in a group."""
        return f"@{self.bot.person.username} {text}"


Open: TypeAlias = Callable[..., AbstractAsyncContextManager[OnTelegram]]


def rules_of(api: BotApi, *, groups: bool = True, guests: tuple[int, ...] = ()) -> AccessRules:
    """Who may do what there."""
    listed = frozenset(f"telegram:{api.person(name).id}" for name in ("bob", "eve"))
    return AccessRules(
        owners=frozenset({f"telegram:{api.person('ada').id}"}),
        trusted=frozenset({f"telegram:{api.person('tim').id}"}),
        guests=listed | frozenset(f"telegram:{number}" for number in guests),
        answer_groups=frozenset({"*"} if groups else ()),
        pairing=True,
    )


@asynccontextmanager
async def at_telegram(
    api: BotApi,
    location: str,
    agent: Agent,
    *,
    bot: Bot | None = None,
    rules: AccessRules | None = None,
    store: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[OnTelegram]:
    """A gateway on the database at `location` that listens as a bot, the first one unless another is named."""
    whose = bot or api.bot
    async with await GatewayStore.open(location, **store or {}) as opened:
        platform = make_bot(api, whose.token, limits=False)
        gateway = Gateway(opened, settings_for(agent, **settings), rules or rules_of(api), [platform])
        await gateway.start(alone=True)
        try:
            await api.wait_for(lambda: whose.poll is not None)
            yield OnTelegram(gateway, opened, api, whose)
        finally:
            await gateway.stop()


@asynccontextmanager
async def on_telegram(location: str, agent: Agent, **more: Any) -> AsyncIterator[OnTelegram]:
    """The same at a Telegram of its own, which ends with the block."""
    async with BotApi() as api, at_telegram(api, location, agent, **more) as here:
        yield here


def awaited(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that awaits, with a limit: what hangs fails."""

    @functools.wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(*args, **options), 120)

        asyncio.run(limited())

    return run
