"""Showing an answer while it is still being written: one message, edited as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from threadline.gateway.calling import CALL_SECONDS, limited
from threadline.gateway.patience import patiently
from threadline.gateway.settings import Split
from threadline.gateway.supervisor import Supervisor, woken
from threadline.log import get_logger
from threadline.ports.platform import Ambiguous, NotModified, Outgoing, Platform, PlatformError, RateLimited
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import NewDelivery, StreamedDelivery

log = get_logger(__name__)


class Streamer:
    """One growing message. Whatever goes wrong here costs the preview alone: the answer itself is delivered by the outbox."""

    def __init__(
        self,
        store: GatewayStore,
        platform: Platform,
        new: NewDelivery,
        split: Split,
        after: float,
        is_late: Callable[[], bool],
        text: Callable[[], Awaitable[str]],
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """`after`: seconds before anything is shown. `is_late`: whether the turn may be another worker's by now.

        `text` is what may be shown of the answer. It is asked only when it is shown: an answer grows faster than a chat.
        """
        self._is_late = is_late
        self._store = store
        self._platform = platform
        self._new = new
        self._pause = platform.capabilities.edit_pause(new.target.chat_type)
        self._split = split
        self._after = after
        self._text = text
        self._call_seconds = call_seconds
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._begins: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, supervisor: Supervisor) -> None:
        """The answer is being written. One that is whole before anything would be shown costs nothing here."""
        self._begins = asyncio.get_running_loop().call_later(self._after, self._start, supervisor)

    async def end(self) -> None:
        """Returns once nothing more is shown, and the call that is on its way is over."""
        self.close()
        if self._begins is not None:
            self._begins.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def update(self) -> None:
        """The answer has grown."""
        self._changed.set()

    def close(self) -> None:
        """Nothing more is shown; `run` ends after the call that is on its way."""
        self._closing.set()
        self._changed.set()

    async def run(self) -> None:
        """Shows the text as it grows, no faster than the platform likes it."""
        if not await self._next(""):
            return
        stream = await self._opened()
        if stream is None or (stream.may_be_duplicate and not self._platform.capabilities.idempotent_send):
            return
        if stream.external_id is None:
            await self._begin(stream)
        else:
            # An earlier attempt got so far; what the message says now is not known here.
            await self._grow(stream.external_id, "")

    def _start(self, supervisor: Supervisor) -> None:
        self._task = supervisor.start("stream", self.run())

    async def _opened(self) -> StreamedDelivery | None:
        """The stream, once nothing older is to be sent in the chat; `None` when nothing more is wanted."""
        while not self._closing.is_set():
            if (stream := await self._store.outbox.open_stream(self._new)) is not None:
                return stream
            await woken(self._closing, self._pause)
        return None

    async def _begin(self, stream: StreamedDelivery) -> None:
        shown = await self._next("")
        if not shown or self._is_late():
            await self._take_back(stream)
            return
        try:
            first = Outgoing(text=shown, reply_to=self._new.reply_to)
            async with limited(self._call_seconds):
                message_id = await self._platform.send(self._new.target, first, key=self._new.delivery_id)
        except Ambiguous:
            return
        except PlatformError as cause:
            log.info("stream.not_begun", delivery=self._new.delivery_id, error=str(cause))
            await self._take_back(stream)
            return
        await patiently(lambda: self._store.outbox.save_stream_id(stream, message_id), self._is_late)
        # A key that was used before brought an older text back.
        await self._grow(message_id, "" if stream.may_be_duplicate else shown)

    async def _take_back(self, stream: StreamedDelivery) -> None:
        """Nothing of it arrived now. What an earlier attempt left in doubt stays so."""
        if not stream.may_be_duplicate:
            await self._store.outbox.cancel_stream_start(stream)

    async def _grow(self, message_id: str, shown: str) -> None:
        pause = self._pause
        while True:
            await woken(self._closing, pause)
            text = await self._next(shown)
            if not text or self._is_late():
                return
            try:
                async with limited(self._call_seconds):
                    await self._platform.edit(self._new.target, message_id, Outgoing(text=text))
            except RateLimited as limit:
                pause = max(limit.retry_after, self._pause)
                continue
            except NotModified:
                pass
            except PlatformError as cause:
                log.info("stream.ended", delivery=self._new.delivery_id, error=str(cause))
                return
            shown, pause = text, self._pause

    async def _next(self, shown: str) -> str:
        """The first part of the text once it differs from what is shown; empty when nothing more is wanted."""
        while not self._closing.is_set():
            self._changed.clear()
            parts = self._split(await self._text(), self._platform.capabilities)
            if parts and parts[0] != shown:
                # It may have been closed while the words were being kept: by somebody who lost the turn, too.
                return "" if self._closing.is_set() else parts[0]
            await self._changed.wait()
            if len(parts) > 1:
                # What grows now is beyond the part that is shown: to look at every word would cost more and more.
                await woken(self._closing, self._pause)
        return ""
