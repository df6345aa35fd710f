"""Standard input and output of a real process, whatever they are, and whatever else prints."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import asyncio, os, subprocess, sys
sys.stdout.write("early, and not flushed: ")
from threadline.gateway.supervisor import Supervisor
from threadline.rpc.connection import Connection
from threadline.rpc.stdio import claim_stdout, open_stdio

claim_stdout()

async def serve(request):
    print("a stray print")
    os.write(1, b"a stray write\\n")
    swallowed = subprocess.run("echo a stray child; cat", shell=True, check=True)
    return request.params

async def main():
    lines, sink = await open_stdio()
    connection = Connection(lines, sink, on_request=serve, on_notification=lambda *_: None, start=Supervisor().start, grace=20)
    await connection.run()
    print("the end")

asyncio.run(main())
"""
COMMAND = [sys.executable, "-c", PROGRAM]
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
STRAYS = ("early, and not flushed", "a stray print", "a stray write", "a stray child", "the end")


def calls(count: int) -> bytes:
    """So many requests, a line each."""
    return b"".join(b'{"id":%d,"method":"echo","params":{"n":%d}}\n' % (n, n) for n in range(count))


def answers(written: bytes) -> list[Any]:
    """What the process said, each line parsed: anything else on its output fails."""
    return [json.loads(line) for line in written.splitlines()]


def expected(count: int) -> list[Any]:
    return [{"id": n, "result": {"n": n}, "jsonrpc": "2.0"} for n in range(count)]


def test_over_pipes_only_the_protocol_is_on_the_output() -> None:
    done = subprocess.run(COMMAND, env=BUFFERED, input=calls(3), capture_output=True, timeout=60)
    assert answers(done.stdout) == expected(3)
    assert [stray for stray in STRAYS if stray not in done.stderr.decode()] == []
    assert done.returncode == 0


def test_a_file_can_be_the_input_and_another_the_output(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(calls(3).rstrip())
    (tmp_path / "out").write_bytes(b"kept\n")
    with (tmp_path / "in").open() as source, (tmp_path / "out").open("ab") as target:
        subprocess.run(
            COMMAND, env=BUFFERED, stdin=source, stdout=target, stderr=subprocess.PIPE, timeout=60, check=True
        )
    kept, *written = (tmp_path / "out").read_bytes().splitlines(keepends=True)
    assert kept == b"kept\n"
    assert answers(b"".join(written)) == expected(3)


def test_in_a_shell_with_redirections(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(calls(2))
    (tmp_path / "program.py").write_text(PROGRAM)
    line = f"{sys.executable} program.py < in 2>/dev/null | cat; {sys.executable} program.py < in > out 2>/dev/null"
    done = subprocess.run(line, shell=True, env=BUFFERED, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert answers(done.stdout) == expected(2)
    assert answers((tmp_path / "out").read_bytes()) == expected(2)


def test_nothing_on_the_input_is_the_end() -> None:
    done = subprocess.run(COMMAND, env=BUFFERED, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.stdout, done.returncode) == (b"", 0)


def test_over_a_socket() -> None:
    ours, theirs = socket.socketpair()
    end = theirs.fileno()
    with subprocess.Popen(COMMAND, env=BUFFERED, stdin=end, stdout=end, stderr=subprocess.DEVNULL) as process, ours:
        theirs.close()
        ours.sendall(calls(3))
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as received:
            assert answers(received.read()) == expected(3)
        assert process.wait(60) == 0


def test_over_a_terminal_whose_other_users_still_block() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        COMMAND, env=BUFFERED, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        os.write(ours, calls(1))
        written = b""
        while b"result" not in written or not written.endswith(b"\n"):
            assert select.select([ours], [], [], 60)[0]
            written += os.read(ours, 10_000)
        assert os.get_blocking(theirs)
        os.write(ours, b"\x04")
        assert process.wait(60) == 0
    # A terminal repeats what is typed.
    assert answers(written)[-1] == expected(1)[0]
    os.close(ours)
    os.close(theirs)


def test_when_nobody_reads_the_output_the_process_ends() -> None:
    with subprocess.Popen(
        COMMAND, env=BUFFERED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(calls(1))
        process.stdin.flush()
        said = process.stderr.read()
        assert process.wait(60) == 0
        assert b"Traceback" not in said


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_input_or_output_is_told_in_a_sentence(closed: str, tmp_path: Path) -> None:
    program = "import asyncio; from threadline.rpc.stdio import open_stdio; asyncio.run(open_stdio())"
    line = f'exec {sys.executable} -c "{program}" {closed}'
    done = subprocess.run(line, shell=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert b"StdioClosed: Standard input or output is closed." in done.stderr


def test_with_a_closed_error_output_stray_prints_go_nowhere() -> None:
    line = f"exec {shlex.join(COMMAND)} 2>&-"
    done = subprocess.run(line, shell=True, env=BUFFERED, input=calls(2), stdout=subprocess.PIPE, timeout=60)
    assert answers(done.stdout) == expected(2)
