"""What Telegram tells of chats when it is asked, remembered for a while."""

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

_CHATS_KEPT = 1_000
# So many chats are asked about at once: a bot in many groups would else be slowed down when it comes back.
_ASKED_AT_ONCE = 8


class CacheTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: how long an answer is waited for, how long it is right, and when it is asked for again after there was none.

    Without an answer what was known before stands, until it is as old as `at_most`.
    """

    timeout: float
    ttl: float
    retry_after: float
    at_most: float


class _CacheEntry(msgspec.Struct, Generic[T], frozen=True):
    value: T
    # When it is asked for again, and when it is not to be relied on any more even if nobody answers.
    until: float
    at_most: float


class TtlCache(Generic[T]):
    """One thing that Telegram tells of chats. What it does not tell is `unknown`; asking never fails."""

    def __init__(
        self, client: TelegramClient, method: str, read: Callable[[object], T], *, unknown: T, times: CacheTimes
    ) -> None:
        """`read` takes an answer apart; it raises `ValidationError` where it can't."""
        self._client = client
        self._method = method
        self._read = read
        self._unknown = unknown
        self._times = times
        self._known: OrderedDict[str, _CacheEntry[T]] = OrderedDict()
        self._asking = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def of(self, chat: str) -> T:
        """What is known of a chat, which Telegram is asked for if need be."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(chat)
        if known is not None and now < known.until:
            return known.value
        try:
            async with asyncio.timeout(self._times.timeout), self._asking:
                answer = await self._client.call(self._method, {"chat_id": int(chat)})
            found = _CacheEntry(self._read(answer), now + self._times.ttl, now + self._times.at_most)
        except (PlatformError, TimeoutError, msgspec.ValidationError) as cause:
            log.info("telegram.not_told", method=self._method, reason=str(cause))
            found = self._without_answer(known, now)
        self._keep(chat, found)
        return found.value

    def _without_answer(self, known: _CacheEntry[T] | None, now: float) -> _CacheEntry[T]:
        """Once did not work: that is no reason to forget, nor to ask again with every message."""
        if known is None or now >= known.at_most:
            known = _CacheEntry(self._unknown, now, now)
        return msgspec.structs.replace(known, until=now + self._times.retry_after)

    def _keep(self, chat: str, found: _CacheEntry[T]) -> None:
        self._known[chat] = found
        self._known.move_to_end(chat)
        while len(self._known) > _CHATS_KEPT:
            self._known.popitem(last=False)
