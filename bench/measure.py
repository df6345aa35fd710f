"""Figures, their bars, and how a workload is timed beside its floor."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

Unit: TypeAlias = Literal["per second", "microseconds", "bytes", "count"]
# Does a stretch of work and tells how many operations it was.
Work: TypeAlias = Callable[[], int]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio that is held against a bar: `at_least` or `at_most`.

    `or_within` forgives a ratio whose difference, in the figure's unit, is no larger.
    """

    name: str
    unit: Unit
    beside: str
    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None
    or_within: float | None = None

    @property
    def bar(self) -> float | None:
        """The bar, whichever way it is meant; `None` for a figure that is only reported."""
        return self.at_most if self.at_least is None else self.at_least


class Sample(msgspec.Struct, frozen=True):
    """What one run measured, and what stood beside it in the same run."""

    figure: Figure
    measured: float
    floor: float

    @property
    def ratio(self) -> float:
        """The measured value in units of the floor."""
        return self.measured / self.floor if self.floor else float("inf")


class Pace(msgspec.Struct, frozen=True):
    """Operations done and the time that they took."""

    operations: int
    seconds: float

    @property
    def per_second(self) -> float:
        """How many a second."""
        return self.operations / self.seconds

    @property
    def microseconds(self) -> float:
        """How long each took."""
        return self.seconds / self.operations * 1_000_000


def peak_bytes(process: int | str = "self") -> int:
    """The most memory that a process ever had. Not `ru_maxrss`: a child inherits that from the process that started it."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def cpu_seconds(process: int) -> float:
    """The time that a process has computed so far, all its threads together."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def timed(work: Work) -> Pace:
    """The work, once, on the clock."""
    started = time.perf_counter()
    operations = work()
    return Pace(operations, time.perf_counter() - started)


def alternate(
    floor: Work, work: Work, *, rounds: int = 3, between: Callable[[], object] | None = None
) -> tuple[Pace, Pace]:
    """The pace of the floor and of the work, in turn: floor, work, floor, …, floor.

    The disk's speed drifts by a factor of four within minutes, so the two are never far apart in time.
    `between` runs off the clock after each stretch, to leave nothing behind that would run into the next.
    """
    floors, works = [], []
    for _ in range(rounds):
        floors.append(_stretch(floor, between))
        works.append(_stretch(work, between))
    floors.append(_stretch(floor, between))
    return _mean(floors), _mean(works)


def interleave(floor: Callable[[], object], work: Callable[[], object], *, times: int) -> tuple[float, float]:
    """Median microseconds of two short operations, done in turn."""
    for _ in range(3):
        floor()
        work()
    floors, works = [], []
    for _ in range(times):
        floors.append(_microseconds(floor))
        works.append(_microseconds(work))
    return statistics.median(floors), statistics.median(works)


def rate(figure: Figure, paces: tuple[Pace, Pace]) -> Sample:
    """A sample of how many a second, floor and work."""
    floor, work = paces
    return Sample(figure, work.per_second, floor.per_second)


def cost(figure: Figure, paces: tuple[Pace, Pace]) -> Sample:
    """A sample of microseconds an operation, floor and work."""
    floor, work = paces
    return Sample(figure, work.microseconds, floor.microseconds)


def say(text: str) -> None:
    """Progress, for whoever watches."""
    print(text, file=sys.stderr, flush=True)


def _microseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1_000_000


def _stretch(work: Work, between: Callable[[], object] | None) -> Pace:
    pace = timed(work)
    if between is not None:
        between()
    return pace


def _mean(paces: Sequence[Pace]) -> Pace:
    return Pace(sum(pace.operations for pace in paces), sum(pace.seconds for pace in paces))
