"""Four processes on one file. Run as a module it is one of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.appends import Writers
from bench.corpus import Corpus
from bench.measure import Figure, Sample
from bench.stage import Stage, source
from threadline import AsyncSessionStore

RATE = Figure(name="four processes, 16 callers each", unit="per second", beside="one process, 16 callers", at_least=0.5)
FAIRNESS = Figure(name="four processes: the slowest", unit="per second", beside="the fastest", at_least=0.7)
_CALLERS = 16
_PROCESSES = 4
_STEP = 4


class Done(msgspec.Struct, frozen=True):
    """What one process appended, and how long it took."""

    appended: int
    seconds: float

    @property
    def per_second(self) -> float:
        """How many a second."""
        return self.appended / self.seconds


def four_processes(stage: Stage) -> Iterator[Sample]:
    """All four append for the same few seconds; one alone does so before and after."""
    url = stage.places.fresh("processes")
    seconds = max(0.5, 4.0 * min(1.0, stage.scaled(100) / 100))
    before = _run(url, seconds, first=0, processes=1)
    together = _run(url, seconds, first=1, processes=_PROCESSES)
    after = _run(url, seconds, first=1 + _PROCESSES, processes=1)
    alone = (before[0].per_second + after[0].per_second) / 2
    rates = [done.per_second for done in together]
    yield Sample(RATE, sum(rates), alone)
    yield Sample(FAIRNESS, min(rates), max(rates))
    stage.check(url)


async def append_for(url: str, seconds: float, person: int) -> Done:
    """Says when it is ready, waits for a line, and then appends for so long."""
    messages = Corpus().messages(0, 1_000)
    async with await AsyncSessionStore.open(url) as store:
        entries = [await store.get_or_create_session(source(person * 100 + n, person)) for n in range(_CALLERS)]
        writers = Writers(store, [entry.session_id for entry in entries], messages)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        started, appended = time.perf_counter(), 0
        while (passed := time.perf_counter() - started) < seconds:
            appended += await writers.run(_STEP)
        return Done(appended, passed)


def _run(url: str, seconds: float, *, first: int, processes: int) -> list[Done]:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.processes", url, str(seconds), str(first + n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for n in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=seconds + 120)[0] for process in started]
    return [msgspec.json.decode(output, type=Done) for output in outputs]


if __name__ == "__main__":
    _, location, length, number = sys.argv
    print(msgspec.json.encode(asyncio.run(append_for(location, float(length), int(number)))).decode())
