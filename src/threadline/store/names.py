"""Operations on named leases: what one process at a time may do, over all that share the database."""

from __future__ import annotations

from datetime import datetime

import msgspec

from threadline.clock import Instant, from_instant
from threadline.store.engine.database import Tx


class HeldName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that somebody holds."""

    name: str
    owner: str
    until: datetime


def take(tx: Tx, name: str, owner: str, *, lease: int, at: Instant) -> bool:
    """Takes a name for so many microseconds from now, or renews it; False where somebody else holds it."""
    return tx.run("take_name", name=name, owner=owner, lease=lease, at=at) == 1


def release(tx: Tx, name: str, owner: str) -> None:
    """Gives a name back, so that another gets it at once. Nothing happens where it is another's by now."""
    tx.run("release_name", name=name, owner=owner)


def held(tx: Tx, *, at: Instant) -> list[HeldName]:
    """The names that somebody holds now, sorted."""
    return [
        HeldName(name=name, owner=owner, until=from_instant(until))
        for name, owner, until in tx.rows("held_names", at=at)
    ]


def void(tx: Tx, owners: str) -> int:
    """What holders had that are dead for certain is free now; how many names."""
    return tx.run("void_names", owners=owners)
