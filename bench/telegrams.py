"""Telegram: messages that wait while nobody was there are taken in, answered and delivered, beside a bot that keeps nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import msgspec

from bench.measure import Figure, Pace, Sample, say
from bench.serving import quoted, served
from bench.stage import Stage
from threadline.testing.telegram import BotApi

# Starts a bot on the chats of this server; within it is the number of its process.
_Start: TypeAlias = Callable[[BotApi], AbstractAsyncContextManager[object]]

_UPDATES = 2_000
_CHATS = 200
_PATIENCE = 300.0
TAKEN = Figure(
    name="telegram: waiting messages stored",
    unit="per second",
    beside="answered by a bare python-telegram-bot",
    at_least=0.7,
)
SENT = Figure(
    name="telegram: waiting messages answered", unit="per second", beside="answered by the same", at_least=0.7
)


class Drained(msgspec.Struct, frozen=True):
    """How long it took until all was confirmed, and until all was answered."""

    taken: Pace
    sent: Pace

    def told(self) -> str:
        """For the log."""
        return f"{self.taken.per_second:,.0f} taken and {self.sent.per_second:,.0f} answered a second"


def telegram(stage: Stage) -> Iterator[Sample]:
    """Two thousand updates of two hundred chats; both bots without a limiter of their own."""
    updates = stage.scaled(_UPDATES, least=_CHATS)
    url = stage.places.fresh("telegram")
    ours = asyncio.run(_drained(updates, lambda api: served(_config(url, api))))
    say(f"    serve: {ours.told()}")
    bare = asyncio.run(_drained(updates, _bare))
    say(f"    bare:  {bare.told()}")
    yield Sample(TAKEN, ours.taken.per_second, bare.sent.per_second)
    yield Sample(SENT, ours.sent.per_second, bare.sent.per_second)
    stage.check(url)


async def _drained(updates: int, started: _Start) -> Drained:
    async with BotApi() as api:
        for number in range(updates):
            api.say(f"message-{number}", user=f"user{number % _CHATS}")
        async with started(api):
            await api.wait_for(lambda: api.calls_of("getUpdates"), 60)
            began = time.perf_counter()
            await api.wait_for(lambda: not api.bot.queue, _PATIENCE)
            taken = time.perf_counter() - began
            await api.wait_for(lambda: api.sent >= updates, _PATIENCE)
            sent = time.perf_counter() - began
        _check(api, updates)
    return Drained(Pace(updates, taken), Pace(updates, sent))


def _check(api: BotApi, updates: int) -> None:
    """Each message has its answer, once and in its own chat: what is not right need not be fast."""
    shown: dict[int, list[str]] = {}
    for message in api.messages():
        shown.setdefault(message.chat, []).append(message.text)
    wanted = {api.private(f"user{n}").id: [f"message-{m}" for m in range(n, updates, _CHATS)] for n in range(_CHATS)}
    if shown != wanted:
        raise RuntimeError("the chats do not show what they should")


@asynccontextmanager
async def _bare(api: BotApi) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.telegram_bare", api.url, api.token),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


def _config(url: str, api: BotApi) -> str:
    people = [f"telegram:{api.person(f'user{number}').id}" for number in range(_CHATS)]
    return f"""\
db = {quoted(url)}
log_level = "error"
[gateway]
when_busy = "queue"
burst_seconds = 0.0
welcome = false
turns_at_once = 64
turns_per_platform = 64
[agents.main]
kind = "echo"
[access]
guests = {quoted(people)}
[platforms.telegram]
token = {quoted(f"command:echo {api.token}")}
base_url = {quoted(api.url)}
limits = false
"""
