"""`threadline serve` as a process: it says where it is, answers, refuses strangers' names, and stops when told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from threadline import InvalidRequest, SessionStore
from threadline.testing import dm, user
from threadline.web.server import DEFAULT_PORT, bind, new_event_loop

_GREETING = "Threadline is at "


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process = process
        self.address, _, self.token = link.partition("#t=")

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)


@contextmanager
def served(db: Path, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "threadline", "serve", "--db", str(db), *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, text=True, env=os.environ | own_home(db.parent)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(_GREETING), f"{line!r}: {_ended(process)}"
            yield Served(process, line.removeprefix(_GREETING).strip())
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def own_home(folder: Path) -> dict[str, str]:
    """What keeps a program from the folders of whoever runs the tests."""
    return {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "share")}


def _ended(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=15)[1]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "threadline.db"


def test_it_answers_where_it_says_it_is_and_to_no_foreign_name(db: Path) -> None:
    with served(db, "--port", "0") as server:
        page = httpx.get(server.address)
        assert page.status_code == 200
        assert "<title>Threadline</title>" in page.text
        assert httpx.get(f"{server.address}healthz").json()["status"] == "ok"
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", "localhost:1", ""):
            refused = httpx.get(server.address, headers={"Host": host})
            assert refused.status_code == 421, host
            assert "<title>" not in refused.text
        for host in (f"localhost:{server.port}", f"LOCALHOST:{server.port}", f"[::1]:{server.port}"):
            assert httpx.get(server.address, headers={"Host": host}).status_code == 200, host


def test_it_stops_when_told_and_starts_again_at_the_same_port(db: Path) -> None:
    with served(db, "--port", "0") as first:
        port = first.port
        # A connection that is still open must not keep it from stopping, nor the next from starting.
        with socket.create_connection(("127.0.0.1", port)):
            assert first.stop(signal.SIGTERM) == 0
        told = first.process.communicate()[1].splitlines()
        # What to configure next, and that it stops: no fault. What is logged begins with its time.
        assert [line.split(":")[0] for line in told if not line.startswith("20")] == [
            "No agent is configured",
            "No chat platform is configured",
            "Stopping",
        ]
        assert not any(" error " in line or " warning " in line for line in told)
    with SessionStore.open(db) as store:
        assert store.check().ok
        store.append_to_transcript(store.get_or_create_session(dm()).session_id, user("hi"))
    with served(db, "--port", str(port)) as second:
        assert second.port == port
        assert second.token == first.token
        bearer = {"Authorization": f"Bearer {second.token}"}
        assert httpx.get(f"{second.address}api/me", headers=bearer).json()["role"] == "owner"
        assert second.stop(signal.SIGINT) == 0


def test_the_owners_link_leads_to_the_page_that_runs_and_nowhere_else(db: Path) -> None:
    command, env = [sys.executable, "-m", "threadline", "web", "link"], os.environ | own_home(db.parent)
    with served(db, "--port", "0") as server:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env).stdout
        assert shown == f"{server.address}#t={server.token}\n"
        server.process.kill()
        server.process.wait(15)
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env).stdout
        assert shown == f"#t={server.token}\n"


def test_without_a_wish_the_next_free_port_is_used_and_told() -> None:
    notes: list[str] = []
    with bind("127.0.0.1", None, notes.append) as first, bind("127.0.0.1", None, notes.append) as second:
        ports = [first.getsockname()[1], second.getsockname()[1]]
    assert DEFAULT_PORT <= ports[0] < ports[1] <= DEFAULT_PORT + 20
    assert str(ports[1]) in notes[-1]


def test_an_address_that_is_not_ours_is_refused_and_an_open_one_is_warned_of() -> None:
    notes: list[str] = []
    for host in ("192.0.2.1", "no such host", "x" * 300):
        with pytest.raises(InvalidRequest):
            bind(host, 0, notes.append)
    bind("0.0.0.0", 0, notes.append).close()
    assert "TLS" in notes[-1]


@pytest.mark.parametrize("takes_its_port", [False, True])
def test_a_second_one_on_the_same_file_names_the_first(db: Path, takes_its_port: bool) -> None:
    with served(db, "--port", "0") as server:
        port = str(server.port) if takes_its_port else "0"
        command = [sys.executable, "-m", "threadline", "serve", "--db", str(db), "--port", port]
        second = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=os.environ | own_home(db.parent)
        )
        assert (second.returncode, second.stdout) == (1, "")
        assert f"is served by process {server.process.pid} at {server.address} already" in second.stderr
        assert server.token not in second.stderr
        assert server.stop() == 0


def test_a_kept_alive_connection_sends_without_waiting_for_acknowledgements() -> None:
    with bind("127.0.0.1", 0, lambda _: None) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "begins",
    [
        b"GET /",
        b"GET /healthz HTTP/1.1\r\nX-Long: ",
        b"POST /api/login HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ",
    ],
    ids=["address", "head", "trailer"],
)
def test_a_head_without_end_ends_the_connection(db: Path, begins: bytes) -> None:
    with served(db, "--port", "0") as server, socket.create_connection(("127.0.0.1", server.port), 10) as client:
        with pytest.raises(ConnectionError):
            client.sendall(begins + b"a" * 30_000_000)
        assert httpx.get(f"{server.address}healthz").status_code == 200


def test_a_body_is_read_that_comes_with_the_offer_of_another_protocol(db: Path) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with served(db, "--port", "0") as server:
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", **offer}
        with httpx.Client(base_url=server.address, headers=headers) as client:
            for number in range(2):
                said = client.post("/api/conversations/12345678/messages", json={"id": f"m{number}", "text": "hello"})
                assert (said.status_code, said.json()) == (202, {"verdict": "accepted"})
            # In pieces, of which the first has the head alone.
            pieces = iter((b'{"id": "m2", ', b'"text": "hello"}'))
            assert client.post("/api/conversations/12345678/messages", content=pieces).status_code == 202


def test_serve_runs_on_uvloop_or_where_that_is_missing_on_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    def module() -> str:
        loop = new_event_loop()
        loop.close()
        return type(loop).__module__.partition(".")[0]

    assert module() == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert module() == "asyncio"


def test_it_answers_without_uvloop_and_httptools(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uvloop", "httptools"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with served(db, "--port", "0") as server:
        assert httpx.get(f"{server.address}healthz").status_code == 200
        assert server.stop() == 0
