"""A message that grows: what it shows, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.gateway.broken import begun, reply_to
from tests.gateway.world import awaited

from threadline.gateway.streaming import Streamer
from threadline.gateway.supervisor import Supervisor
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival
from threadline.ports.platform import Capabilities, Outgoing, Verdict
from threadline.store.facade import GatewayStore
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform


async def _nobody_writes(arrival: Arrival) -> Verdict:
    raise AssertionError(arrival)


@asynccontextmanager
async def _connected(chat: ScriptedChat) -> AsyncIterator[ScriptedPlatform]:
    platform, ready, supervisor = ScriptedPlatform(chat.address), asyncio.Event(), Supervisor()
    supervisor.start("platform", platform.run(_nobody_writes, ready))
    await ready.wait()
    try:
        yield platform
    finally:
        await platform.close()
        await supervisor.stop()


async def _streamer(
    store: GatewayStore,
    platform: ScriptedPlatform,
    text: Callable[[], Awaitable[str]],
    limit: int = 4096,
    call_seconds: float = 60.0,
) -> Streamer:
    def split(whole: str, _: Capabilities) -> list[str]:
        return [whole[start : start + limit] for start in range(0, len(whole), limit)]

    new = reply_to(await begun(store))
    return Streamer(store, platform, new, split, 0.0, lambda: False, text, call_seconds)


@awaited
async def test_what_is_closed_while_words_are_kept_shows_them_no_more(location: str) -> None:
    async with await GatewayStore.open(location) as store, ScriptedChat() as chat, _connected(chat) as platform:
        asked: list[str] = []

        async def text() -> str:
            asked.append("asked")
            if len(asked) == 2:
                streamer.close()
            return "one"

        streamer = await _streamer(store, platform, text)
        await streamer.run()
        assert len(asked) == 2
        assert chat.messages() == []


@awaited
async def test_what_grows_beyond_the_shown_part_is_not_looked_at_word_by_word(location: str) -> None:
    async with await GatewayStore.open(location) as store, ScriptedChat() as chat, _connected(chat) as platform:
        looks: list[int] = []
        said = ["word ", "word "]

        async def text() -> str:
            looks.append(len(said))
            return "".join(said)

        supervisor = Supervisor()
        streamer = await _streamer(store, platform, text, limit=8)
        supervisor.start("stream", streamer.run())
        await chat.wait_for(lambda: chat.texts() == ["word wor"])
        for _ in range(10_000):
            said.append("word ")
            streamer.update()
            await asyncio.sleep(0)
        streamer.close()
        await supervisor.stop()
        assert len(looks) < 1_000


class Deaf(ScriptedPlatform):
    """One that never comes back from a send."""

    def __init__(self, chat: ScriptedChat) -> None:
        super().__init__(chat.address)
        self.was_asked = asyncio.Event()

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self.was_asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@awaited
async def test_a_call_that_never_comes_back_does_not_keep_an_answer_from_its_end(location: str) -> None:
    async def text() -> str:
        return "one"

    async with await GatewayStore.open(location) as store, ScriptedChat() as chat:
        supervisor, platform = Supervisor(), Deaf(chat)
        streamer = await _streamer(store, platform, text, call_seconds=0.1)
        streamer.begin(supervisor)
        await platform.was_asked.wait()
        await streamer.end()
