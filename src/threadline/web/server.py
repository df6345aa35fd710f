"""The listening socket, the server that answers on it until it is told to stop, and the file with its address."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from threadline.errors import InvalidRequest
from threadline.log import get_logger

log = get_logger(__name__)

DEFAULT_PORT = 8765
_MORE_PORTS = 20
# Whoever keeps a connection open must not keep the program from ending.
_SHUTDOWN_SECONDS = 3
_UNTAKEN_SECONDS = 40
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104

_LONGEST = 4096


def bind(host: str, port: int | None, note: Callable[[str], None]) -> socket.socket:
    """Return a listening socket. Without a `port` it is the first free one of the usual ports, which `note` reports.

    Raise `InvalidRequest` if the port is taken or the address does not belong to this machine.
    """
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + _MORE_PORTS + 1) if port is None else (port,)
    for candidate in wanted:
        try:
            listening = _listen(host, candidate)
        except OSError as cause:
            if cause.errno == errno.EADDRINUSE:
                continue
            raise InvalidRequest(_bind_error_text(host, candidate, cause)) from cause
        if port is None and candidate != DEFAULT_PORT:
            note(f"Port {DEFAULT_PORT} is taken by another program; using {candidate}.")
        if host in _ANY_ADDRESS:
            note(
                "Other machines can reach the page now. It lets nobody in without a link, but what goes over the network "
                "can be read there: put a proxy with TLS before it."
            )
        return listening
    raise InvalidRequest(
        f"port {wanted[0]} is taken by another program; stop that one, or choose another with --port"
        if port is not None
        else f"ports {wanted[0]} to {wanted[-1]} are all taken; choose another with --port"
    )


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop, which computes less for each request, or where that is not installed one of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _http() -> type[asyncio.Protocol] | Literal["h11"]:
    """Return the HTTP parser: httptools, or if that is not installed h11, which is slower."""
    try:
        from threadline.web.heads import BoundedHttp
    except ImportError:
        return "h11"
    return BoundedHttp


async def run_server(
    app: ASGIApp, listening: socket.socket, ready: Callable[[str], None], stopping: Callable[[], None] = lambda: None
) -> None:
    """Serve requests until SIGTERM or SIGINT. `ready` receives the address as soon as requests are answered.

    `stopping` is called before the server waits for running responses; it must end those that have no end of their own.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="off",
        http=_http(),
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    await _Server(config, lambda: ready(_address(listening)), stopping).serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn, except that a signal ends it without being raised again: being told to stop is no failure."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except UnicodeError as cause:
        # Names that can't be looked up at all fail before the look-up.
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from cause
    # Restarts must not wait for old connections to be forgotten; two servers at once this does not allow.
    listening = socket.create_server((host, port), family=family, backlog=512)
    # Connections inherit it. Without it the body of an answer waits until its head is acknowledged, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Who takes nothing for so long is gone, or wants to be waited for in vain: the kernel lets go of what it holds for them.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNTAKEN_SECONDS * 1_000)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


def _bind_error_text(host: str, port: int, cause: OSError) -> str:
    if isinstance(cause, socket.gaierror) or cause.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; use 127.0.0.1, or an address that it has"
    if isinstance(cause, PermissionError):
        return f"port {port} may not be used by this account; choose one above 1023 with --port"
    return f"can't listen at {host}, port {port}: {cause.strerror}; choose another with --host and --port"


def address_file(token_file: Path) -> Path:
    """Return the path of the address file, which lies beside the token file."""
    return token_file.with_name("web-address")


@contextmanager
def published_address(path: Path, address: str) -> Iterator[None]:
    """Publish the address of the page in a file while this context, and this process, lasts. The last of several pages wins.

    If the file cannot be written, only a log event is written.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        held = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        log.warning("web.address_not_told", error=str(cause))
        yield
        return
    try:
        # The kernel lets go of it when this process dies, however it dies: who can lock the file knows that it is out of date.
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(held, address.encode())
        made.replace(path)
        yield
    finally:
        _remove(path, held)
        os.close(held)


def read_address(path: Path) -> str | None:
    """Return the address of the running page, or `None` if this user can find none."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(opened, _LONGEST).decode(errors="replace").strip() or None
    finally:
        os.close(opened)
    return None


def _remove(path: Path, held: int) -> None:
    """Delete the address file, unless another page has replaced it with its own."""
    try:
        if path.exists() and os.path.samestat(path.stat(), os.fstat(held)):
            path.unlink()
    except OSError as cause:
        log.warning("web.address_not_taken_back", error=str(cause))
