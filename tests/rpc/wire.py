"""A connection with a bare other side that writes what it likes, line by line, and reads what comes back."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from threadline.gateway.supervisor import Supervisor
from threadline.rpc.connection import METHOD_NOT_FOUND, Connection, Hear, Request, RpcError, Serve
from threadline.rpc.lines import LineReader, LineWriter, over_streams
from threadline.rpc.stdio import PipeSink, lines_from

KINDS = ("pipes", "streams")


class Wire:
    """The bare other side, and the connection that it speaks to."""

    def __init__(self, connection: Connection, running: asyncio.Task[None], start: Supervisor) -> None:
        self.connection = connection
        self.running = running
        self._supervisor = start
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    def send(self, *messages: object) -> None:
        """Writes each as a line; bytes as they are."""
        for message in messages:
            line = message if isinstance(message, bytes) else msgspec.json.encode(message)
            self.writer.write(line + b"\n")

    async def receive(self) -> Any:
        """The next line that the connection wrote."""
        line = await self.reader.readuntil(b"\n")
        return msgspec.json.decode(line)

    async def receive_all(self, count: int) -> list[Any]:
        """The next so many lines."""
        return [await self.receive() for _ in range(count)]

    async def rest(self) -> list[Any]:
        """Ends the input, waits for the end of the connection, and gives all that it still wrote."""
        self.hang_up()
        await self.running
        written = await self.reader.read()
        return [msgspec.json.decode(line) for line in written.splitlines()]

    def hang_up(self) -> None:
        """No more lines come from this side; it still reads."""
        self.writer.write_eof()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Something that goes on beside the test."""
        return self._supervisor.start("beside", work)


class ByItself:
    """Work that answers by itself, in its own time, without a task that waits for it."""

    def __init__(self) -> None:
        self.taken: list[Request] = []
        self._more = asyncio.Event()

    def __call__(self, request: Request) -> None:
        self.taken.append(request)
        self._more.set()

    async def has(self, count: int) -> list[Request]:
        """The requests, once there are so many."""
        while len(self.taken) < count:
            self._more.clear()
            await self._more.wait()
        return self.taken


@asynccontextmanager
async def wired(
    serve: Serve | None = None, hear: Hear | None = None, *, kind: str = "pipes", grace: float = 0.0
) -> AsyncIterator[Wire]:
    """A running connection over pipes that are polled, or over streams."""
    supervisor = Supervisor()
    ours, theirs = socket.socketpair()
    lines, sink, let_go = await _ends(ours, kind)
    connection = Connection(
        lines, sink, on_request=serve or unknown, on_notification=hear or ignored, start=supervisor.start, grace=grace
    )
    wire = Wire(connection, supervisor.start("connection", connection.run()), supervisor)
    wire.reader, wire.writer = await asyncio.open_connection(sock=theirs, limit=1 << 27)
    try:
        yield wire
    finally:
        connection.close()
        await supervisor.stop()
        wire.writer.transport.abort()
        let_go()
        # Both ends hear of it in the loop's next round.
        await asyncio.sleep(0.001)


async def _ends(ours: socket.socket, kind: str) -> tuple[LineReader, LineWriter, Callable[[], None]]:
    ours.setblocking(False)
    if kind == "streams":
        reader, writer = await asyncio.open_connection(sock=ours)
        return *over_streams(reader, writer), writer.transport.abort
    sink = PipeSink(os.dup(ours.fileno()))
    return lines_from(ours.detach()), sink, sink.close


def call(number: object, method: str = "echo", **params: object) -> dict[str, object]:
    """A request as the other side writes it."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def said(method: str, **params: object) -> dict[str, object]:
    """A notification as the other side writes it."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def unknown(request: Request) -> Awaitable[object]:
    """Serves nothing."""
    raise RpcError(METHOD_NOT_FOUND, "There is no such method.")


def ignored(method: str, params: msgspec.Raw) -> None:
    """Hears nothing."""


async def echo(request: Request) -> object:
    """Answers with what it was given."""
    return request.params


class Waiting:
    """Work that goes on until it is let go, and says what became of it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, request: Request) -> object:
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "done"
