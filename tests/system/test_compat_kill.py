"""Killed between any two calls of the original API, or in one: what was acknowledged is there, and the next process goes on."""

from __future__ import annotations

import copy
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.old_folders import entry, fingerprints, origin, write_database, write_index, write_lines
from tests.system.compat_caller import key_of, open_store
from tests.system.seeds import seeded, soak_count

from threadline.compat import SessionStore

ROOT = Path(__file__).parents[2]
KILLS = 8
# A process is killed within so many acknowledged calls; every second folder is killed right away, while it is being adopted.
LATEST = 40
ROUNDS_PER_FOLDER = 4
OLD_SESSIONS = 120


class Model:
    """What acknowledged calls come to."""

    def __init__(self, current: dict[str, str], texts: dict[str, list[str]]) -> None:
        self.current = current
        self.texts = texts
        self.names: dict[str, str] = {}
        self.tokens: dict[str, int] = {}

    def apply(self, op: dict[str, Any]) -> None:
        """Take a call in; `id` is what it returned."""
        match op["op"]:
            case "append":
                self.texts[op["session"]].append(op["text"])
            case "rewrite":
                self.texts[op["session"]] = [op["text"]]
            case "rename":
                self.names[op["session"]] = op["text"]
            case "update":
                session_id = self.current[op["key"]]
                self.tokens[session_id] = self.tokens.get(session_id, 0) + 1
            case "switch":
                self._point(op["key"], op["session"])
            case "reset":
                self._begin(op)
            case "get" if op["force"] or op["key"] not in self.current:
                self._begin(op)
            case "get":
                assert op.get("id", self.current[op["key"]]) == self.current[op["key"]]
            case other:
                assert other in ("stored", "export", "open")

    def _begin(self, op: dict[str, Any]) -> None:
        assert op["id"] not in self.texts
        self._point(op["key"], op["id"])

    def _point(self, key: str, session_id: str) -> None:
        self.current = {other: held for other, held in self.current.items() if held != session_id} | {key: session_id}
        self.texts.setdefault(session_id, [])

    def differences(self, store: SessionStore) -> list[str]:
        """What is not in the store as it is here."""
        entries = {one.session_key: one for one in store.list_sessions()}
        found = []
        if {key: one.session_id for key, one in entries.items()} != self.current:
            found.append("current sessions")
        for one in entries.values():
            if one.display_name != self.names.get(one.session_id, one.display_name):
                found.append(f"name of {one.session_id}")
            if one.input_tokens != self.tokens.get(one.session_id, 0):
                found.append(f"tokens of {one.session_id}")
        for session_id, texts in self.texts.items():
            if [message["content"] for message in store.load_transcript(session_id)] != texts:
                found.append(f"transcript of {session_id}")
        return found


def test_what_was_acknowledged_survives_being_killed(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, range(KILLS))


@pytest.mark.soak
def test_what_was_acknowledged_survives_being_killed_very_often(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, range(soak_count()))


def kill_again_and_again(place: Path, rounds: range) -> None:
    rng = seeded(f"{len(rounds)} kills of compat")
    folder, model, before = place, Model({}, {}), {}
    for number in rounds:
        if number % ROUNDS_PER_FOLDER == 0:
            folder = place / str(number) / "sessions"
            model = older_folder(folder)
            before = fingerprints(folder)
        calls = killed_while_calling(folder, number, rng, at_once=number % (2 * ROUNDS_PER_FOLDER) == 0)
        pending = [op for op in calls[-1:] if "done" not in op]
        for op in calls:
            if "done" in op:
                model.apply(op)
        with open_store(folder) as store:
            model = settled(model, pending, store)
            assert store.core.check().ok
        assert before.items() <= fingerprints(folder).items()


def older_folder(folder: Path) -> Model:
    """Make a folder as an older gateway left it; what it holds."""
    folder.mkdir(parents=True)
    numbers = range(OLD_SESSIONS)
    write_index(folder, *(entry(f"s{n}", key_of(n), **origin(str(n), user_id=str(n))) for n in numbers))
    for number in numbers[::2]:
        write_lines(folder, f"s{number}", "one", "two")
    write_database(folder.parent, {f"s{n}": ["one", "two"] for n in numbers[1::2]})
    return Model({key_of(n): f"s{n}" for n in numbers}, {f"s{n}": ["one", "two"] for n in numbers})


def killed_while_calling(folder: Path, number: int, rng: random.Random, *, at_once: bool) -> list[dict[str, Any]]:
    """What a process told of its calls before it was killed, each once: begun, or done."""
    command = [
        sys.executable,
        "-m",
        "tests.system.compat_caller",
        str(folder),
        str(number),
        str(rng.randrange(1 << 30)),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        wanted = 1 if at_once else rng.randint(1, 2 * LATEST)
        lines = [process.stdout.readline() for _ in range(wanted)]
        time.sleep(rng.random() * (0.2 if at_once else 0.02))
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, f"ended by itself with {process.returncode}"
    told = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [op for place, op in enumerate(told) if "done" in op or place == len(told) - 1]


def settled(model: Model, pending: list[dict[str, Any]], store: SessionStore) -> Model:
    """The model with or without the call in which the process was killed, whichever the store holds."""
    differences = model.differences(store)
    if not differences:
        return model
    assert pending, differences
    op = dict(pending[0])
    if op["op"] in ("get", "reset"):
        op["id"] = next(one.session_id for one in store.list_sessions() if one.session_key == op["key"])
    later = copy.deepcopy(model)
    later.apply(op)
    assert later.differences(store) == [], (differences, op)
    return later
