"""Runs the workloads, writes JSON, prints a table; exits with 1 if a bar was missed."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from bench.corpus import MESSAGES, SEED, Corpus
from bench.measure import Sample, say
from bench.places import Places, PostgresPlaces, SqlitePlaces
from bench.report import Outcome, judge, print_table, write_json
from bench.stage import CheckLine, Stage
from bench.workloads import WORKLOADS, Workload


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every bar was cleared and every check was clean. 1: not so; which, is told."""
    chosen = _parser().parse_args(arguments)
    # So that a run that is told to stop still removes its databases and stops its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    corpus = Corpus(chosen.seed, max(1_000, round(MESSAGES * chosen.scale)))
    say(f"seed {chosen.seed}, scale {chosen.scale:g}, {chosen.runs} runs, output in {chosen.out}")
    outcome = Outcome(seed=chosen.seed, scale=chosen.scale, runs=chosen.runs, verdicts=[], checks=[])
    for engine in ("sqlite", "postgres") if chosen.engine == "both" else (chosen.engine,):
        workloads = list(_chosen(chosen.only, engine))
        if not workloads:
            continue
        with closing(_places(engine, chosen.out)) as places:
            for workload in workloads:
                samples = _run(workload, places, corpus, chosen, outcome.checks)
                outcome.verdicts.extend(judge(workload.name, engine, samples))
                # Written as it grows: a run that is interrupted keeps what it has.
                write_json(outcome, chosen.out)
    print_table(outcome)
    print(f"written: {chosen.out / 'latest.json'}")
    for missed in outcome.missed:
        print(f"MISSED {missed}")
    return 1 if outcome.missed else 0


def _run(
    workload: Workload, places: Places, corpus: Corpus, chosen: argparse.Namespace, checks: list[CheckLine]
) -> list[Sample]:
    samples: list[Sample] = []
    for run in range(1, chosen.runs + 1):
        started = time.monotonic()
        stage = Stage(places, corpus, scale=chosen.scale, workload=workload.name, is_last=run == chosen.runs)
        found = list(workload.run(stage))
        checks += stage.checks
        samples += found
        ratios = ", ".join(f"{sample.ratio:.2f}" for sample in found)
        took = time.monotonic() - started
        say(f"{places.engine} {workload.name} {run}/{chosen.runs}: {ratios} ({took:.0f} s)")
    return samples


def _chosen(only: str | None, engine: str) -> Iterator[Workload]:
    names = None if only is None else only.split(",")
    known = {workload.name for workload in WORKLOADS}
    if unknown := sorted(set(names or ()) - known):
        sys.exit(f"no workload is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    for workload in WORKLOADS:
        if engine in workload.engines and (names is None or workload.name in names):
            yield workload


def _places(engine: str, out: Path) -> Places:
    return SqlitePlaces(out) if engine == "sqlite" else PostgresPlaces(out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME[,NAME]", help=f"of {', '.join(w.name for w in WORKLOADS)}")
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--runs", type=int, default=3, help="each figure is the median of so many (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="shrinks every count, for a quick look (1.0)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the corpus ({SEED})")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results and prepared stores")
    return parser


if __name__ == "__main__":
    sys.exit(main())
