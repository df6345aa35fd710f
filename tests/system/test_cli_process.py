"""The command line as a process: pipes, terminals, signals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from threadline import SessionStore
from threadline.testing import dm, user

_COMMAND = [sys.executable, "-m", "threadline"]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "threadline.db"


@pytest.fixture
def session_id(db: Path) -> Iterator[str]:
    with SessionStore.open(db) as store:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, [user(f"line {n} " + "x" * 200) for n in range(2_000)])
        yield entry.session_id


def _start(*arguments: str, db: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    environment = os.environ | {"THREADLINE_DB": str(db)}
    return subprocess.Popen(
        [*_COMMAND, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


@pytest.fixture
def heeded_stop_key() -> Iterator[None]:
    """A shell that starts the tests in the background tells them to ignore the stop key, and their children would too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def test_a_reader_that_leaves_early_is_no_fault(db: Path, session_id: str) -> None:
    process = _start("sessions", "export", session_id, db=db)
    out = _opened(process.stdout)
    out.readline()
    out.close()
    with _opened(process.stderr) as error:
        assert error.read() == b""
    assert process.wait(30) == 1


def test_someone_at_a_terminal_is_asked_before_anything_goes(db: Path, session_id: str) -> None:
    ours, theirs = pty.openpty()
    process = _start("sessions", "delete", session_id, db=db, stdin=theirs)
    os.write(ours, b"y\n")
    _, asked = process.communicate(timeout=30)
    os.close(ours)
    os.close(theirs)
    assert session_id in asked.decode()
    assert process.returncode == 0
    with SessionStore.open(db) as store:
        assert store.list_sessions(include_ended=True).items == []


@pytest.mark.usefixtures("heeded_stop_key")
def test_the_stop_key_ends_a_command_with_130_and_no_traceback(db: Path, session_id: str) -> None:
    ours, theirs = pty.openpty()
    process = _start("sessions", "delete", session_id, db=db, stdin=theirs)
    error = _opened(process.stderr)
    while not (asked := error.read(1)).endswith(b"?"):
        assert asked, "the command ended before it asked"
    rest = _pressed(process)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert b"Traceback" not in rest
    with SessionStore.open(db) as store:
        assert len(store.list_sessions()) == 1


def _pressed(process: subprocess.Popen[bytes]) -> bytes:
    """Presses the stop key, and again where it came a moment before Python began to read: it sees such a one only at the next."""
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=10)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the command goes on")


def test_the_command_line_starts_without_the_web_and_without_postgresql() -> None:
    asked = "import sys, threadline.cli.program; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert "threadline.cli.sessions" in loaded
    assert not {"starlette", "uvicorn", "psycopg"} & set(loaded)


def test_a_terminal_gets_found_words_in_colour(db: Path, session_id: str) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"THREADLINE_DB": str(db), "TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    command = [*_COMMAND, "sessions", "search", "1999", "--limit", "1"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert process.wait(30) == 0
    assert b"\x1b[1;33m1999\x1b[0m" in shown
    assert b"[[" not in shown


def test_advice_names_this_program_as_it_was_called(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("threadline")
    environment = os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    environment.pop("THREADLINE_CONFIG")
    for path, told in (
        ("/usr/bin:/bin", f"`{program} config init` "),
        (str(program.parent), "`threadline config init` "),
    ):
        command = [str(program), "config", "path"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | {"PATH": path})
        assert done.returncode == 0
        assert told in done.stderr


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # Linux says so when the last writer has closed a terminal.
        return b""
