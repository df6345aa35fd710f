"""A real client of Telegram's Bot API, talking to the one on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
import telegram
from telegram.error import TelegramError

from threadline.testing.telegram import Bot, BotApi

T = TypeVar("T")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@asynccontextmanager
async def client_of(api: BotApi, bot: Bot | None = None) -> AsyncIterator[telegram.Bot]:
    """python-telegram-bot's bare bot."""
    token = (bot or api.bot).token
    async with telegram.Bot(token, base_url=f"{api.url}/bot", base_file_url=f"{api.url}/file/bot") as client:
        yield client


def with_client(scenario: Callable[[BotApi, telegram.Bot], Awaitable[T]]) -> T:
    """What comes of a scenario with a fresh server and a client."""

    async def run() -> T:
        async with BotApi() as api, client_of(api) as client:
            return await scenario(api, client)

    return asyncio.run(run())


async def refusal(call: Awaitable[object]) -> str:
    """In which words a call is refused."""
    with pytest.raises(TelegramError) as caught:
        await call
    return str(caught.value)
