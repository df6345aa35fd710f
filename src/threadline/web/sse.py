"""The endpoint of the event stream and its response: one stream for each tab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadline.errors import ThreadlineError, UnknownSession
from threadline.log import get_logger
from threadline.web.conversation_state import shown_of
from threadline.web.frames import BEGINNING, frame
from threadline.web.requests import ApiCall, read_body, read_query
from threadline.web.shapes import FollowWanted
from threadline.web.subscribers import Subscriber

log = get_logger(__name__)

# Whether whoever listens may still do so.
MayListen: TypeAlias = Callable[[], Awaitable[bool]]

_WRITE_SECONDS = 30.0
_CHECK_SECONDS = 60.0

_LONGEST_ID = 200


class EventStream(Response):
    """Stream events to one subscriber until it disconnects, reads nothing for half a minute, or loses its access."""

    def __init__(
        self,
        subscriber: Subscriber,
        leave: Callable[[Subscriber], None],
        may_listen: MayListen,
        *,
        write_seconds: float = _WRITE_SECONDS,
    ) -> None:
        """`leave` is called once, however the stream ends."""
        super().__init__(
            media_type="text/event-stream",
            # A proxy that gathers what it passes on would hold the words back.
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        # Nobody knows how long it will be.
        del self.headers["content-length"]
        self._subscriber = subscriber
        self._leave = leave
        self._ask_may_listen = may_listen
        self._write_seconds = write_seconds
        # Counts what was handed on; `None` while nothing is.
        self._sent = 0
        self._sending: int | None = None
        self._next_look: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - it is asked for
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(receive))
                await self._stream(send)
                watching.cancel()
        finally:
            self._leave(self._subscriber)

    async def _stream(self, send: Send) -> None:
        try:
            async with self._patience():
                await self._send_next(send)
        except TimeoutError:
            # It has a full buffer before it and reads nothing; the server closes what was not finished.
            log.info("web.reader_cut_off")
        except OSError:
            # It has left.
            return

    async def _send_next(self, send: Send) -> None:
        told: bytes | None = BEGINNING
        while told is not None:
            self._sent += 1
            self._sending = self._sent
            await send({"type": "http.response.body", "body": told, "more_body": True})
            self._sending = None
            # A quiet stream must not hold on to the last that it sent.
            told = None
            told = await self._subscriber.receive()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        """Raise `TimeoutError` if the client does not read a chunk for `write_seconds`, or at most twice as long.

        One timer serves all chunks: a timer for each would cost a third of what sending it costs.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as limit:

            def look(seen: int | None) -> None:
                if seen is not None and self._sending == seen:
                    limit.reschedule(loop.time())
                else:
                    self._next_look = loop.call_later(self._write_seconds, look, self._sending)

            look(None)
            try:
                yield
            finally:
                if self._next_look is not None:
                    self._next_look.cancel()

    async def _watch(self, receive: Receive) -> None:
        """End the stream when the client disconnects or loses its access: its login can be revoked meanwhile."""
        while not await self._has_left(receive) and await self._may_listen():
            pass
        self._subscriber.close()

    async def _has_left(self, receive: Receive) -> bool:
        """Return whether the client disconnects within a minute."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                while (await receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return False
        return True

    async def _may_listen(self) -> bool:
        try:
            return await self._ask_may_listen()
        except ThreadlineError:
            # A store that is away says nothing of anybody; it is asked again.
            return True


async def events(call: ApiCall) -> Response:
    """One's list as it changes, and a conversation as it goes on. `Last-Event-ID` goes on from there."""
    if call.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    if call.request.method == "POST":
        wanted = await read_body(call.request, FollowWanted)
    else:
        wanted = read_query(call.request, FollowWanted)
    last_id = call.request.headers.get("last-event-id")
    hub, caller = call.web.hub, call.caller
    ended = None if wanted.conversation is None or wanted.session is None else await _ended(call, wanted)
    subscriber = await hub.subscribe(
        caller.user_id,
        caller.role,
        None if ended is not None else wanted.conversation,
        last_id if last_id is not None and len(last_id) <= _LONGEST_ID else None,
    )
    if subscriber is None:
        raise UnknownSession
    if ended is not None:
        subscriber.send(ended)

    async def may_listen() -> bool:
        now = await call.web.auth.authenticate(call.request)
        return now is not None and (now.user_id, now.role) == (caller.user_id, caller.role)

    return EventStream(subscriber, hub.unsubscribe, may_listen)


async def _ended(call: ApiCall, wanted: FollowWanted) -> bytes | None:
    """Return the snapshot frame of an ended session, or `None` for the current one."""
    source = call.source(wanted.conversation)
    agent = call.web.agent_at(source).name
    seen = await call.web.store.change_feed.snapshot(source, agent=agent, session_id=wanted.session)
    if seen is None:
        raise UnknownSession
    return None if seen.is_current else frame("snapshot", shown_of(seen, None, None, call.caller.role).snapshot())
