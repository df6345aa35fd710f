"""The terminal in a real one: a pseudo-terminal with a process behind it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A gateway with an agent that answers slowly until it is stopped. It says so on its way out.
_GATEWAY = """
import asyncio, sys
from pathlib import Path
from threadline.model.delivery import target_of
from threadline.platforms.local import Terminal
from threadline.ports.platform import Outgoing

async def main():
    rest, answering = asyncio.Event(), []
    rest.set()
    terminal = Terminal(commands=["/stop"], history=Path(sys.argv[1]), idle=rest.wait)

    async def answer(event):
        to = target_of(event.source)
        message = await terminal.send(to, Outgoing(text="Counting"), key="k")
        for number in range(1_000):
            await asyncio.sleep(0.02)
            await terminal.edit(to, message, Outgoing(text=f"Counting: **{number}**"))

    async def accept(event):
        if event.text == "/stop":
            answering[-1].cancel()
            await terminal.send(target_of(event.source), Outgoing(text="Stopped."), key="s")
            rest.set()
        else:
            rest.clear()
            answering.append(asyncio.create_task(answer(event)))
        return "accepted"

    await terminal.run(accept, asyncio.Event())
    await terminal.close()
    print("Goodbye,", len(answering))

asyncio.run(main())
"""
_ESCAPES = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[=>]")


class Seat:
    """In front of a terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._seen = b""

    @property
    def seen(self) -> str:
        """All that was drawn so far, without what moves and colours it."""
        return _ESCAPES.sub("", self._seen.decode("utf-8", "replace"))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Looks on until this text is drawn."""
        end = time.monotonic() + 20
        while text not in self.seen:
            assert select.select([self._master], [], [], max(0, end - time.monotonic()))[0], self.seen
            self._seen += os.read(self._master, 65_536)


@contextmanager
def seated(history: Path) -> Iterator[tuple[Seat, subprocess.Popen[bytes]]]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, 80))
    environment = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-c", _GATEWAY, str(history)]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as process:
        try:
            yield Seat(master), process
        finally:
            process.kill()
            os.close(slave)
            os.close(master)


def test_a_conversation_at_a_real_terminal(tmp_path: Path) -> None:
    with seated(tmp_path / "history") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("count\r")
        seat.wait_for("Counting")
        seat.press("half a line\x03")
        seat.wait_for("Stopped.")
        seat.wait_for("half a line")
        seat.press("\x15\x04")
        seat.wait_for("Goodbye, 1")
        assert process.wait(20) == 0
    # The lines that were typed, and not the one that Ctrl-C stood for.
    assert re.findall(r"^\+(.*)$", (tmp_path / "history").read_text(), re.MULTILINE) == ["count"]


def test_the_terminal_is_left_as_it_was_found(tmp_path: Path) -> None:
    with seated(tmp_path / "history") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("\x04")
        seat.wait_for("Goodbye, 0")
        assert process.wait(20) == 0
        assert termios.tcgetattr(seat._master)[3] & termios.ECHO
        assert seat._seen.rindex(b"\x1b[?2004l") > seat._seen.rindex(b"\x1b[?2004h")


def test_a_signal_stops_the_answer_like_the_key(tmp_path: Path) -> None:
    with seated(tmp_path / "history") as (seat, process):
        seat.wait_for("\u203a")
        seat.press("count\r")
        seat.wait_for("Counting")
        process.send_signal(signal.SIGINT)
        seat.wait_for("Stopped.")
        seat.press("\x04")
        seat.wait_for("Goodbye, 1")
        assert process.wait(20) == 0
