"""What the tests of the command line share: a database of its own, and the real `main` on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from threadline import SessionStore
from threadline.cli import main
from threadline.testing import FakeClock


class Outcome(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as the one JSON document that it is."""
        return json.loads(self.out)


Cli: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Where the commands look; nothing is there yet."""
    return tmp_path / "threadline.db"


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still in the past."""
    return FakeClock(datetime(2026, 3, 1, 14, 22, tzinfo=UTC))


@pytest.fixture
def store(db: Path, clock: FakeClock) -> Any:
    """The store that the commands look at, open beside them."""
    with SessionStore.open(db, clock=clock) as opened:
        yield opened


@pytest.fixture
def cli(db: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `threadline` with these arguments, without a terminal, on the test's database."""
    monkeypatch.setenv("THREADLINE_DB", str(db))

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["threadline", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Outcome(int(end.value.code or 0), printed.out, printed.err)

    return run
