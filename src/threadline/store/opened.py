"""Whether an open engine may still be used, and by whom."""

from __future__ import annotations

import os

from threadline.errors import StoreClosed, StoreForked


class Opened:
    """An engine's state from opening to closing. It belongs to the process that opened it: a fork's child may not use it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.closed = False

    def require(self) -> None:
        """Raises `StoreForked` in another process and `StoreClosed` after the end."""
        if os.getpid() != self._pid:
            raise StoreForked
        if self.closed:
            raise StoreClosed

    def end(self) -> bool:
        """Closes it. True where what it holds is to be released now: once, and never in a child, whose parent still uses it."""
        first, self.closed = not self.closed, True
        return first and os.getpid() == self._pid
