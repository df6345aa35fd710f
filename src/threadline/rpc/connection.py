"""One side of a JSON-RPC connection: sends requests and notifications, and dispatches those that come in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from threadline.errors import ThreadlineError
from threadline.log import get_logger
from threadline.rpc import envelope
from threadline.rpc.envelope import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    PARSE_ERROR,
    RpcError,
)
from threadline.rpc.lines import LineReader, LineTooLong, LineWriter, OfferedLines
from threadline.rpc.requests import IncomingRequests, Request, Serve, Start

__all__ = [
    "Connection",
    "ConnectionEnded",
    "Request",
    "RpcError",
    "Serve",
    "Hear",
    "Start",
    "AUTH_REQUIRED",
    "CANCELLED",
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "NOT_FOUND",
    "PARSE_ERROR",
]

log = get_logger(__name__)

_CANCEL: Final = "$/cancel_request"
# So many lines out of one read, and others have a turn: the work on them comes to its end while the rest is taken.
_LINES_A_TURN: Final = 64
# So many bytes of answers, and the reader looks whether the other side reads them: else they would fill the memory.
_MAX_OWED: Final = 16 * 1024 * 1024
# How long the end waits for work that was cancelled, and for the other side to take the last lines.
_LAST_WAIT: Final = 2.0

Hear: TypeAlias = Callable[[str, msgspec.Raw], None]
_Value = TypeVar("_Value")


class ConnectionEnded(ThreadlineError):
    """The connection ended before the other side answered. Connect again to go on."""


class _Cancel(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw


class Connection:
    """Requests and notifications in both directions. Every request that comes in is answered exactly once.

    `on_request` is called in the order in which requests arrive; what it does before it returns happens in that order. It
    returns an awaitable whose value is the result, or None if the worker calls `Request.answer` itself. An RpcError is answered
    as it is; any other error is logged and answered with a plain sentence. Notifications sent before the work returns go out
    before the answer; what the work leaves to the loop's `call_soon` comes after it. `on_notification` is called with each
    notification, in its place among the requests. What these two raise never ends the connection.
    """

    def __init__(
        self,
        lines: LineReader,
        sink: LineWriter,
        *,
        on_request: Serve,
        on_notification: Hear,
        start: Start,
        name: str = "peer",
        grace: float = 0.0,
        on_stray: Callable[[], None] = lambda: None,
    ) -> None:
        """Start reading only with `run`. After the end of input, open requests have `grace` seconds to be answered.

        `on_stray` is called for each message that neither `on_request` nor `on_notification` sees and no request waits for.
        """
        self._lines: Final = lines
        self._sink: Final = sink
        self._on_notification: Final = on_notification
        self._name: Final = name
        self._grace: Final = grace
        self._on_stray: Final = on_stray
        self._incoming: Final = IncomingRequests(on_request, start, self._answer, name)
        self._waiting: dict[bytes, asyncio.Future[envelope.ResponseLine | None]] = {}
        self._asked = 0
        self._owed = 0
        self._reader: asyncio.Task[Any] | None = None
        self._can_wake = False
        self._was_woken = False
        # Three steps to the end: no more requests of ours; no more reading; no more writing.
        self._over = False
        self._closing = False
        self._mute = False

    async def run(self) -> None:
        """Read and dispatch until the end of input, or until `close`.

        Then every waiting request of ours fails with ConnectionEnded, unfinished work is cancelled and its requests are
        answered so, and queued lines are given a moment to leave. Nothing is written after it.
        """
        self._reader = asyncio.current_task()
        if isinstance(self._lines, OfferedLines):
            self._lines.offer(self._take_alone)
        try:
            await self._until_closed(self._read())
            self._fail_pending()
            await self._until_closed(self._wait_for_work())
            self._incoming.cancel_all()
            with suppress(OSError, TimeoutError):
                await self._wind_up()
        finally:
            self._reader = None
            self._fail_pending()
            self._incoming.cancel_all()
            self._silence()

    async def request(
        self,
        method: str,
        params: object,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - who stops waiting must tell the other side
    ) -> msgspec.Raw:
        """Return the other side's result.

        Raises RpcError if it answers with an error, ConnectionEnded if it will not answer any more, TimeoutError after `timeout`
        seconds. A caller that stops waiting, by a timeout or a cancel, sends a cancel notification.
        """
        if self._over:
            raise ConnectionEnded
        number = self._asked = self._asked + 1
        line = envelope.call_line(number, method, params)
        key = b"%d" % number
        coming = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._write(line)
        try:
            if timeout is None:
                answer = await coming
            else:
                async with asyncio.timeout(timeout):
                    answer = await coming
        finally:
            if self._waiting.pop(key, None) is not None:
                self.notify(_CANCEL, {"requestId": number})
        return _result(answer)

    def notify(self, method: str, params: object) -> None:
        """Send a notification. Never blocks and never fails: after the end it is dropped."""
        self._write(envelope.notification_line(method, params))

    def send_lines(self, lines: bytes) -> None:
        """Send ready-made lines, each with its newline, in their place in the order."""
        self._write(lines)

    async def drain(self) -> None:
        """Wait until the other side has read enough for more to be sent, or reads no more."""
        if self._mute:
            return
        try:
            await self._sink.drain()
        except OSError:
            self._peer_gone()

    def close(self) -> None:
        """End the connection: requests of ours fail now, and `run` ends. May be called more than once."""
        self._closing = True
        self._fail_pending()
        if self._reader is None:
            self._silence()
        elif self._can_wake and self._reader is not asyncio.current_task():
            self._can_wake = False
            self._was_woken = True
            self._reader.cancel()

    async def _until_closed(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the reader's work; `close` interrupts it at its next wait."""
        try:
            await work
        except asyncio.CancelledError:
            # Only the one cancel that `close` made is taken back; who else cancels the reader means it.
            if not self._was_woken or self._reader is None or self._reader.uncancel() > 0:
                raise

    async def _wakeable(self, waited: Coroutine[Any, Any, _Value]) -> _Value:
        """Wait where `close` may interrupt."""
        self._can_wake = True
        try:
            return await waited
        finally:
            self._can_wake = False

    async def _read(self) -> None:
        taken = 0
        while not self._closing:
            try:
                line = await self._wakeable(self._lines.next())
            except LineTooLong as cause:
                self._answer(envelope.failure_line(envelope.NULL, INVALID_REQUEST, str(cause)))
                continue
            if line is None:
                return
            self._take(line)
            taken += 1
            if taken % _LINES_A_TURN == 0:
                await asyncio.sleep(0)
            if self._owed > _MAX_OWED:
                self._owed = 0
                await self._wakeable(self.drain())

    def _take_alone(self, line: bytes) -> bool:
        """Process a line while the reader waits for one. False: the line was not taken."""
        if not self._can_wake or self._closing or self._owed > _MAX_OWED:
            return False
        self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        match envelope.parse(line):
            case envelope.RequestLine() as call:
                self._incoming.start(call)
            case envelope.NotificationLine() as notification:
                self._take_notification(notification)
            case envelope.ResponseLine() as answer:
                self._take_answer(answer)
            case envelope.InvalidLine() as refused if line.strip():
                self._refuse(refused)

    def _take_notification(self, notification: envelope.NotificationLine) -> None:
        try:
            if notification.method == _CANCEL:
                self._on_stray()
                self._incoming.cancel(
                    envelope.id_key(msgspec.json.decode(notification.params, type=_Cancel).request_id)
                )
            else:
                self._on_notification(notification.method, notification.params)
        except msgspec.DecodeError:
            log.debug("rpc.not_understood", peer=self._name, method=notification.method[:80])
        except Exception:
            # The next line may be a better one.
            log.exception("rpc.not_heard", peer=self._name, method=notification.method[:80])

    def _take_answer(self, answer: envelope.ResponseLine) -> None:
        coming = self._waiting.pop(bytes(answer.id), None)
        if coming is not None and not coming.done():
            coming.set_result(answer)
        elif answer.result is None and answer.error is None:
            self._refuse(envelope.InvalidLine(answer.id, INVALID_REQUEST, envelope.NO_METHOD))
        else:
            self._on_stray()
            log.debug("rpc.nobody_waits", peer=self._name)

    def _refuse(self, refused: envelope.InvalidLine) -> None:
        self._on_stray()
        log.debug("rpc.refused", peer=self._name, code=refused.code)
        self._answer(envelope.failure_line(refused.id, refused.code, refused.message))

    def _answer(self, line: bytes) -> None:
        self._owed += len(line)
        self._write(line)

    def _write(self, line: bytes) -> None:
        if self._mute:
            return
        try:
            self._sink.write(line)
        except OSError:
            self._peer_gone()

    async def _wait_for_work(self) -> None:
        if self._grace and not self._closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._wakeable(self._incoming.wait_until_answered())

    async def _wind_up(self) -> None:
        async with asyncio.timeout(_LAST_WAIT):
            await self._incoming.wait_until_answered()
            await self._sink.flush()

    def _fail_pending(self) -> None:
        self._over = True
        waiting, self._waiting = self._waiting, {}
        for coming in waiting.values():
            if not coming.done():
                coming.set_result(None)

    def _peer_gone(self) -> None:
        """Stop writing and close: the other side reads no more."""
        log.debug("rpc.lost", peer=self._name)
        self._mute = True
        self.close()

    def _silence(self) -> None:
        self._mute = True
        self._sink.close()


def _result(answer: envelope.ResponseLine | None) -> msgspec.Raw:
    if answer is None:
        raise ConnectionEnded
    if answer.error is not None:
        raise envelope.rpc_error(answer.error)
    return envelope.NULL if answer.result is None else answer.result
