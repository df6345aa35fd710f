"""The tabs that follow one conversation: all of them are told the same, and where much comes at once, in few pieces."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from threadline.web.reader import AT_ONCE, Reader


class Audience:
    """The readers of one conversation. What one of them is told, all are, in the same order.

    What comes a moment after the last piece waits for the moment to pass, and goes out with all that came meanwhile: handing
    a piece to a connection costs about the same however much is in it. What comes after a silence never waits.
    """

    def __init__(self, moment: Callable[[], float]) -> None:
        """`moment` tells how many seconds at least lie between two pieces, by now."""
        self._moment = moment
        self._readers: set[Reader] = set()
        self._frames: list[bytes] = []
        self._size = 0
        self._told_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Reader, told: bytes) -> None:
        """One reader more. `told` brings it to where the others are, so they are brought there first."""
        self.catch_up()
        reader.put(told)
        self._readers.add(reader)

    def discard(self, reader: Reader) -> None:
        """One reader less."""
        self._readers.discard(reader)

    def tell(self, told: bytes) -> None:
        """Tells them all something, at the latest when the moment since the last piece has passed."""
        if not told or not self._readers:
            return
        self._frames.append(told)
        self._size += len(told)
        loop = asyncio.get_running_loop()
        left = self._told_at + self._moment() - loop.time()
        if left <= 0 or self._size >= AT_ONCE:
            self.catch_up()
        elif self._timer is None:
            self._timer = loop.call_later(left, self.catch_up)

    def catch_up(self) -> None:
        """Hands on what waits: nobody is behind what was told by now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._frames:
            return
        piece = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._told_at = asyncio.get_running_loop().time()
        for reader in self._readers:
            reader.put(piece)
