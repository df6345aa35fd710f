"""Readers and senders who mean ill, or have a bad line, before a real `threadline serve`: everybody else goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest
from tests.system.test_serve import Served, served

_MEGABYTE = 1_000_000
_AGENTS = """
async def flood(turn):
    import asyncio
    for number in range(int(turn.text)):
        yield "x" * 10_000
        await asyncio.sleep(0.04)
    yield "the end"
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A gateway whose agent says ten thousand characters at a time."""
    (tmp_path / "flooding.py").write_text(_AGENTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with served(tmp_path / "threadline.db", "--port", "0", "--agent", "flooding:flood") as server:
        yield server


def memory(server: Served) -> int:
    """What the server has now, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def client(server: Served) -> httpx.Client:
    return httpx.Client(
        base_url=server.address, headers={"Authorization": f"Bearer {server.token}"}, timeout=httpx.Timeout(30)
    )


def stream(server: Served, conversation: str) -> socket.socket:
    """A connection that has asked for events, with as little room for them as the kernel gives."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    lines = [
        f"GET /api/events?conversation={conversation} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
    ]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    return connection


def say(api: httpx.Client, conversation: str, number: int, text: str) -> None:
    said = api.post(f"/api/conversations/{conversation}/messages", json={"id": f"m{number}", "text": text})
    assert said.status_code == 202, said.text


def ended(api: httpx.Client, conversation: str, answers: int) -> bool:
    """Whether so many answers are whole there."""
    found = api.get(f"/api/conversations/{conversation}").json()["messages"]
    return len([one for one in found if one["text"].endswith("the end")]) >= answers


def wait_for_answer(api: httpx.Client, conversation: str, answers: int = 1) -> None:
    for _ in range(600):
        if ended(api, conversation, answers):
            return
        time.sleep(0.05)
    raise AssertionError("the answer never came")


def read_to(connection: socket.socket, end: bytes, *, piece: int = 65_536, pause: float = 0.0) -> bytes:
    got = b""
    while end not in got:
        more = connection.recv(piece)
        assert more, "the server closed"
        got += more
        time.sleep(pause)
    return got


@pytest.mark.parametrize("path", ["/api/conversations/conversation1/messages", "/api/attachments"])
@pytest.mark.parametrize("is_told", [True, False], ids=["declared", "in chunks"])
def test_a_body_of_100_megabytes_is_refused_and_not_kept(server: Served, path: str, is_told: bool) -> None:
    before = memory(server)

    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * _MEGABYTE

    headers = {"Content-Type": "application/json"} | ({"Content-Length": str(100 * _MEGABYTE)} if is_told else {})
    with client(server) as api:
        # The server answers and closes while much of it is still on the way.
        with suppress(httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            assert api.post(path, content=body(), headers=headers).status_code == 413
        limit = 2 if "messages" in path else 80
        assert memory(server) - before < limit * _MEGABYTE + 20 * _MEGABYTE
        assert api.get("/api/me").status_code == 200


def test_readers_who_never_read_keep_nobody_waiting_and_cost_little(server: Served) -> None:
    with client(server) as api:
        say(api, "conversation1", 0, "0")
        wait_for_answer(api, "conversation1")
        silent = [stream(server, "conversation1") for _ in range(40)]
        attentive = stream(server, "conversation1")
        before = memory(server)
        say(api, "conversation1", 1, "100")
        seen = read_to(attentive, b"event: settled")
        assert b"the end" in seen
        wait_for_answer(api, "conversation1", 2)
        # A megabyte was said. Each of forty would have it all waiting, were there no bound.
        assert memory(server) - before < 30 * _MEGABYTE
        for connection in (*silent, attentive):
            connection.close()


def test_a_slow_reader_comes_to_the_same_end(server: Served) -> None:
    with client(server) as api:
        say(api, "conversation1", 0, "0")
        wait_for_answer(api, "conversation1")
        with closing(stream(server, "conversation1")) as slow:
            read_to(slow, b"event: snapshot")
            say(api, "conversation1", 1, "80")
            wait_for_answer(api, "conversation1", 2)
            # Far behind by now, it is told where things stand; the whole answer is in that.
            got = read_to(slow, b"the end", piece=16_384, pause=0.002)
            assert len(got) < 4 * _MEGABYTE


def test_half_a_request_holds_up_nobody(server: Served) -> None:
    halves = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for connection in halves:
        connection.sendall(b"POST /api/conversations/conversation1/messages HTTP/1.1\r\nHost: 127.0.0.1")
    with client(server) as api:
        say(api, "conversation1", 1, "1")
        wait_for_answer(api, "conversation1")
    for connection in halves:
        connection.close()
    assert server.stop() == 0
