"""Long polling: updates are accepted in order per chat, and confirmed by the next request after all were stored."""

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

# Returns whether an update is finished: it is stored, or it was skipped.
AcceptUpdate: TypeAlias = Callable[[ParsedUpdate], Awaitable[bool]]
ReadAll: TypeAlias = Callable[[Sequence[bytes]], list[ParsedUpdate]]

_WAIT_SECONDS = 25
_AT_ONCE = 100
_ALONE_SECONDS = 20.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# So many conflicts in a row may be accidental before another program is reported.
_CONTESTED_AFTER = 3


class UpdatePoller:
    """Polls for updates until another program does, or Telegram refuses the token."""

    def __init__(
        self, client: TelegramClient, name: str, read: ReadAll, accept: AcceptUpdate, jitter: Callable[[], float]
    ) -> None:
        """`name` is for the log. `jitter` returns 0 to 1: gateways that lost the connection together reconnect one by one."""
        self._client = client
        self._name = name
        self._read = read
        self._accept = accept
        self._jitter = jitter
        # The first unfinished update; None once all earlier ones are confirmed. Telegram numbers updates anew after a week
        # without any, so an offset that is kept too long would hide new ones.
        self._offset: int | None = None
        self._pause = _FIRST_PAUSE
        self._contests = 0
        self._is_webhook_gone = False

    async def run(self, ready: asyncio.Event, *, is_doubtful: bool) -> Contested | Unauthorized:
        """Poll until another program does, or Telegram refuses the token; return that error.

        Sets `ready` after the first response; with `is_doubtful` only after twenty seconds without another program.
        """
        wait, alone_since = 0, asyncio.get_running_loop().time()
        while True:
            try:
                updates = await self._client.updates(self._request(), wait=wait)
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

    def _request(self) -> dict[str, object]:
        request: dict[str, object] = {"limit": _AT_ONCE, "allowed_updates": wire.ALLOWED_UPDATES}
        return request if self._offset is None else request | {"offset": self._offset}

    async def _process_batch(self, updates: Sequence[bytes]) -> None:
        if not updates:
            # The request with the offset has confirmed all updates before it.
            self._offset = None
            self._pause = _FIRST_PAUSE
            return
        parsed = self._read(updates)
        unfinished = await self._accept_all(parsed)
        numbers = [update.number for update in parsed if update.number is not None]
        if not unfinished and numbers:
            self._offset = numbers[-1] + 1
            self._pause = _FIRST_PAUSE
            return
        self._offset = min((update.number for update in unfinished if update.number is not None), default=self._offset)
        await self._back_off()

    async def _accept_all(self, updates: Sequence[ParsedUpdate]) -> list[ParsedUpdate]:
        """Accept updates, in order within a chat, chats concurrently; return those that were not finished."""
        unfinished: list[ParsedUpdate] = []
        for concurrent_updates in _ordered_groups(updates):
            if unfinished:
                unfinished += concurrent_updates
                continue
            queues: dict[int | None, list[ParsedUpdate]] = {}
            for update in concurrent_updates:
                queues.setdefault(update.chat, []).append(update)
            async with asyncio.TaskGroup() as group:
                for queue in queues.values():
                    group.create_task(self._accept_in_order(queue, unfinished))
        return unfinished

    async def _accept_in_order(self, queue: Sequence[ParsedUpdate], unfinished: list[ParsedUpdate]) -> None:
        for index, update in enumerate(queue):
            if not await self._accept(update):
                unfinished += queue[index:]
                return

    async def _handle_conflict(self, cause: Contested | Unauthorized) -> Contested | Unauthorized | None:
        """Back off, in case the other program is ending; return the error if the token is refused or conflicts go on."""
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
        """Remove the webhook, once: if it is set again that is intended."""
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


def _ordered_groups(updates: Sequence[ParsedUpdate]) -> Iterator[list[ParsedUpdate]]:
    """Yield the updates in groups, with each update that must keep its place among those of all chats in its own group."""
    group: list[ParsedUpdate] = []
    for update in updates:
        if update.chat is None:
            yield group
            yield [update]
            group = []
        else:
            group.append(update)
    yield group
