"""The guard on real sockets: what is too long is not taken in, and what is streamed is not held back."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

_CHILD = Path(__file__).with_name("web_door_child.py")
_MEGABYTE = 1_000_000
_CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


class Door:
    """A running server behind its guard."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def peak(self) -> int:
        """The most memory that the server ever had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=15)

    def head(self, method: str, path: str, *more: str) -> bytes:
        """The head of a request as our own page sends it."""
        own = f"127.0.0.1:{self.port}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {own}", f"Origin: http://{own}", *more]
        return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture
def door() -> Iterator[Door]:
    with subprocess.Popen([sys.executable, str(_CHILD)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Door(process, int(process.stdout.readline()))
        finally:
            process.kill()


def received(connection: socket.socket, until: bytes) -> bytes:
    """What comes until these bytes have come, or nothing more does."""
    got = b""
    while until not in got:
        piece = connection.recv(65_536)
        if not piece:
            break
        got += piece
    return got


def pushed(connection: socket.socket, most: int) -> int:
    """Sends chunks until an answer comes, the server closes, or so many bytes are sent; how many were."""
    sent = 0
    with suppress(ConnectionError):
        while sent < most:
            if select.select([connection], [], [], 0)[0]:
                return sent
            connection.sendall(_CHUNK)
            sent += len(_CHUNK)
    return sent


def test_a_body_of_100_megabytes_that_says_so_is_refused_unread(door: Door) -> None:
    before = door.peak
    with closing(door.connect()) as connection:
        head = door.head(
            "POST", "/api/messages", "Content-Type: application/json", f"Content-Length: {100 * _MEGABYTE}"
        )
        connection.sendall(head)
        # Nothing of the body is sent, and nothing of it is waited for.
        answer = received(connection, b'"}')
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"too_large" in answer
        assert connection.recv(1) == b""
    assert door.peak - before < 10 * _MEGABYTE


def test_a_body_of_100_megabytes_in_chunks_is_not_taken_in(door: Door) -> None:
    before = door.peak
    for _ in range(3):
        with closing(door.connect()) as connection:
            connection.sendall(
                door.head("POST", "/api/messages", "Content-Type: application/json", "Transfer-Encoding: chunked")
            )
            # A megabyte is what the application may read; sockets hold some more on the way.
            assert pushed(connection, 100 * _MEGABYTE) < 50 * _MEGABYTE
            with suppress(ConnectionResetError):
                assert received(connection, b"\r\n").startswith(b"HTTP/1.1 413 ")
    assert door.peak - before < 30 * _MEGABYTE
    with closing(door.connect()) as connection:
        connection.sendall(door.head("POST", "/api/go", "Connection: close"))
        assert received(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 204 ")


def test_a_refused_stranger_is_not_waited_for(door: Door) -> None:
    with closing(door.connect()) as connection:
        head = door.head("POST", "/api/messages", "Content-Type: text/plain", "Transfer-Encoding: chunked")
        connection.sendall(head)
        assert received(connection, b'"}').startswith(b"HTTP/1.1 415 ")
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("kind", "length", "status"), [("text/plain", 300_000, 415), ("application/json", 8_000_000, 413)]
)
def test_who_sends_all_before_they_read_still_learns_why_it_was_refused(
    door: Door, kind: str, length: int, status: int
) -> None:
    """Closing while something unread comes in would reset the connection, and the answer with it."""
    with closing(door.connect()) as connection:
        connection.sendall(door.head("POST", "/api/messages", f"Content-Type: {kind}", f"Content-Length: {length}"))
        # The answer is there, and is not looked at.
        assert select.select([connection], [], [], 15)[0]
        for _ in range(10):
            connection.sendall(b"x" * (length // 10))
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert answer.endswith(b'"}')


def test_a_short_body_in_chunks_is_read(door: Door) -> None:
    with closing(door.connect()) as connection:
        head = door.head("POST", "/api/messages", "Content-Type: application/json", "Transfer-Encoding: chunked")
        connection.sendall(head + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
        assert b'{"read":2}' in received(connection, b"}")


def test_an_event_is_passed_on_before_the_next_one_is_there(door: Door) -> None:
    with closing(door.connect()) as stream, closing(door.connect()) as other:
        stream.sendall(door.head("GET", "/api/events", "Connection: close"))
        begun = received(stream, b"data: first\n\n")
        assert begun.startswith(b"HTTP/1.1 200 ")
        assert b"second" not in begun
        assert b"content-security-policy: default-src 'self'" in begun.lower()
        other.sendall(door.head("POST", "/api/go", "Connection: close"))
        assert b"data: second" in received(stream, b"data: second\n\n")
