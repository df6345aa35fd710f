"""Stores that several workloads start from, built through the public interface by many callers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from bench.measure import say
from bench.stage import Stage, source
from threadline import AsyncSessionStore, SessionSource

_CALLERS = 128
# Every person has ten sessions; one person in fifty has long ones, filled in turn, so that they interleave.
_SESSIONS_EACH = 10
_LONG_EVERY = 50
LONG = 50


class Spread:
    """Many sessions of one message, and among them some of `LONG` messages."""

    def __init__(self, sessions: int) -> None:
        """`long` are the numbers of the long sessions: in the smallest store all ten, and person 0's."""
        self.sessions = sessions
        self._persons = max(1, sessions // _SESSIONS_EACH)
        self.long = [n for n in range(sessions) if n % self._persons % _LONG_EVERY == 0]

    def source(self, number: int) -> SessionSource:
        """The place of session `number`; the sessions of a person lie far apart."""
        return source(number, number % self._persons)


def wide(stage: Stage) -> tuple[str, Spread]:
    """A store of a hundred thousand sessions."""
    return _spread(stage, "wide", stage.sessions)


def narrow(stage: Stage) -> tuple[str, Spread]:
    """A store of ten sessions, like ten of the others."""
    return _spread(stage, "narrow", _SESSIONS_EACH)


def library(stage: Stage) -> str:
    """A store with the whole corpus, a hundred messages a session, and nothing else."""
    return stage.prepared("library", lambda url: asyncio.run(_fill_library(stage, url)))


def _spread(stage: Stage, name: str, sessions: int) -> tuple[str, Spread]:
    spread = Spread(sessions)
    return stage.prepared(name, lambda url: asyncio.run(_fill_spread(stage, url, spread))), spread


async def _fill_spread(stage: Stage, url: str, spread: Spread) -> None:
    async with await AsyncSessionStore.open(url) as store:
        ids: dict[int, str] = {}

        async def begin(number: int) -> None:
            entry = await store.get_or_create_session(spread.source(number))
            ids[number] = entry.session_id
            await _append(stage, store, entry.session_id, number, place=0)

        await _by_many(map(partial(partial, begin), range(spread.sessions)))
        say(f"    {spread.sessions:,} sessions")
        for place in range(1, LONG):
            jobs = (
                partial(_append, stage, store, ids[n], spread.sessions + place * len(spread.long) + i, place)
                for i, n in enumerate(spread.long)
            )
            await _by_many(jobs)
        await level(store)
        say("    long ones filled, index level")


async def _fill_library(stage: Stage, url: str) -> None:
    corpus = stage.corpus
    sessions = max(1, corpus.size // 100)
    async with await AsyncSessionStore.open(url) as store:
        entries = [await store.get_or_create_session(source(n, n)) for n in range(sessions)]
        jobs = (
            partial(_append, stage, store, entries[n % sessions].session_id, n, n // sessions)
            for n in range(corpus.size)
        )
        await _by_many(jobs)
        await level(store)
        say(f"    {corpus.size:,} messages in {sessions:,} sessions, index level")


async def level(store: AsyncSessionStore) -> None:
    """Indexes until the store itself says that nothing is left: a store that is behind measures something else."""
    await store.index_pending()
    while behind := (await store.facts()).unindexed:
        say(f"    index_pending came back with {behind:,} messages to go; asking again")
        await store.index_pending()


async def _append(stage: Stage, store: AsyncSessionStore, session: str, number: int, place: int) -> None:
    await store.append_to_transcript(session, stage.corpus.message(number), idempotency_key=f"m:{place}")


async def _by_many(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """The jobs in order, as many at a time as there are callers."""
    waiting = iter(jobs)

    async def caller() -> None:
        for job in waiting:
            await job()

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
