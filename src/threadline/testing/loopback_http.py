"""A small HTTP server for fakes: it lives in a test's own loop, answers on 127.0.0.1 alone and keeps connections open.

Bodies come whole, by length or in chunks. An answer is given at once or awaited; while one is awaited, a caller who goes
away cancels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import unquote

import msgspec

_LONGEST_HEAD = 65_536
_PIECE = 65_536


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as it arrived. Names of headers are in lower case; the path is decoded, `query` is not."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HttpAnswer(msgspec.Struct, frozen=True):
    """What is sent back."""

    status: int
    body: bytes
    kind: str = "application/json"


# `None`: the connection is cut and nothing is said.
Reply: TypeAlias = HttpAnswer | None
Respond: TypeAlias = Callable[[HttpRequest], Reply | Awaitable[Reply]]


class LoopbackServer:
    """Answers each request with what `respond` returns for it. Requests of one connection are answered in order."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.connections: set[_Connection] = set()
        self.answering: set[asyncio.Task[None]] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens: on a free port the first time, on the same one after that."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and cuts every connection; `start` may be called again."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut_connections()
        if self.answering:
            await asyncio.wait(self.answering)

    def cut_connections(self) -> None:
        """Hangs up on everybody. They may come back."""
        for connection in list(self.connections):
            connection.cut()


class _BadRequest(Exception):
    """This is not HTTP as we know it."""


class _Head(msgspec.Struct, frozen=True):
    method: str
    target: str
    headers: dict[str, str]

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def size(self) -> int:
        return int(self.headers.get("content-length", 0))


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, server: LoopbackServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._arriving = bytearray(_PIECE)
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._server.connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def get_buffer(self, _: int) -> bytearray:
        return self._arriving

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer += memoryview(self._arriving)[:nbytes]
        self._go_on()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Answers as many requests as have arrived whole, until one has to be waited for."""
        try:
            while self._task is None and (request := self._next_request()) is not None:
                reply = self._server.respond(request)
                if isinstance(reply, HttpAnswer | None):
                    self._say(reply)
                else:
                    self._wait_for(reply)
        except (_BadRequest, ValueError):
            self._say(HttpAnswer(400, b"This is not a request that can be read.", "text/plain"))
            if self._transport is not None:
                self._transport.close()

    def _wait_for(self, reply: Awaitable[Reply]) -> None:
        self._task = task = asyncio.create_task(self._later(reply))
        self._server.answering.add(task)
        task.add_done_callback(self._server.answering.discard)

    async def _later(self, reply: Awaitable[Reply]) -> None:
        answer = await reply
        self._task = None
        self._say(answer)
        self._go_on()

    def _say(self, answer: Reply) -> None:
        if self._transport is None:
            return
        if answer is None:
            self._transport.abort()
            return
        head = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"Content-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + answer.body)

    def _next_request(self) -> HttpRequest | None:
        if self._head is None:
            self._head = self._take_head()
        if (head := self._head) is None or (body := self._take_body(head)) is None:
            return None
        self._head = None
        path, _, query = head.target.partition("?")
        return HttpRequest(head.method, unquote(path), query, head.headers, body)

    def _take_head(self) -> _Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _BadRequest
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, target, _ = first.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines)
        head = _Head(method, target, {name.strip().lower(): value.strip() for name, value in pairs})
        if head.headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return head

    def _take_body(self, head: _Head) -> bytes | None:
        if head.is_chunked:
            return self._take_chunks()
        if len(self._buffer) < head.size:
            return None
        body = bytes(self._buffer[: head.size])
        del self._buffer[: head.size]
        return body

    def _take_chunks(self) -> bytes | None:
        chunks, place = [], 0
        while (end := self._buffer.find(b"\r\n", place)) >= 0:
            size = int(self._buffer[place:end].partition(b";")[0], 16)
            start = end + 2
            if len(self._buffer) < start + size + 2:
                return None
            chunks.append(bytes(self._buffer[start : start + size]))
            place = start + size + 2
            if size == 0:
                del self._buffer[:place]
                return b"".join(chunks)
        return None
