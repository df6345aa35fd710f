"""One tab that listens: what waits for it is bounded, however slowly it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# What may wait for one reader. Who is further behind than this is told anew where things stand, in one piece.
MOST_BYTES = 262_144
MOST_FRAMES = 1_000
# What is handed on at once: a connection that takes no more holds no more than this.
AT_ONCE = 65_536


class Reader:
    """What waits for one tab. It is filled by whoever tells it things and emptied by its connection."""

    def __init__(self, anew: Callable[[], bytes]) -> None:
        """`anew` tells where things stand, for a reader that has lost its place."""
        self._anew = anew
        # A list: it holds next to nothing mostly, and an empty deque takes as much as a dozen frames.
        self._frames: list[bytes] = []
        self._size = 0
        self._is_behind = False
        self._is_closed = False
        # There is one only while somebody waits.
        self._stirred: asyncio.Future[None] | None = None

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
        self._stir()

    def close(self) -> None:
        """Nothing more is told; `next` ends."""
        self._is_closed = True
        self._stir()

    async def next(self) -> bytes | None:
        """What waits, or the next that comes; `None` at the end. One at a time may ask."""
        while not self._frames and not self._is_behind and not self._is_closed:
            self._stirred = asyncio.get_running_loop().create_future()
            await self._stirred
        if self._is_closed:
            return None
        if self._is_behind:
            # Behind until it has that: whatever `anew` makes others be told before is in it.
            told = self._anew()
            self._is_behind = False
            return told
        return self._taken()

    def _taken(self) -> bytes:
        frames = self._frames
        count, size = 1, len(frames[0])
        while count < len(frames) and size + len(frames[count]) <= AT_ONCE:
            size += len(frames[count])
            count += 1
        # One alone is not copied: all tabs of a conversation hold the same.
        taken = b"".join(frames[:count])
        del frames[:count]
        self._size -= size
        return taken

    def _stir(self) -> None:
        if self._stirred is not None and not self._stirred.done():
            self._stirred.set_result(None)
