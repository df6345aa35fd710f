"""Making identifiers. Operations never do: they are handed ids, so that they can be run twice."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from functools import lru_cache

_SESSION_ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8,32}")


def new_session_id(now: datetime) -> str:
    """`YYYYMMDD_HHMMSS_` in UTC and 48 random bits; the store's unique index has the last word."""
    day, time = _formatted(int(now.timestamp()))
    return f"{day}_{time}_{os.urandom(6).hex()}"


def is_session_id(text: str) -> bool:
    """Whether `text` has the form of a session id (not whether such a session exists)."""
    return _SESSION_ID.fullmatch(text) is not None


def new_turn_id(now: datetime) -> str:
    """The name of a turn, in the order of their beginnings; the store's unique index has the last word."""
    return new_turn_ids(now, 1)[0]


def new_turn_ids(now: datetime, count: int) -> tuple[str, ...]:
    """So many names of turns. Asking the system for chance once is cheaper than for each."""
    chance = os.urandom(6 * count).hex()
    began = "t" + "".join(_formatted(int(now.timestamp())))
    return tuple(began + chance[place : place + 12] for place in range(0, 12 * count, 12))


@lru_cache(maxsize=16)
def _formatted(second: int) -> tuple[str, str]:
    """The day and the time of a second in UTC. To write a date takes longer than all else that an id is made of."""
    day, time = f"{datetime.fromtimestamp(second, UTC):%Y%m%d %H%M%S}".split()
    return day, time


def new_lease_owner(kind: str) -> str:
    """The name under which a process holds leases: what it is, and 64 random bits."""
    return f"{kind}:{secrets.token_hex(8)}"


def new_approval_code() -> str:
    """What tells one question from the next: letters that nobody takes for one another. It is no secret."""
    return "".join(secrets.choice("ABCDEFGHJKMNPRSTVWXYZ") for _ in range(4))
