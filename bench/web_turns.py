"""Whole turns over the web page, beside the same turns over the scripted platform: what each costs the same `serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench.gateways import Active, Side, talking
from bench.measure import Figure, Sample, say
from bench.serving import Served
from bench.stage import Stage
from bench.web import let_in
from bench.web_readers import Pages, Wanted

_CHATS = 16
_ROUNDS = 4
CPU = Figure(
    name=f"web turn, {_CHATS} open pages: CPU of serve",
    unit="microseconds",
    beside="the same turn on the scripted platform",
    at_most=2.0,
)


def web_turns(stage: Stage) -> Iterator[Sample]:
    """Turns of the echo agent, in turn on both platforms of one gateway; each page reads the turn to its end."""
    url = stage.places.fresh("web_turns")
    web, scripted = asyncio.run(_both(url, Active(_CHATS, stage.scaled(40 * _CHATS, least=_CHATS), _ROUNDS)))
    say(f"    web:      {web.told()}")
    say(f"    scripted: {scripted.told()}")
    yield Sample(CPU, web.computed.microseconds, scripted.computed.microseconds)
    stage.check(url)


async def _both(url: str, active: Active) -> tuple[Side, Side]:
    async with talking(url) as (scripted, serving):
        web = await _on_pages(url, serving, active.chats)
        for side in (scripted, web):
            await side.converse(active.chats, active.chats)
        for _ in range(active.rounds):
            for side in (scripted, web):
                await side.take(active)
        return web, scripted


async def _on_pages(url: str, serving: Served, people: int) -> Side:
    """People who each have one page open; what they say goes over connections that are kept alive."""
    cookies = await let_in(url, serving.address, people)
    pages = Pages(serving.address, Wanted(shown=cookies, readers=1, rounds=0, text=""))
    readers = {f"user{number}": reader for number, reader in enumerate(await pages.open())}
    shown = dict(zip(readers, cookies, strict=True))
    # What is left of the turns that made the conversations.
    await asyncio.sleep(2)

    async def exchange(user: str, word: str) -> None:
        reader = readers[user]
        seen = reader.answers
        await pages.say_as(shown[user], word)
        await reader.read(seen + 1)

    return Side(exchange, serving.pid)
