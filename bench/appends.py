"""Durable appends: many callers at once, and a lone one, against one commit an append."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from bench import prepare
from bench.floor import SqliteFloor
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
SUSTAINED = Figure(
    name="append for 60 s and index all, 64 async callers",
    unit="per second",
    beside="apsw + FTS5, one commit an append",
    at_least=1.5,
    aim=2.0,
)
_ROUNDS = 4


class Writers:
    """Callers who append without a pause, each to a session of its own, every message with its own key."""

    def __init__(self, store: AsyncSessionStore, sessions: Sequence[str], messages: Sequence[dict[str, Any]]) -> None:
        self._store = store
        self._sessions = sessions
        self._messages = messages
        self._keys = count()

    async def run_for(self, seconds: float) -> int:
        """Every caller appends until that time is over; then all that was appended is indexed."""
        end = time.perf_counter() + seconds
        rounds = 0
        while time.perf_counter() < end:
            await self.run(10)
            rounds += 1
        await prepare.level(self._store)
        return rounds * 10 * len(self._sessions)

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


def append_sustained(stage: Stage) -> Iterator[Sample]:
    """64 callers for a minute, the index level at its end; before and after it half a minute of the bare driver."""
    seconds = stage.scaled(60)
    path = stage.places.fresh("floor-sustained")
    with closing(SqliteFloor(Path(path.removeprefix("sqlite://")), stage.bodies(1_000))) as raw:
        raw.index_words()
        with stage.async_store(stage.places.fresh("appends")) as (runner, store):
            writers = _writers(stage, runner, store, 64)
            paces = alternate(
                lambda: _append_for(raw, seconds / 2), lambda: runner.run(writers.run_for(seconds)), rounds=1
            )
    yield rate(SUSTAINED, paces)


def _append_for(floor: SqliteFloor, seconds: float) -> int:
    end = time.perf_counter() + seconds
    done = 0
    while time.perf_counter() < end:
        done += floor.append(64)
    return done


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
        writers = _writers(stage, runner, store, callers)
        paces = alternate(
            lambda: raw.append(floor),
            lambda: runner.run(writers.run(each)),
            rounds=_ROUNDS,
            between=lambda: runner.run(store.index_pending()),
        )
    return rate(figure, paces)


def _writers(stage: Stage, runner: asyncio.Runner, store: AsyncSessionStore, callers: int) -> Writers:
    entries = [runner.run(store.get_or_create_session(source(n))) for n in range(callers)]
    return Writers(store, [entry.session_id for entry in entries], stage.corpus.messages(0, 1_000))
