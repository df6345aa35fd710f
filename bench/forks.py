"""Forks and undo: views, not copies."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import Figure, Sample, interleave
from bench.reads import filled
from bench.stage import Stage
from threadline import SessionStore

FORK = Figure(name="fork at 10,000 messages", unit="microseconds", beside="fork at 10", at_most=1.5)
UNDONE = Figure(name="load after 200 undos", unit="microseconds", beside="load after none", at_most=1.5)
_UNDOS = 200


def fork_scale(stage: Stage) -> Iterator[Sample]:
    """Forking a long session, and loading one with a past of undos."""
    with stage.store(stage.places.fresh("forks")) as store:
        long, short = filled(stage, store, 0, stage.scaled(10_000, least=200)), filled(stage, store, 1, 10)
        floor, work = interleave(
            lambda: store.fork_session(short),
            lambda: store.fork_session(long),
            times=stage.scaled(200, least=10),
        )
        yield Sample(FORK, work, floor)
        calm, undone = filled(stage, store, 2, 100), filled(stage, store, 3, 100)
        for number in range(stage.scaled(_UNDOS, least=10)):
            _say_and_undo(store, undone, number)
        assert store.load_transcript(calm) == store.load_transcript(undone)
        floor, work = interleave(
            lambda: store.load_transcript(calm),
            lambda: store.load_transcript(undone),
            times=stage.scaled(400, least=10),
        )
        yield Sample(UNDONE, work, floor)


def _say_and_undo(store: SessionStore, session: str, number: int) -> None:
    exchange = [
        {"role": "user", "content": "no, not that"},
        {"role": "assistant", "content": f"this, then: {number}"},
    ]
    store.append_to_transcript(session, exchange, idempotency_key=f"undone:{number}")
    store.rewind_session(session)
