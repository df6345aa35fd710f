"""One tab that listens: what waits for it is bounded, however slowly it reads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

# What may wait for one reader. Who is further behind than this is told anew where things stand, in one piece.
MOST_BYTES = 262_144
MOST_FRAMES = 1_000
# What is handed on at once: a connection that takes no more holds no more than this.
_AT_ONCE = 65_536


class Reader:
    """What waits for one tab. It is filled by whoever tells it things and emptied by its connection."""

    def __init__(self, anew: Callable[[], bytes]) -> None:
        """`anew` tells where things stand, for a reader that has lost its place."""
        self._anew = anew
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._is_behind = False
        self._is_closed = False
        self._stirred = asyncio.Event()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for it."""
        return not self._frames and not self._is_behind

    def put(self, frame: bytes) -> None:
        """Tells it something. Where that is too much, all that waits is dropped, and it is told anew where things stand."""
        if self._is_behind or self._is_closed:
            return
        if self._frames and (self._size + len(frame) > MOST_BYTES or len(self._frames) >= MOST_FRAMES):
            self._frames.clear()
            self._size = 0
            self._is_behind = True
        else:
            self._frames.append(frame)
            self._size += len(frame)
        self._stirred.set()

    def close(self) -> None:
        """Nothing more is told; `next` ends."""
        self._is_closed = True
        self._stirred.set()

    async def next(self) -> bytes | None:
        """What waits, or the next that comes; `None` at the end."""
        while not self._frames and not self._is_behind and not self._is_closed:
            self._stirred.clear()
            await self._stirred.wait()
        if self._is_closed:
            return None
        if self._is_behind:
            self._is_behind = False
            return self._anew()
        return self._taken()

    def _taken(self) -> bytes:
        frames = self._frames
        if len(frames) == 1:
            self._size = 0
            return frames.popleft()
        taken: list[bytes] = []
        size = 0
        while frames and (not taken or size + len(frames[0]) <= _AT_ONCE):
            taken.append(frames.popleft())
            size += len(taken[-1])
        self._size -= size
        return b"".join(taken)
