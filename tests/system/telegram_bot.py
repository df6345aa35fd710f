"""A bot of ours at the loopback Telegram, and what it hears."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Inbound
from threadline.platforms.telegram import TelegramOptions, TelegramPlatform
from threadline.ports.platform import Verdict
from threadline.testing.telegram import BotApi, Chat


class Heard:
    """Takes events as a gateway does: `events` are those that were stored, each once."""

    def __init__(self) -> None:
        self.events: list[Arrival] = []
        self.begun: list[Arrival] = []
        self.repeated = 0
        # So many of the next ones are not taken: the store is away.
        self.failing = 0
        # What is held up, by a test that says when it may go on.
        self.holds: Callable[[Arrival], bool] = lambda _event: False
        self.go_on = asyncio.Event()

    async def accept(self, event: Arrival) -> Verdict:
        self.begun.append(event)
        if self.holds(event):
            await self.go_on.wait()
        if self.failing:
            self.failing -= 1
            raise StoreUnavailable
        if event.dedupe_key in [known.dedupe_key for known in self.events]:
            self.repeated += 1
            return "duplicate"
        self.events.append(event)
        return "accepted"

    @property
    def inbound(self) -> list[Inbound]:
        return [event for event in self.events if isinstance(event, Inbound)]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.inbound]


def make_bot(api: BotApi, token: str | None = None, **options: object) -> TelegramPlatform:
    """A bot at that Telegram, not yet connected."""
    given = {"token": token or api.token, "base_url": api.url} | options
    return TelegramPlatform(msgspec.convert(given, TelegramOptions))


@contextlib.asynccontextmanager
async def opened(bot: TelegramPlatform) -> AsyncIterator[TelegramPlatform]:
    """The bot can send, until the end of the block."""
    await bot.open()
    try:
        yield bot
    finally:
        await bot.close()


@contextlib.asynccontextmanager
async def listening(bot: TelegramPlatform, heard: Heard) -> AsyncIterator[asyncio.Task[None]]:
    """The bot listens, until the end of the block; it is not closed then."""
    ready = asyncio.Event()
    task = asyncio.create_task(bot.run(heard.accept, ready))
    try:
        await asyncio.wait_for(ready.wait(), 10)
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def to(chat: Chat, thread: int | None = None) -> Target:
    """Where an answer goes."""
    kind = {"private": "dm", "channel": "channel"}.get(chat.type, "group")
    given = {"platform": "telegram", "chat_id": str(chat.id), "chat_type": kind}
    return msgspec.convert(given | ({"thread_id": str(thread)} if thread else {}), Target)


def with_api(scenario: Callable[[BotApi, Heard], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario at a Telegram of its own."""

    async def within() -> None:
        async with asyncio.timeout(60), BotApi() as api:
            await scenario(api, Heard())

    asyncio.run(within())
