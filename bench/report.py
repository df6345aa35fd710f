"""What was measured, for programs and for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.measure import Figure, Sample
from bench.stage import CheckLine


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over all runs: medians, and whether it clears its bar."""

    workload: str
    engine: str
    figure: Figure
    ratio: float
    measured: float
    floor: float
    ratios: list[float]
    passed: bool
    reached_aim: bool


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All of one `python -m bench`."""

    seed: int
    scale: float
    runs: int
    verdicts: list[Verdict]
    checks: list[CheckLine]

    @property
    def missed(self) -> list[str]:
        """What was not good enough, a sentence each."""
        bars = [
            f"{v.engine}: {v.figure.name} is {times(v.ratio)}, not {bar_text(v.figure)}"
            for v in self.verdicts
            if not v.passed
        ]
        faults = [
            f"{line.engine}: after {line.workload} check found: {line.faults[0]}" for line in self.checks if line.faults
        ]
        return [*bars, *dict.fromkeys(faults)]


def judge(workload: str, engine: str, samples: Sequence[Sample]) -> list[Verdict]:
    """One verdict a figure, on the median of its runs."""
    by_figure: dict[Figure, list[Sample]] = {}
    for sample in samples:
        by_figure.setdefault(sample.figure, []).append(sample)
    return [_verdict(workload, engine, figure, several) for figure, several in by_figure.items()]


def write_json(outcome: Outcome, folder: Path) -> Path:
    """`latest.json` holds the whole run; every workload has a file too, kept by runs without it."""
    folder.mkdir(parents=True, exist_ok=True)
    for workload, engine in dict.fromkeys((verdict.workload, verdict.engine) for verdict in outcome.verdicts):
        own = [v for v in outcome.verdicts if (v.workload, v.engine) == (workload, engine)]
        part = msgspec.structs.replace(
            outcome, verdicts=own, checks=[c for c in outcome.checks if (c.workload, c.engine) == (workload, engine)]
        )
        _write(part, folder / f"{workload}.{engine}.json")
    return _write(outcome, folder / "latest.json")


def print_table(outcome: Outcome) -> None:
    """The table that a person reads."""
    table = Table(title=f"median of {outcome.runs} runs, scale {outcome.scale:g}, seed {outcome.seed}")
    for heading in ("engine", "workload", "bar", "aim", "ratio", "runs", "measured", "floor", "beside", ""):
        table.add_column(heading, overflow="fold")
    for verdict in outcome.verdicts:
        figure = verdict.figure
        table.add_row(
            verdict.engine,
            figure.name,
            bar_text(figure),
            "" if figure.aim is None else times(figure.aim),
            times(verdict.ratio),
            " ".join(f"{ratio:.2f}" for ratio in verdict.ratios),
            _amount(verdict.measured, figure),
            _amount(verdict.floor, figure),
            figure.beside,
            "pass" if verdict.passed else "MISSED",
        )
    Console(width=200).print(table)
    looked_at = sum(line.messages for line in outcome.checks)
    faults = sum(len(line.faults) for line in outcome.checks)
    print(f"check: {len(outcome.checks)} stores, {looked_at:,} messages, {faults or 'no'} faults")


def bar_text(figure: Figure) -> str:
    """The bar in a few characters."""
    if figure.bar is None:
        return ""
    text = f"{'≤' if figure.at_least is None else '≥'} {times(figure.bar)}"
    return text if figure.or_within is None else f"{text} or + {figure.or_within / 1_000:g} ms"


def times(ratio: float) -> str:
    """A ratio as people write it."""
    return f"{ratio:.2f} \u00d7"


def _verdict(workload: str, engine: str, figure: Figure, samples: Sequence[Sample]) -> Verdict:
    ratio = statistics.median(sample.ratio for sample in samples)
    measured = statistics.median(sample.measured for sample in samples)
    floor = statistics.median(sample.floor for sample in samples)
    near = figure.or_within is not None and measured - floor <= figure.or_within
    return Verdict(
        workload=workload,
        engine=engine,
        figure=figure,
        ratio=round(ratio, 3),
        measured=round(measured, 1),
        floor=round(floor, 1),
        ratios=[round(sample.ratio, 3) for sample in samples],
        passed=near or _clears(ratio, figure, figure.bar),
        reached_aim=_clears(ratio, figure, figure.aim),
    )


def _clears(ratio: float, figure: Figure, bar: float | None) -> bool:
    if bar is None:
        return True
    return ratio <= bar if figure.at_least is None else ratio >= bar


def _amount(value: float, figure: Figure) -> str:
    match figure.unit:
        case "per second":
            return f"{value:,.0f} /s"
        case "microseconds":
            return f"{value / 1_000:,.3f} ms"
        case "bytes":
            return f"{value / 1_000_000:,.1f} MB"
        case _:
            return f"{value:,.0f}"


def _write(outcome: Outcome, path: Path) -> Path:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=2) + b"\n")
    return path
