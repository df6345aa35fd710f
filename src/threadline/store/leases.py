"""Leases: who may work on a row, until when, and the fence that proves it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import LeaseLost
from threadline.model.turn import StopReason
from threadline.store.engine.database import Perform, Step, Tx, task, write
from threadline.store.verbs import Group, Mode, Store, reads_now, verb, writes, writes_now
from threadline.store.work import outbox


class Held(msgspec.Struct, frozen=True):
    """A turn that its holder may write for, as long as the fence is the turn's."""

    turn_pk: int
    turn_id: str
    fence: int


class StillHeld(msgspec.Struct, frozen=True):
    """A turn whose lease was renewed, and whether somebody wants it to end."""

    held: Held
    stop: StopReason | None


def renew_turns(tx: Tx, at: Instant, held: Sequence[Held], *, lease: int) -> list[StillHeld]:
    """Renews what is still held of these, and tells what that is."""
    still = [own for own in held if tx.run("renew_turn", turn_pk=own.turn_pk, fence=own.fence, lease=lease, at=at)]
    return [StillHeld(own, _stop_of(tx, own.turn_pk)) for own in still]


def require(tx: Tx, held: Held) -> None:
    """`LeaseLost` where the turn is another's now, or has ended. Until the commit it stays as it is."""
    require_changed(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0))


def expire_owned_by(tx: Tx, owners: str) -> int:
    """Leases of holders that are dead for certain end now; how many."""
    return tx.run("void_turns", owners=owners) + tx.run("void_deliveries", owners=owners) + _expire_names(tx, owners)


def _stop_of(tx: Tx, turn_pk: int) -> StopReason | None:
    row = tx.find("stop_of_turn", turn_pk=turn_pk)
    return None if row is None else row[0]


def require_changed(changed: int) -> None:
    if not changed:
        raise LeaseLost


class NamedLease(msgspec.Struct, frozen=True, kw_only=True):
    """A name that somebody holds."""

    name: str
    owner: str
    until: datetime


def acquire(tx: Tx, at: Instant, name: str, owner: str, *, lease: int) -> bool:
    """Takes a name for so many microseconds from now, or renews it; False where somebody else holds it."""
    return tx.run("take_name", name=name, owner=owner, lease=lease, at=at) == 1


def release(tx: Tx, name: str, owner: str) -> None:
    """Gives a name back, so that another gets it at once. Nothing happens where it is another's by now."""
    tx.run("release_name", name=name, owner=owner)


def list_all(tx: Tx, at: Instant) -> list[NamedLease]:
    """The names that somebody holds now, sorted."""
    return [
        NamedLease(name=name, owner=owner, until=from_instant(until))
        for name, owner, until in tx.rows("held_names", at=at)
    ]


def _expire_names(tx: Tx, owners: str) -> int:
    """What holders had that are dead for certain is free now; how many names."""
    return tx.run("void_names", owners=owners)


class Leases(Group[Mode]):
    """Leases: renewed while their holder works, ended when it is dead for certain; and those that have a name."""

    expire_owned_by = writes(expire_owned_by)
    acquire = writes_now(acquire)
    release = writes(release)
    list_all = reads_now(list_all)

    @verb
    def renew(
        store: Store[Any], owner: str, held: Sequence[Held], flying: Sequence[outbox.Delivery], *, lease: int
    ) -> Step[list[StillHeld]]:
        """Renew the leases of what an owner is at, and return the turns that it still holds. What it has let go of ends."""
        return task(_renew, store.now(), owner, held, flying, lease)


def _renew(
    perform: Perform, at: Instant, owner: str, held: Sequence[Held], flying: Sequence[outbox.Delivery], lease: int
) -> list[StillHeld]:
    if flying:
        perform(write(outbox.renew, at, flying, owner=owner, lease=lease))
    return perform(write(renew_turns, at, held, lease=lease)) if held else []
