"""Loading transcripts: the cost is that of what is returned, not of what is stored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle

from bench import prepare
from bench.measure import Figure, Sample, interleave
from bench.stage import Stage, source
from threadline import SessionStore

LAST = Figure(name="last 50 of 10,000 messages", unit="microseconds", beside="last 50 of 100", at_most=1.5)
AMONG = Figure(
    name="last 50, among 100,000 sessions",
    unit="microseconds",
    beside="last 50 of 100, few sessions",
    at_most=2.5,
)
RAW = Figure(name="last 50 of 10,000, against SQL", unit="microseconds", beside="raw select + JSON parse", at_most=2.5)
ALL = Figure(name="all of 10,000 messages", unit="microseconds", beside="raw select + JSON parse", at_most=1.5)
_PIECE = 100


def last_50(stage: Stage) -> Iterator[Sample]:
    """The last fifty of a long session, and of one among very many; and of the long one beside the bare driver."""
    times = stage.scaled(400, least=10)
    count = stage.scaled(10_000, least=200)
    spread_url, spread = prepare.wide(stage)
    draw = random.Random(stage.corpus.seed)
    with (
        stage.store(stage.places.fresh("reads")) as store,
        stage.store(spread_url, check=False) as wide,
        stage.floor(count) as raw,
    ):
        long, short = filled(stage, store, 0, count), filled(stage, store, 1, 100)
        chosen = [spread.source(number) for number in draw.sample(spread.long, min(200, len(spread.long)))]
        many = cycle([wide.get_or_create_session(place).session_id for place in chosen])
        floor, work = interleave(
            lambda: store.load_transcript(short, limit=50),
            lambda: store.load_transcript(long, limit=50),
            times=times,
        )
        yield Sample(LAST, work, floor)
        floor, work = interleave(
            lambda: store.load_transcript(short, limit=50),
            lambda: wide.load_transcript(next(many), limit=50),
            times=times,
        )
        yield Sample(AMONG, work, floor)
        raw.fill()
        assert store.load_transcript(long, limit=50) == raw.load(50)
        floor, work = interleave(lambda: raw.load(50), lambda: store.load_transcript(long, limit=50), times=times)
        yield Sample(RAW, work, floor)


def load_all(stage: Stage) -> Iterator[Sample]:
    """A whole long session against the bare driver and a parser."""
    count = stage.scaled(10_000, least=200)
    with stage.store(stage.places.fresh("reads")) as store, stage.floor(count) as floor:
        session = filled(stage, store, 0, count)
        floor.fill()
        assert store.load_transcript(session) == floor.load()
        raw, work = interleave(floor.load, lambda: store.load_transcript(session), times=stage.scaled(15, least=3))
        yield Sample(ALL, work, raw)


def filled(stage: Stage, store: SessionStore, number: int, count: int) -> str:
    """The id of a new session with the first `count` messages of the corpus; the index knows them."""
    session = store.get_or_create_session(source(number, number)).session_id
    for start in range(0, count, _PIECE):
        piece = stage.corpus.messages(start, min(_PIECE, count - start))
        store.append_to_transcript(session, piece, idempotency_key=f"piece:{start}")
    store.index_pending()
    return session
