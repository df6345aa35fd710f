"""The web page of `threadline serve` as a program uses it, over a real network, also where the server is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.system.test_serve import Served, served

_AGENTS = """
import asyncio

async def slow(turn):
    for number in range(30):
        yield f"{number} "
        await asyncio.sleep(0.1)

slow.replay = "until_tool"
"""
_WHOLE = "".join(f"{number} " for number in range(30))
_CONFIG = """
[gateway]
welcome = false
burst_seconds = 0.0
[agents.main]
kind = "function"
call = "my_agents:slow"
"""


class Page:
    """A conversation as a page shows it, by the events that it was told."""

    def __init__(self) -> None:
        self.last_id = ""
        self.messages: dict[str, str] = {}
        self.turn: tuple[str, int] | None = None
        self.text = ""
        self.upto = 0
        self.kinds: list[str] = []

    def take(self, lines: list[str]) -> None:
        """Takes in one event."""
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        if "data" not in fields:
            return
        kind, value = fields["event"], json.loads(fields["data"])
        self.last_id = fields.get("id", self.last_id)
        self.kinds.append(kind)
        if kind == "snapshot":
            self.messages, self.turn, self.text, self.upto = {}, None, "", 0
        for message in value.get("messages", ()):
            self.messages.setdefault(message["ref"], message["text"])
        if kind == "settled":
            self.turn, self.text, self.upto = None, "", 0
        live = value if kind == "live" else value.get("live")
        if live:
            self._grow(live)

    def _grow(self, live: dict[str, Any]) -> None:
        turn = (live["turn_id"], live["attempt"])
        if turn != self.turn:
            assert live.get("first", 0) == 0, "the beginning is missing"
            self.turn, self.text, self.upto = turn, "", 0
        if live["upto"] > self.upto:
            assert live.get("first", 0) == self.upto, "there is a gap"
            self.upto = live["upto"]
            self.text += "".join(event["text"] for event in live.get("events", []))


@contextmanager
def stream(server: Served, page: Page, conversation: str) -> Iterator[Iterator[None]]:
    """The stream of a conversation; each step takes in one event."""
    headers = {"Authorization": f"Bearer {server.token}"}
    if page.last_id:
        headers["Last-Event-ID"] = page.last_id
    url = f"{server.address}api/events?conversation={conversation}"
    with httpx.stream("GET", url, headers=headers, timeout=30) as response:
        assert response.status_code == 200, response.read()

        def steps() -> Iterator[None]:
            event: list[str] = []
            for line in response.iter_lines():
                event.append(line)
                if not line:
                    page.take(event)
                    event = []
                    yield

        yield steps()


def say(server: Served, text: str, key: str) -> httpx.Response:
    return httpx.post(
        f"{server.address}api/conversations/conversation-1/messages",
        json={"id": key, "text": text},
        headers={"Authorization": f"Bearer {server.token}"},
    )


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    (tmp_path / "my_agents.py").write_text(_AGENTS)
    (tmp_path / "config.toml").write_text(_CONFIG)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "--port", "0", "--config", str(tmp_path / "config.toml")


def test_a_server_that_is_killed_in_mid_answer_goes_on_and_nothing_is_doubled(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    db, page = tmp_path / "threadline.db", Page()
    with served(db, *options) as first:
        assert say(first, "count", "m1").json() == {"verdict": "accepted"}
        with stream(first, page, "conversation-1") as steps:
            while "3 " not in page.text:
                next(steps)
            assert _WHOLE.startswith(page.text)
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait(10)
    with served(db, *options) as second:
        assert say(second, "count", "m1").json() == {"verdict": "duplicate"}
        with stream(second, page, "conversation-1") as steps:
            while "settled" not in page.kinds:
                next(steps)
                assert _WHOLE.startswith(page.text)
        assert list(page.messages.values()) == ["count", _WHOLE]
        assert page.kinds.count("snapshot") == 1
        assert second.stop() == 0


def test_who_breaks_off_in_mid_answer_is_told_exactly_what_is_missing(tmp_path: Path, options: tuple[str, ...]) -> None:
    page = Page()
    with served(tmp_path / "threadline.db", *options) as server:
        say(server, "count", "m1")
        while "settled" not in page.kinds:
            _read_some(server, page)
        assert list(page.messages.values()) == ["count", _WHOLE]
        assert page.kinds.count("snapshot") == 1
        assert server.stop() == 0


def _read_some(server: Served, page: Page) -> None:
    """Opens the stream, takes in a few events, and breaks off."""
    with stream(server, page, "conversation-1") as steps:
        for _ in range(4):
            if "settled" not in page.kinds:
                next(steps)


def test_readers_that_take_nothing_keep_nobody_from_anything(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(tmp_path / "threadline.db", *options) as server:
        say(server, "count", "m1")
        deaf = [_deaf(server) for _ in range(20)]
        page = Page()
        with stream(server, page, "conversation-1") as steps:
            while "settled" not in page.kinds:
                next(steps)
        assert list(page.messages.values()) == ["count", _WHOLE]
        # Streams that are open do not keep it from stopping.
        assert server.stop() == 0
        for connection in deaf:
            connection.close()


def test_the_page_goes_on_when_the_configuration_is_read_anew(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(tmp_path / "threadline.db", *options) as server:
        say(server, "count", "m1")
        page = Page()
        with stream(server, page, "conversation-1") as steps:
            next(steps)
            server.process.send_signal(signal.SIGHUP)
            while "settled" not in page.kinds:
                next(steps)
        assert say(server, "count", "m2").json() == {"verdict": "accepted"}
        assert server.stop() == 0


def _deaf(server: Served) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.sendall(
        f"GET /api/events?conversation=conversation-1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n".encode()
    )
    return connection
