"""A clock that stands still until it is told to move."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class FakeClock:
    """A `Clock` for tests. Thread-safe."""

    def __init__(self, start: datetime = START) -> None:
        """`start` is aware; a naive one raises `ValueError`, because its zone would be a guess."""
        self._lock = threading.Lock()
        self._now = _utc(start)

    def now(self) -> datetime:
        """The time it was last told, aware and in UTC."""
        with self._lock:
            return self._now

    def advance(self, step: timedelta) -> datetime:
        """Moves by `step` (back, where it is negative) and tells the new time."""
        with self._lock:
            self._now += step
            return self._now

    def set(self, moment: datetime) -> None:
        """Jumps to `moment`; back is allowed, as it is for the clocks of real machines."""
        with self._lock:
            self._now = _utc(moment)


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use an aware datetime")
    return moment.astimezone(UTC)
