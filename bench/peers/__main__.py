"""Runs the same work through Threadline and its peers in turn; writes JSON and prints a table for the docs."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.corpus import SEED, Corpus
from bench.measure import say
from bench.searches import questions

_ROOT = Path(__file__).parents[2]
# By the name of the driver, which is the name of its environment too.
PEERS = {
    "ours": "Threadline",
    "compat": "`threadline.compat`",
    "hermes": "hermes-agent 0.19.0",
    "openai_agents": "OpenAI Agents 0.24.0 `SQLiteSession`",
    "langgraph_saver": "LangGraph `SqliteSaver` 3.1.2",
}
_EACH = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all programs were driven; what they print as an error ends the run."""
    chosen = _parser().parse_args(arguments)
    work = _workload(chosen.scale, chosen.seed)
    runs: dict[str, list[dict[str, Any]]] = {driver: [] for driver in PEERS}
    for run in range(1, chosen.runs + 1):
        for driver, name in PEERS.items():
            say(f"{name}, run {run}/{chosen.runs}")
            runs[driver].append(_drive(driver, work, chosen.out))
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "peers.json").write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=2) + b"\n")
    print(table(runs))
    return 0


def table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Return the best of the runs as a Markdown table: milliseconds by the clock, and of the processors."""
    lines = [["ms by the clock (of CPU)", *(PEERS[driver] for driver in runs)], ["---", *("---:" for _ in runs)]]
    for name in next(iter(runs.values()))[0]["figures"]:
        cells = [_cell([run["figures"][name] for run in several]) for several in runs.values()]
        lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(costs: list[Any]) -> str:
    """Whatever else a machine does only adds to a figure, so the least is nearest to what the program costs."""
    if None in costs:
        return "none"
    clock, processors = (min(part) for part in zip(*costs, strict=True))
    return f"{clock:.2g} ({processors:.2g})"


def _workload(scale: float, seed: int) -> dict[str, Any]:
    many = max(20, round(200 * scale))
    corpus = Corpus(seed, many * _EACH)
    return {
        "messages": corpus.messages(0, corpus.size),
        "queries": questions(corpus),
        "few": 10,
        "many": many,
        "each": _EACH,
        "long": max(100, round(1_000 * scale)),
        "appends": max(100, round(500 * scale)),
        "turns": max(20, round(200 * scale)),
        "loads": 50,
        "searches": 30,
    }


def _drive(driver: str, work: dict[str, Any], out: Path) -> dict[str, Any]:
    """Run one driver in its environment, with a home of its own and none of our variables."""
    python = (
        Path(sys.executable) if driver in ("ours", "compat") else _ROOT / "build" / "peers" / driver / "bin" / "python"
    )
    folder = (out / f"peers-{os.getpid()}").absolute()
    folder.mkdir(parents=True)
    try:
        done = subprocess.run(
            [python, "-m", f"bench.peers.{driver}"],
            input=msgspec.json.encode({**work, "folder": str(folder)}),
            env={"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"},
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            check=True,
        )
    finally:
        shutil.rmtree(folder)
        os.sync()
    found: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="each figure is the least of so many (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="shrinks every count, for a quick look (1.0)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the corpus ({SEED})")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
