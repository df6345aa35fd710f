"""`threadline compat adopt DIR`: everything now, or only what would be taken."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from tests.contract.compat.old_folders import entry, fingerprints, origin, write_database, write_index, write_lines
from tests.contract.compat.talk import current, texts, user

from threadline.cli import main
from threadline.compat import SessionStore


class Outcome(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


Cli: TypeAlias = Callable[..., Outcome]
Open: TypeAlias = Callable[..., SessionStore]


@pytest.fixture
def adopt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["threadline", "compat", "adopt", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Outcome(int(end.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def old(folder: Path) -> Path:
    """Two sessions of the index, one loose file, one row, and damage."""
    write_index(folder, entry("a", **origin()), entry("b", "old", **origin("8")), broken={"session_id": "x"})
    write_lines(folder, "a", "one", "two", raw=[b"{"])
    write_lines(folder, "loose", "three")
    write_database(folder.parent, {"b": ["four"], "row": ["five", "six"]})
    return folder


EXPECTED = {"sessions": 4, "transcripts": 4, "messages": 6}
LEFT_OUT = {"broken", "a.jsonl line 3"}


def told(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 0
    plain: dict[str, Any] = json.loads(outcome.out)
    return plain


def test_everything_is_taken_in_now(old: Path, adopt: Cli, open_store: Open) -> None:
    before = fingerprints(old)
    report = told(adopt(old, "--json"))
    assert {name: report[name] for name in EXPECTED} == EXPECTED
    assert report["dry_run"] is False
    assert {left["place"] for left in report["skipped"]} == LEFT_OUT
    assert fingerprints(old) == before
    # Nothing is read from the files any more.
    for name in ("sessions.json", "a.jsonl", "loose.jsonl"):
        (old / name).unlink()
    (old.parent / "state.db").unlink()
    store = open_store()
    assert set(current(store).values()) == {"a", "b"}
    assert [texts(store, one) for one in ("a", "b", "loose", "row")] == [
        ["one", "two"],
        ["four"],
        ["three"],
        ["five", "six"],
    ]


def test_a_second_run_takes_nothing(old: Path, adopt: Cli) -> None:
    adopt(old)
    report = told(adopt(old, "--json"))
    assert (report["sessions"], report["transcripts"], report["messages"]) == (0, 0, 0)


def test_a_dry_run_tells_the_same_and_leaves_nothing(old: Path, adopt: Cli) -> None:
    before = sorted(path.name for path in old.iterdir())
    report = told(adopt(old, "--dry-run", "--json"))
    assert {name: report[name] for name in EXPECTED} == EXPECTED
    assert report["dry_run"] is True
    assert {left["place"] for left in report["skipped"]} == LEFT_OUT
    assert sorted(path.name for path in old.iterdir()) == before


def test_a_dry_run_counts_what_is_left_and_changes_nothing(old: Path, adopt: Cli, open_store: Open) -> None:
    store = open_store()
    store.append_to_transcript("a", user("new"))
    listed = [found.to_dict() for found in store.list_sessions()]
    report = told(adopt(old, "--dry-run", "--json"))
    assert (report["sessions"], report["transcripts"], report["messages"]) == (3, 3, 4)
    assert [found.to_dict() for found in store.list_sessions()] == listed
    store.close()
    after = told(adopt(old, "--json"))
    assert (after["sessions"], after["transcripts"], after["messages"]) == (3, 3, 4)


def test_people_are_told_in_a_sentence(old: Path, adopt: Cli) -> None:
    dry = adopt(old, "--dry-run")
    assert "4 sessions" in dry.out
    assert "6 messages" in dry.out
    assert "a.jsonl line 3" in dry.out + dry.err
    assert not (old / "threadline.db").exists()
    wet = adopt(old)
    assert "4 sessions" in wet.out
    assert (old / "threadline.db").exists()


def test_an_empty_folder_is_no_error(folder: Path, adopt: Cli) -> None:
    assert told(adopt(folder, "--json"))["sessions"] == 0


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_what_is_no_folder_is_a_clear_error(tmp_path: Path, adopt: Cli, options: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "none", tmp_path / "file"):
        outcome = adopt(place, *options)
        assert outcome.code != 0
        assert "no folder" in outcome.err
        assert not (tmp_path / "none").exists()
