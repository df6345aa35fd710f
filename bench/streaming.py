"""A thousand chats that are answered at the same time, word by word: whether `serve` keeps pace, and in how much memory."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from bench.measure import Figure, Sample, cpu_seconds, peak_bytes, say
from bench.serving import Serving, served
from bench.stage import Stage
from threadline.agents.function import FunctionTurn
from threadline.testing.scripted import ScriptedChat

_CHATS = 1_000
_CHUNKS_A_SECOND = 20
_SECONDS = 30
_FLOOR_SECONDS = 5
_LIMIT_BYTES = 300_000_000
MEMORY = Figure(
    name="1,000 chats streaming: memory of serve", unit="bytes", beside="300 MB", at_most=_LIMIT_BYTES / _LIMIT_BYTES
)
PACE = Figure(
    name="1,000 chats streaming: chunks of each", unit="per second", beside=f"the {_CHUNKS_A_SECOND} asked for"
)
COST = Figure(
    name="1,000 chats streaming: CPU of serve for a chunk",
    unit="microseconds",
    beside="the agents alone, heard by nobody",
)


class Streamed(msgspec.Struct, frozen=True):
    """How one answer went, by the agent's own clock."""

    began: float
    ended: float
    words: int

    @property
    def pace(self) -> float:
        """Chunks a second."""
        return self.words / (self.ended - self.began)


class _Gathering:
    """Lets all begin when the last is there, each a little after the one before: no thousand people are in step."""

    def __init__(self) -> None:
        self._here = 0
        self._complete = asyncio.Event()

    async def wait_for(self, chats: int) -> None:
        """Returns when so many wait here."""
        number, self._here = self._here, self._here + 1
        if self._here == chats:
            self._complete.set()
        await self._complete.wait()
        await asyncio.sleep(number / chats)


_gathering = _Gathering()


async def answer(turn: FunctionTurn) -> AsyncIterator[str]:
    """The agent: so many words, in time, and at the end when it began and when the last word was taken.

    It waits until all chats are there: how fast they are let in is another workload's.
    """
    words, chats = turn.text.split()
    await _gathering.wait_for(int(chats))
    async for chunk in _spoken(int(words)):
        yield chunk


async def _spoken(words: int) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(1, words + 1):
        yield f"{number} "
        await asyncio.sleep(max(0.0, began + number / _CHUNKS_A_SECOND - loop.time()))
    yield f"{began:.3f} {loop.time():.3f}"


def streaming(stage: Stage) -> Iterator[Sample]:
    """Every chat asks at once, and each answer grows for half a minute."""
    chats = stage.scaled(_CHATS, least=10)
    words = stage.scaled(_CHUNKS_A_SECOND * _SECONDS, least=20)
    floor = asyncio.run(_agents_alone(chats, min(words, _CHUNKS_A_SECOND * _FLOOR_SECONDS)))
    url = stage.places.fresh("streaming")
    yield from asyncio.run(_while_streaming(url, chats, words, floor))
    stage.check(url)


async def _agents_alone(chats: int, words: int) -> float:
    """Seconds of CPU that a chunk costs where nobody stores, shows or even looks at it."""

    gathering = _Gathering()

    async def heard() -> None:
        await gathering.wait_for(chats)
        async for _ in _spoken(words):
            pass

    before = time.process_time()
    await asyncio.gather(*(heard() for _ in range(chats)))
    return (time.process_time() - before) / (chats * words)


async def _while_streaming(url: str, chats: int, words: int, floor: float) -> list[Sample]:
    async with ScriptedChat() as chat:
        async with served(_serving(url, chat.address, chats).config()) as serving:
            await chat.wait_for(lambda: chat.connected, timeout=60)
            pid = serving.pid
            idle, spent, began = peak_bytes(pid), cpu_seconds(pid), time.perf_counter()
            for number in range(chats):
                chat.say(f"{words} {chats}", user=f"user{number}")
            # Looked at now and then, not at every edit: the chat itself must not be what everybody waits for.
            while len(streamed := _streamed(chat, words)) < chats:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.5)
            seconds, peak, spent = time.perf_counter() - began, peak_bytes(pid), cpu_seconds(pid) - spent
        say(f"    {chats:,} chats, {words:,} words each: {seconds:.0f} s, {_told(streamed)}")
        say(
            f"    {_edits(chat):,} edits, {spent:.0f} s of CPU, {idle / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at most"
        )
    pace = statistics.median(one.pace for one in streamed)
    return [
        Sample(MEMORY, float(peak), float(_LIMIT_BYTES)),
        Sample(PACE, pace, float(_CHUNKS_A_SECOND)),
        Sample(COST, spent / (chats * words) * 1e6, floor * 1e6),
    ]


def _serving(url: str, address: str, chats: int) -> Serving:
    return Serving(
        url=url,
        address=address,
        people=chats,
        turns_at_once=chats,
        agent='kind = "function"\ncall = "bench.streaming:answer"',
        capabilities="{ max_length = 4096, edit = true, edit_interval = 1.0 }",
    )


def _streamed(chat: ScriptedChat, words: int) -> list[Streamed]:
    """The answers that are complete, to the word."""
    whole = "".join(f"{number} " for number in range(1, words + 1))
    ends = [message.text.removeprefix(whole).split() for message in chat.messages() if message.text.startswith(whole)]
    return [Streamed(float(end[0]), float(end[1]), words) for end in ends if len(end) == 2]


def _told(streamed: Sequence[Streamed]) -> str:
    together = min(one.ended for one in streamed) - max(one.began for one in streamed)
    slowest = min(one.pace for one in streamed)
    return f"all at once for {max(0.0, together):.0f} s, the slowest with {slowest:.1f} a second"


def _edits(chat: ScriptedChat) -> int:
    return sum(len(message.edits) for message in chat.messages())
