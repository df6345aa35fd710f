"""Killed at any instant: what was acknowledged is there once, in order, and the rest can be sent again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from tests.system.appender import CALLERS, key_of
from tests.system.seeds import seeded, soak_count

from threadline import SessionStore
from threadline.testing import dm, user

ROOT = Path(__file__).parents[2]
KILLS = 10
# Every fifth process is killed while it starts, the others within so many acknowledged appends.
LATEST = 60


def test_what_was_acknowledged_survives_being_killed(location: str) -> None:
    kill_again_and_again(location, range(KILLS))


@pytest.mark.soak
def test_what_was_acknowledged_survives_being_killed_very_often(location: str) -> None:
    kill_again_and_again(location, range(soak_count()))


def kill_again_and_again(location: str, rounds: range) -> None:
    rng = seeded(f"{len(rounds)} kills")
    with SessionStore.open(location) as store:
        sessions = [store.get_or_create_session(dm(person)).session_id for person in ("7", "8")]
    for number in rounds:
        acknowledged = killed_while_appending(location, number, sessions, rng)
        with SessionStore.open(location) as store:
            for caller in range(CALLERS):
                session = sessions[caller % len(sessions)]
                told = acknowledged[caller]
                assert told == list(range(len(told)))
                assert stored_turns(store, session, number, caller)[: len(told)] == told
                send_again(store, session, number, caller, turns=range(len(told) + 2))
                assert stored_turns(store, session, number, caller) == list(range(len(told) + 2))
            report = store.check()
            assert report.ok, report.faults


def killed_while_appending(location: str, number: int, sessions: list[str], rng: random.Random) -> dict[int, list[int]]:
    """What each caller of a process was told before the process was killed."""
    command = [sys.executable, "-m", "tests.system.appender", location, str(number), *sessions]
    told = defaultdict(list)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        wanted = rng.randint(0, LATEST) if number % 5 else 0
        lines = [process.stdout.readline() for _ in range(wanted)]
        # Not at a line's end: somewhere in the next few appends, or while the store is being opened.
        time.sleep(rng.random() * (0.02 if lines else 0.4))
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, f"ended by itself with {process.returncode}"
    for line in lines:
        caller, turn = line.split()
        told[int(caller)].append(int(turn))
    return told


def stored_turns(store: SessionStore, session: str, number: int, caller: int) -> list[int]:
    """The turns of a caller that the log holds, in the log's order."""
    prefix = key_of(number, caller, 0)[:-1]
    texts = [str(message["content"]) for message in store.load_transcript(session)]
    return [int(text.removeprefix(prefix)) for text in texts if text.startswith(prefix)]


def send_again(store: SessionStore, session: str, number: int, caller: int, turns: range) -> None:
    """What a caller does who does not know how far it came: all of it again, with the same keys."""
    for turn in turns:
        key = key_of(number, caller, turn)
        store.append_to_transcript(session, user(key), idempotency_key=key)
