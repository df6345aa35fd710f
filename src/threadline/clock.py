"""Time comes from here and nowhere else.

Inside the store an instant is an integer: microseconds since 1970 in UTC. At the edges it is an aware `datetime` in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol

from tzlocal import get_localzone_name

Instant = NewType("Instant", int)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Tells what time it is. `now()` is aware and in UTC; it may go back when the machine's clock is set."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def to_instant(moment: datetime) -> Instant:
    """The aware `moment` in whole microseconds; a naive one raises `ValueError`, because its zone would be a guess."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use an aware datetime")
    return Instant((moment - _EPOCH) // _MICROSECOND)


def from_instant(instant: int) -> datetime:
    """The aware UTC `datetime` of an instant."""
    return _EPOCH + instant * _MICROSECOND


def installation_zone() -> str:
    """The IANA name of this machine's time zone; UTC where the machine does not tell."""
    return get_localzone_name() or "UTC"
