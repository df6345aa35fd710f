"""Requests that came in: each is answered exactly once, however its work ends."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

import msgspec

from threadline.log import get_logger
from threadline.rpc.envelope import (
    CANCELLED,
    INTERNAL,
    INVALID_REQUEST,
    RequestLine,
    RpcError,
    failure_line,
    id_key,
    result_line,
)

log = get_logger(__name__)

# A peer that asks without end must not fill the memory.
MAX_OPEN: Final = 2000

_FAILED: Final = "Something went wrong while this was done. The log of this process says what it was."
_CANCELLED: Final = "The request was cancelled."
_TWICE: Final = "A request with this id is still being answered. Give each request an id of its own."
_TOO_MANY: Final = "Too many requests are being answered at once. Wait for some of the answers and send this one again."


class Request(msgspec.Struct, eq=False):
    """A request that came in. `params` is an empty object if none were given.

    If `on_cancel` is set, a cancel notification calls it, and the answer is whatever the work then returns. Otherwise the request
    is answered as cancelled at once, and the task that works on it is cancelled.
    """

    id: msgspec.Raw
    method: str
    params: msgspec.Raw
    # Answers it at once, with a result or with an error; what comes after the first answer is passed over.
    answer: Callable[[object], None]
    on_cancel: Callable[[], None] | None = None


# Begins the work on a request. `None`: whoever does it calls `answer`, and no task waits for that meanwhile.
Serve: TypeAlias = Callable[[Request], Awaitable[object] | None]
Start: TypeAlias = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]


class _OpenRequest(msgspec.Struct, eq=False):
    """A request that has no answer yet."""

    key: bytes
    request: Request
    task: asyncio.Task[None] | None = None


class IncomingRequests:
    """The open requests. Whatever removes a request from `_open` answers it."""

    def __init__(self, serve: Serve, start: Start, answer: Callable[[bytes], None], name: str) -> None:
        self._serve: Final = serve
        self._start: Final = start
        self._answer: Final = answer
        self._name: Final = name
        self._open: dict[bytes, _OpenRequest] = {}
        # Those too that were answered for, and have not come to their end yet.
        self._tasks: set[asyncio.Task[None]] = set()
        # Who waits for the last answer.
        self._rest: asyncio.Future[None] | None = None

    def start(self, call: RequestLine) -> None:
        """Start the work on a request, or refuse it."""
        key = id_key(call.id)
        if key in self._open:
            self._answer(failure_line(call.id, INVALID_REQUEST, _TWICE))
            return
        if max(len(self._tasks), len(self._open)) >= MAX_OPEN:
            self._answer(failure_line(call.id, INTERNAL, _TOO_MANY))
            return

        def answer(result: object) -> None:
            if self._is_open(entry):
                self._settle(entry, self._line(entry.request, result))

        self._open[key] = entry = _OpenRequest(key, Request(call.id, call.method, call.params, answer))
        try:
            work = self._serve(entry.request)
        except Exception as cause:  # noqa: BLE001 - whatever it was, its sender is told and the next request is served
            answer(cause)
            return
        if work is None:
            return
        task = entry.task = self._start(self._name, self._finish(entry, work))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, entry, work))

    def cancel(self, key: bytes) -> None:
        """Cancel a request that the other side no longer wants. Do nothing if it was answered."""
        entry = self._open.get(key)
        if entry is None:
            return
        if entry.request.on_cancel is None:
            self._stop(entry)
            return
        try:
            entry.request.on_cancel()
        except Exception:
            # The request goes on and is answered by its own work.
            log.exception("rpc.cancel_failed", peer=self._name, method=_shown(entry.request))

    def cancel_all(self) -> None:
        """Cancel all work, and answer every open request."""
        for entry in list(self._open.values()):
            self._stop(entry)

    async def wait_until_answered(self) -> None:
        """Wait until every request is answered and no task is left."""
        while self._tasks or self._open:
            if self._tasks:
                await asyncio.wait(set(self._tasks))
            else:
                self._rest = asyncio.get_running_loop().create_future()
                await self._rest

    async def _finish(self, entry: _OpenRequest, work: Awaitable[object]) -> None:
        result: object
        try:
            result = await work
        except Exception as cause:  # noqa: BLE001 - whatever it was, its sender is told
            result = cause
        entry.request.answer(result)

    def _ended(self, task: asyncio.Task[None], entry: _OpenRequest, work: Awaitable[object]) -> None:
        self._tasks.discard(task)
        if inspect.iscoroutine(work):
            # A task that was cancelled before its first step never came to it.
            work.close()
        if self._is_open(entry):
            self._settle(entry, _cancelled(entry.request))

    def _stop(self, entry: _OpenRequest) -> None:
        self._settle(entry, _cancelled(entry.request))
        if entry.task is not None:
            entry.task.cancel()

    def _is_open(self, entry: _OpenRequest) -> bool:
        return self._open.get(entry.key) is entry

    def _settle(self, entry: _OpenRequest, line: bytes) -> None:
        if not self._is_open(entry):
            return
        del self._open[entry.key]
        self._answer(line)
        if self._rest is not None and not self._open:
            # A round later: what is left for behind the answer is told before the end.
            asyncio.get_running_loop().call_soon(self._come_to_rest)

    def _come_to_rest(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)

    def _line(self, request: Request, result: object) -> bytes:
        if not isinstance(result, Exception):
            try:
                return result_line(request.id, result)
            except Exception as cause:  # noqa: BLE001 - what can't be encoded is our mistake, and is told as one
                result = cause
        return self._failed(request, result)

    def _failed(self, request: Request, cause: Exception) -> bytes:
        if isinstance(cause, RpcError):
            try:
                return failure_line(request.id, cause.code, cause.message, cause.data)
            except Exception as unsayable:  # noqa: BLE001 - what can't be encoded is our mistake, and is logged as one
                cause = unsayable
        log.error("rpc.failed", peer=self._name, method=_shown(request), exc_info=cause)
        return failure_line(request.id, INTERNAL, _FAILED)


def _cancelled(request: Request) -> bytes:
    return failure_line(request.id, CANCELLED, _CANCELLED)


def _shown(request: Request) -> str:
    return request.method[:80]
