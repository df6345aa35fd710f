"""Durable appends: many callers at once, and a lone one, against one commit an append."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from bench.measure import Figure, Sample, alternate, rate
from bench.stage import Stage, source
from threadline import AsyncSessionStore, SessionStore

MANY = Figure(
    name="append, 64 async callers",
    unit="per second",
    beside="apsw, one commit an append",
    at_least=4.0,
    aim=6.0,
)
ONE = Figure(
    name="append, one blocking caller",
    unit="per second",
    beside="apsw, one commit an append",
    at_least=0.65,
    aim=0.8,
)
ONE_ASYNC = Figure(
    name="append, one async caller", unit="per second", beside="apsw, one commit an append", at_least=0.45
)
POSTGRES = Figure(
    name="append, 32 async callers",
    unit="per second",
    beside="psycopg, 32 connections, one commit an append",
    at_least=0.7,
    aim=1.3,
)
_ROUNDS = 4


class Writers:
    """Callers who append without a pause, each to a session of its own, every message with its own key."""

    def __init__(self, store: AsyncSessionStore, sessions: Sequence[str], messages: Sequence[dict[str, Any]]) -> None:
        self._store = store
        self._sessions = sessions
        self._messages = messages
        self._keys = count()

    async def run(self, each: int) -> int:
        """Every caller appends `each` messages."""
        await asyncio.gather(*(self._one(session, each) for session in self._sessions))
        return each * len(self._sessions)

    async def _one(self, session: str, each: int) -> None:
        append, messages, keys = self._store.append_to_transcript, self._messages, self._keys
        for _ in range(each):
            number = next(keys)
            await append(session, messages[number % len(messages)], idempotency_key=f"m:{number}")


def append_64_async(stage: Stage) -> Iterator[Sample]:
    """64 callers on an event loop."""
    yield _async(stage, MANY, callers=64, each=stage.scaled(100), floor=stage.scaled(1_500))


def append_1_async(stage: Stage) -> Iterator[Sample]:
    """One caller on an event loop."""
    yield _async(stage, ONE_ASYNC, callers=1, each=stage.scaled(1_500), floor=stage.scaled(1_500))


def postgres_append_32(stage: Stage) -> Iterator[Sample]:
    """32 callers, against 32 connections that know of no one else."""
    count = stage.scaled(3_200, least=32)
    yield _async(stage, POSTGRES, callers=32, each=count // 32, floor=count, connections=32)


def append_1_blocking(stage: Stage) -> Iterator[Sample]:
    """One caller who waits for each append."""
    messages = stage.corpus.messages(0, 1_000)
    keys = count()
    each = stage.scaled(1_500)
    url = stage.places.fresh("appends")
    with stage.floor() as floor, stage.store(url) as store:
        session = store.get_or_create_session(source(0)).session_id

        def work() -> int:
            return _append_each(store, session, messages, keys, each)

        paces = alternate(lambda: floor.append(each), work, rounds=_ROUNDS, between=store.index_pending)
    yield rate(ONE, paces)


def _append_each(
    store: SessionStore, session: str, messages: Sequence[dict[str, Any]], keys: Iterator[int], each: int
) -> int:
    for _ in range(each):
        number = next(keys)
        store.append_to_transcript(session, messages[number % len(messages)], idempotency_key=f"m:{number}")
    return each


def _async(stage: Stage, figure: Figure, *, callers: int, each: int, floor: int, connections: int = 1) -> Sample:
    url = stage.places.fresh("appends")
    with stage.floor(connections=connections) as raw, stage.async_store(url) as (runner, store):
        entries = [runner.run(store.get_or_create_session(source(n))) for n in range(callers)]
        writers = Writers(store, [entry.session_id for entry in entries], stage.corpus.messages(0, 1_000))
        paces = alternate(
            lambda: raw.append(floor),
            lambda: runner.run(writers.run(each)),
            rounds=_ROUNDS,
            between=lambda: runner.run(store.index_pending()),
        )
    return rate(figure, paces)
