"""`threadline chat` in a real terminal: the whole program, with its gateway and its store, as a person has it."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.test_terminal_pty import Seat

from threadline import SessionStore

_AGENTS = """
import asyncio

async def count(turn):
    yield "Counting:\\n\\n"
    for number in range(1_000):
        yield f"- number {number}\\n"
        await asyncio.sleep(0.02)

def answer(turn):
    return f"**You** said {turn.text!r} after {len(turn.history)}."
"""


@contextmanager
def talking(folder: Path, *options: str) -> Iterator[tuple[Seat, subprocess.Popen[bytes]]]:
    (folder / "my_agents.py").write_text(_AGENTS)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, 100))
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "threadline", "chat", *options]
    with subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, **home, "TERM": "xterm"},
        start_new_session=True,
    ) as process:
        try:
            yield Seat(master), process
        finally:
            process.kill()
            os.close(slave)
            os.close(master)


def test_a_newcomer_says_something_and_it_is_there_the_next_time(tmp_path: Path) -> None:
    with talking(tmp_path, "--agent", "my_agents:answer") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("hello there\r")
        seat.wait_for("/help shows what else you can do")
        seat.wait_for("You said 'hello there' after 0.")
        seat.press("/status\r")
        seat.wait_for("Messages: 2")
        seat.press("\x04")
        assert process.wait(20) == 0
    with talking(tmp_path, "--agent", "my_agents:answer") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("again\r")
        # Its markdown is drawn, not shown.
        seat.wait_for("You said 'again' after 2.")
        seat.press("\x04")
        assert process.wait(20) == 0
    (database,) = tmp_path.rglob("threadline.db")
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    with SessionStore.open(database) as store:
        (entry,) = store.list_sessions()
        said = [message["content"] for message in store.load_transcript(entry.session_id)]
    assert said == ["hello there", "**You** said 'hello there' after 0.", "again", "**You** said 'again' after 2."]


def test_ctrl_c_stops_the_answer_and_what_was_said_is_kept(tmp_path: Path) -> None:
    with talking(tmp_path, "--agent", "my_agents:count") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("count\r")
        seat.wait_for("number 3")
        seat.press("\x03")
        seat.wait_for("(stopped)")
        seat.press("/sto\t")
        seat.wait_for("/stop")
        seat.press("\x15\x04")
        assert process.wait(20) == 0
    (database,) = tmp_path.rglob("threadline.db")
    with SessionStore.open(database) as store:
        (entry,) = store.list_sessions()
        question, answer = store.load_transcript(entry.session_id)[:2]
    assert question["content"] == "count"
    assert "number 3" in answer["content"]
    assert "number 999" not in answer["content"]


def test_beside_an_open_terminal_a_pipe_is_told_and_nothing_is_shown_in_the_wrong_place(tmp_path: Path) -> None:
    with talking(tmp_path, "--agent", "my_agents:answer") as (seat, process):
        seat.wait_for("\u203a")
        home = {
            "HOME": str(tmp_path),
            "XDG_DATA_HOME": str(tmp_path / "share"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
        }
        command = [sys.executable, "-m", "threadline", "chat"]
        beside = subprocess.run(
            command, input="psst\n", capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **home}
        )
        assert (beside.returncode, beside.stdout) == (1, "")
        assert f"process {process.pid}" in beside.stderr
        seat.press("hello\r")
        seat.wait_for("You said 'hello' after 0.")
        assert "psst" not in seat.seen
        seat.press("\x04")
        assert process.wait(20) == 0
