"""A cache of what Telegram tells about chats on request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from threadline.log import get_logger
from threadline.platforms.telegram.client import TelegramClient
from threadline.ports.platform import PlatformError

log = get_logger(__name__)

T = TypeVar("T")

_MAX_CHATS = 1_000
# So many requests run at once: otherwise Telegram would limit a bot in many groups after a restart.
_MAX_REQUESTS = 8


class CacheTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. `timeout`: for a response. `ttl`: after which a value is requested again; `retry_after`: after a failure.

    Without a response the former value stays in use until it is as old as `at_most`.
    """

    timeout: float
    ttl: float
    retry_after: float
    at_most: float


class _CacheEntry(msgspec.Struct, Generic[T], frozen=True):
    value: T
    # When it is requested again, and when it is dropped even if no request succeeds.
    until: float
    at_most: float


class TtlCache(Generic[T]):
    """One value for each chat, requested from Telegram and kept for a while. Without a response it is `unknown`."""

    def __init__(
        self, client: TelegramClient, method: str, read: Callable[[object], T], *, unknown: T, times: CacheTimes
    ) -> None:
        """`read` converts a response; it raises `ValidationError` if that is impossible."""
        self._client = client
        self._method = method
        self._read = read
        self._unknown = unknown
        self._times = times
        self._entries: OrderedDict[str, _CacheEntry[T]] = OrderedDict()
        self._requests = asyncio.Semaphore(_MAX_REQUESTS)

    async def of(self, chat: str) -> T:
        """Return the value of a chat, requested if it is not cached. Never fails."""
        now = asyncio.get_running_loop().time()
        known = self._entries.get(chat)
        if known is not None and now < known.until:
            return known.value
        try:
            async with asyncio.timeout(self._times.timeout), self._requests:
                response = await self._client.call(self._method, {"chat_id": int(chat)})
            entry = _CacheEntry(self._read(response), now + self._times.ttl, now + self._times.at_most)
        except (PlatformError, TimeoutError, msgspec.ValidationError) as cause:
            log.info("telegram.not_told", method=self._method, reason=str(cause))
            entry = self._after_failure(known, now)
        self._store(chat, entry)
        return entry.value

    def _after_failure(self, known: _CacheEntry[T] | None, now: float) -> _CacheEntry[T]:
        """Keep the former value, and delay the next request: not every message may cause one."""
        if known is None or now >= known.at_most:
            known = _CacheEntry(self._unknown, now, now)
        return msgspec.structs.replace(known, until=now + self._times.retry_after)

    def _store(self, chat: str, entry: _CacheEntry[T]) -> None:
        self._entries[chat] = entry
        self._entries.move_to_end(chat)
        while len(self._entries) > _MAX_CHATS:
            self._entries.popitem(last=False)
