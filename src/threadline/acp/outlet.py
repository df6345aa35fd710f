"""What an editor is told of one session, in order, also where a part of it has yet to be fetched or has to wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container

import msgspec

from threadline.rpc.connection import Start


class _Item(msgspec.Struct, gc=False):
    """Lines, or what fetches them, of a turn or of none; `key` names what else is stored and may be told from there."""

    turn_id: str | None
    lines: bytes = b""
    key: str = ""
    fetch: Callable[[], Awaitable[bytes]] | None = None


class Outlet:
    """The way out for one session. Nothing overtakes what was put in before it."""

    def __init__(self, send: Callable[[bytes], None], start: Start) -> None:
        self._send = send
        self._start = start
        self._queue: deque[_Item] = deque()
        # Whether nothing is told now but what passes by.
        self.is_held = False
        self._fetching: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, lines: bytes, turn_id: str | None = None, *, key: str = "") -> None:
        """Tells these lines, at once where nothing is before them."""
        if self.is_held or self._queue:
            self._push(_Item(turn_id, lines, key))
        else:
            self._send(lines)

    def put_fetched(self, fetch: Callable[[], Awaitable[bytes]], turn_id: str | None = None) -> None:
        """Tells what `fetch` gives, in this place. It never raises."""
        self._push(_Item(turn_id, fetch=fetch))
        self._go_on()

    def hold(self) -> None:
        """From now on nothing is told but what `pass_by` tells."""
        self.is_held = True

    def pass_by(self, lines: bytes) -> None:
        """Tells these lines, if there are any, while the rest is held."""
        if lines:
            self._send(lines)

    def release(self) -> None:
        """What was held is told."""
        self.is_held = False
        self._go_on()

    def forget(self, turn_id: str) -> None:
        """What waits to be told of that turn is told no more."""
        self._queue = deque(item for item in self._queue if item.turn_id != turn_id)
        self._go_on()

    def forget_all(self, keys: Container[str], *, but: str) -> None:
        """What waits to be told of any turn `but` that one is told no more, nor is what has one of these keys."""
        self._queue = deque(item for item in self._queue if item.turn_id in (None, but) and item.key not in keys)
        self._go_on()

    @property
    def is_empty(self) -> bool:
        """Whether all that was put in is told."""
        return not self._queue

    async def flushed(self) -> None:
        """Returns when all that was put in is told."""
        await self._empty.wait()

    def _push(self, item: _Item) -> None:
        self._queue.append(item)
        self._empty.clear()

    def _go_on(self) -> None:
        while self._queue and not self.is_held and self._queue[0].fetch is None:
            self._send(self._queue.popleft().lines)
        if not self._queue:
            self._empty.set()
        elif not self.is_held and self._fetching is None:
            self._fetching = self._start("acp.fetch", self._fetch())

    async def _fetch(self) -> None:
        """Fetches what stands first. It stays there meanwhile, so that nothing passes it."""
        try:
            first = self._queue[0] if self._queue else None
            if first is not None and first.fetch is not None:
                first.lines = await first.fetch()
                first.fetch = None
        finally:
            self._fetching = None
        self._go_on()
