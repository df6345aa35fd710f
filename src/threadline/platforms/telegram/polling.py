"""Asking for updates: handed on in order, and confirmed by asking for the next ones, after all of them were taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from threadline.log import get_logger
from threadline.platforms.telegram import wire
from threadline.platforms.telegram.client import TelegramClient
from threadline.platforms.telegram.codec import ParsedUpdate
from threadline.platforms.telegram.errors import WebhookActive
from threadline.ports.platform import Contested, PlatformError, RateLimited, Unauthorized

log = get_logger(__name__)

# Whether an update is done with: stored, or surely not wanted.
AcceptUpdate: TypeAlias = Callable[[ParsedUpdate], Awaitable[bool]]
ReadAll: TypeAlias = Callable[[Sequence[bytes]], list[ParsedUpdate]]

_WAIT_SECONDS = 25
_AT_ONCE = 100
_ALONE_SECONDS = 20.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# So often in a row somebody else may take our place before it is no accident.
_CONTESTED_AFTER = 3


class UpdatePoller:
    """One stretch of listening."""

    def __init__(
        self, client: TelegramClient, name: str, read: ReadAll, take: AcceptUpdate, jitter: Callable[[], float]
    ) -> None:
        """`name` is for the log. `jitter` gives numbers from 0 to 1: gateways that lost Telegram together come back one by one."""
        self._client = client
        self._name = name
        self._read = read
        self._accept = take
        self._jitter = jitter
        # The first update that is not done with; `None` once all before it are surely confirmed. Ids of updates start anew
        # after a week of silence, so that an old one kept too long would hide what comes then.
        self._offset: int | None = None
        self._pause = _FIRST_PAUSE
        self._contests = 0
        self._is_webhook_gone = False

    async def run(self, ready: asyncio.Event, *, is_doubtful: bool) -> Contested | Unauthorized:
        """Listens until somebody else does, or Telegram does not know us any more.

        It sets `ready` after the first answer; where it `is_doubtful` that we are alone, once nobody came between for a while.
        """
        wait, alone_since = 0, asyncio.get_running_loop().time()
        while True:
            try:
                updates = await self._client.updates(self._asked(), wait=wait)
            except (Contested, Unauthorized) as cause:
                if (end := await self._handle_conflict(cause)) is not None:
                    return end
                alone_since = asyncio.get_running_loop().time()
                continue
            except PlatformError as cause:
                await self._recover(cause)
                continue
            if wait:
                self._contests = 0
            if not is_doubtful or asyncio.get_running_loop().time() - alone_since > _ALONE_SECONDS:
                ready.set()
            wait = _WAIT_SECONDS
            await self._process_batch(updates)

    def _asked(self) -> dict[str, object]:
        asked: dict[str, object] = {"limit": _AT_ONCE, "allowed_updates": wire.ALLOWED_UPDATES}
        return asked if self._offset is None else asked | {"offset": self._offset}

    async def _process_batch(self, updates: Sequence[bytes]) -> None:
        if not updates:
            # Asking with the offset has confirmed all before it.
            self._offset = None
            self._pause = _FIRST_PAUSE
            return
        reads = self._read(updates)
        left = await self._accept_all(reads)
        numbers = [read.number for read in reads if read.number is not None]
        if not left and numbers:
            self._offset = numbers[-1] + 1
            self._pause = _FIRST_PAUSE
            return
        self._offset = min((one.number for one in left if one.number is not None), default=self._offset)
        await self._back_off()

    async def _accept_all(self, reads: Sequence[ParsedUpdate]) -> list[ParsedUpdate]:
        """Hands updates on, in order within a chat, chats side by side; those that were not taken."""
        left: list[ParsedUpdate] = []
        for stretch in _ordered_groups(reads):
            if left:
                left += stretch
                continue
            queues: dict[int | None, list[ParsedUpdate]] = {}
            for read in stretch:
                queues.setdefault(read.chat, []).append(read)
            async with asyncio.TaskGroup() as group:
                for queue in queues.values():
                    group.create_task(self._accept_in_order(queue, left))
        return left

    async def _accept_in_order(self, queue: Sequence[ParsedUpdate], left: list[ParsedUpdate]) -> None:
        for place, read in enumerate(queue):
            if not await self._accept(read):
                left += queue[place:]
                return

    async def _handle_conflict(self, cause: Contested | Unauthorized) -> Contested | Unauthorized | None:
        """Waits, in case that whoever took our place is on their way out; else why there is no use in it."""
        self._contests += 1
        if isinstance(cause, Unauthorized) or self._contests > _CONTESTED_AFTER:
            return cause
        log.warning(
            "telegram.contested",
            platform=self._name,
            reason="another program asks for the messages of this bot; stop it, or give each a bot of its own",
        )
        await self._back_off()
        return None

    async def _recover(self, cause: PlatformError) -> None:
        if isinstance(cause, WebhookActive) and not self._is_webhook_gone:
            await self._remove_webhook()
            return
        if isinstance(cause, RateLimited):
            await asyncio.sleep(cause.retry_after)
            return
        log.warning("platform.unreachable", platform=self._name, reason=str(cause))
        await self._back_off()

    async def _remove_webhook(self) -> None:
        """Once: who sets it again means it."""
        self._is_webhook_gone = True
        log.warning(
            "telegram.webhook_removed",
            platform=self._name,
            reason="the messages of this bot went to a webhook; now they come here",
        )
        try:
            await self._client.call("deleteWebhook", {})
        except PlatformError as cause:
            self._is_webhook_gone = False
            log.warning("platform.unreachable", platform=self._name, reason=str(cause))
            await self._back_off()

    async def _back_off(self) -> None:
        pause = self._pause * (0.5 + self._jitter() / 2)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        await asyncio.sleep(pause)


def _ordered_groups(reads: Sequence[ParsedUpdate]) -> Iterator[list[ParsedUpdate]]:
    """The updates cut before and behind each that must stay where it is among those of all chats."""
    stretch: list[ParsedUpdate] = []
    for read in reads:
        if read.chat is None:
            yield stretch
            yield [read]
            stretch = []
        else:
            stretch.append(read)
    yield stretch
