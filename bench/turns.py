"""Whole turns, and finding a session: with a hundred thousand sessions as with ten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

from bench import prepare
from bench.measure import Figure, Sample, alternate, cost
from bench.places import Floor
from bench.stage import Stage
from threadline import AsyncSessionStore, SessionSource, SessionStore

_FEW = "the same with 10 sessions"
ONE = Figure(name="whole turn, one caller", unit="microseconds", beside=_FEW, at_most=1.4)
MANY = Figure(name="whole turn, 64 async callers", unit="microseconds", beside=_FEW, at_most=3.0)
RESOLVE = Figure(name="resolve an existing session", unit="microseconds", beside=_FEW, at_most=1.25)
RESOLVE_RAW = Figure(
    name="resolve, against SQL",
    unit="microseconds",
    beside="raw select + update, one commit, as many sessions",
    at_most=2.5,
)
_CALLERS = 64
_SPENT: dict[str, Any] = {"input_tokens": 900, "output_tokens": 200, "cost_usd": 0.01, "model": "some-model"}


class Turns:
    """Draws who speaks next, in a session that shows at least fifty messages, and what is said."""

    def __init__(self, stage: Stage, spread: prepare.Spread) -> None:
        self._draw = random.Random(stage.corpus.seed)
        self._sources = [spread.source(number) for number in spread.long]
        self._texts = [stage.corpus.text(number) for number in range(500)]
        self._numbers = count()

    def source(self) -> SessionSource:
        """Where the next message comes from."""
        return self._draw.choice(self._sources)

    def next(self) -> tuple[str, list[dict[str, Any]]]:
        """The turn's name and its messages: question, tool call, tool result."""
        number = next(self._numbers)
        text, result = self._texts[number % 500], self._texts[(number + 250) % 500]
        call = {
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": "look", "arguments": '{"at": "it"}'},
        }
        return f"turn:{number}", [
            {"role": "user", "content": text},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": result},
        ]

    def take(self, store: SessionStore, times: int) -> int:
        """So many turns by one blocking caller."""
        for _ in range(times):
            turn, messages = self.next()
            session = store.get_or_create_session(self.source()).session_id
            for place, message in enumerate(messages):
                store.append_to_transcript(session, message, idempotency_key=f"{turn}:{place}")
            store.record_usage(session, turn, **_SPENT)
            _require_fifty(store.load_transcript(session, limit=50))
        return times

    async def take_async(self, store: AsyncSessionStore, times: int) -> int:
        """So many turns by each of the callers, all at once."""
        await asyncio.gather(*(self._take_some(store, times) for _ in range(_CALLERS)))
        return times * _CALLERS

    async def _take_some(self, store: AsyncSessionStore, times: int) -> None:
        for _ in range(times):
            turn, messages = self.next()
            session = (await store.get_or_create_session(self.source())).session_id
            for place, message in enumerate(messages):
                await store.append_to_transcript(session, message, idempotency_key=f"{turn}:{place}")
            await store.record_usage(session, turn, **_SPENT)
            _require_fifty(await store.load_transcript(session, limit=50))


def turn_scale(stage: Stage) -> Iterator[Sample]:
    """A turn: resolve, three appends, usage, the last fifty messages."""
    yield _turns(stage)
    yield _async_turns(stage)


def resolve_scale(stage: Stage) -> Iterator[Sample]:
    """Resolving a session that is there and fresh: a look, and a touch that is made durable."""
    (many_url, many), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    times = stage.scaled(1_000, least=20)
    with stage.store(many_url, check=stage.is_last) as wide, stage.store(few_url) as narrow:
        floor = partial(_resolve, narrow, few, random.Random(1), times)
        work = partial(_resolve, wide, many, random.Random(1), times)
        # A journal that still grows costs more to sync than one that is written over: both are past that before anything counts.
        _resolve(narrow, few, random.Random(2), times * 5)
        _resolve(wide, many, random.Random(2), times * 5)
        yield cost(RESOLVE, alternate(floor, work))
        with stage.floor() as raw:
            raw.fill_sessions(many.sessions)
            bare = partial(_resolve_raw, raw, many.sessions, random.Random(1), times)
            for _ in range(5):
                bare()
            yield cost(RESOLVE_RAW, alternate(bare, work))


def _resolve(store: SessionStore, spread: prepare.Spread, draw: random.Random, times: int) -> int:
    for _ in range(times):
        store.get_or_create_session(spread.source(draw.randrange(spread.sessions)))
    return times


def _resolve_raw(floor: Floor, sessions: int, draw: random.Random, times: int) -> int:
    for _ in range(times):
        floor.resolve(draw.randrange(sessions))
    return times


def _turns(stage: Stage) -> Sample:
    (many_url, many), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    times = stage.scaled(300, least=10)
    with stage.store(many_url, check=stage.is_last) as wide, stage.store(few_url) as narrow:
        floor = partial(Turns(stage, few).take, narrow, times)
        work = partial(Turns(stage, many).take, wide, times)
        return cost(ONE, alternate(floor, work, between=lambda: (wide.index_pending(), narrow.index_pending())))


def _async_turns(stage: Stage) -> Sample:
    (many_url, many), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    times = stage.scaled(20, least=2)
    with (
        stage.async_store(many_url, check=stage.is_last) as (loop, wide),
        stage.async_store(few_url) as (other_loop, narrow),
    ):
        many_turns, few_turns = Turns(stage, many), Turns(stage, few)
        paces = alternate(
            lambda: other_loop.run(few_turns.take_async(narrow, times)),
            lambda: loop.run(many_turns.take_async(wide, times)),
            between=lambda: (loop.run(wide.index_pending()), other_loop.run(narrow.index_pending())),
        )
    return cost(MANY, paces)


def _require_fifty(messages: list[dict[str, Any]]) -> None:
    assert len(messages) == 50, "both stores load as much"
