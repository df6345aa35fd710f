"""A fresh process: open, one resolve, one search, one page. Run as a module it is that process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from bench import prepare
from bench.measure import Figure, Sample, peak_bytes
from bench.stage import Stage
from threadline import SessionSource, SessionStore

_FEW = "the same with 10 sessions"
TIME = Figure(name="open, resolve, search, one page: time", unit="microseconds", beside=_FEW, at_most=1.5)
MEMORY = Figure(name="open, resolve, search, one page: memory", unit="bytes", beside=_FEW, at_most=1.2)
_TIMES = 7


class Opening(msgspec.Struct, frozen=True):
    """What the process saw of itself."""

    microseconds: float
    peak_bytes: int


def open_scale(stage: Stage) -> Iterator[Sample]:
    """The same first steps in a store of a hundred thousand sessions and in one of ten, in turn."""
    (many_url, many), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    word = stage.corpus.commonest_word
    floors, works = [], []
    for _ in range(_TIMES):
        floors.append(_in_fresh_process(few_url, few.source(0), word))
        works.append(_in_fresh_process(many_url, many.source(0), word))
    yield Sample(TIME, *(statistics.median(o.microseconds for o in found) for found in (works, floors)))
    yield Sample(MEMORY, *(float(statistics.median(o.peak_bytes for o in found)) for found in (works, floors)))
    if stage.is_last:
        stage.check(few_url)


def first_steps(url: str, place: SessionSource, word: str) -> Opening:
    """What a process does first, timed from the opening on."""
    started = time.perf_counter()
    with SessionStore.open(url) as store:
        store.get_or_create_session(place)
        assert len(store.search(word, viewer=place))
        # As many as the small store holds: both read a page of the same length.
        assert len(store.list_sessions(limit=10)) == 10
        seconds = time.perf_counter() - started
        return Opening(seconds * 1_000_000, peak_bytes())


def _in_fresh_process(url: str, place: SessionSource, word: str) -> Opening:
    command = [sys.executable, "-m", "bench.opening", url, msgspec.json.encode(place).decode(), word]
    finished = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return msgspec.json.decode(finished.stdout, type=Opening)


if __name__ == "__main__":
    _, location, raw_source, common = sys.argv
    opened = first_steps(location, msgspec.json.decode(raw_source, type=SessionSource), common)
    sys.stdout.buffer.write(msgspec.json.encode(opened))
