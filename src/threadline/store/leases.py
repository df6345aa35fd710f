"""Leases: the proof that a worker may write, and the only place that renews, checks and expires it.

Every leased table has four columns: `owner` (NULL: free), `fence` (grows by one with each claim or takeover, and never shrinks),
`lease_until`, and where work is tried again `attempts`, which is for policy alone. A lease names its row and its fence: once the
row has another fence, whatever the former holder still writes finds no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import LeaseLost
from threadline.model.turn import StopReason
from threadline.store.engine.database import Tx
from threadline.store.verbs import Group, Mode, reads_now, writes, writes_now

LeaseTable: TypeAlias = Literal["turns", "deliveries", "flushes", "named_leases"]
_TABLES: tuple[LeaseTable, ...] = get_args(LeaseTable)


class Lease(msgspec.Struct, frozen=True):
    """A row that its holder may write for, as long as the row has this fence."""

    table: LeaseTable
    key: int | str
    fence: int

    @property
    def proof(self) -> dict[str, Any]:
        """The values by which a query finds the row only as long as this lease holds."""
        return {"key": self.key, "fence": self.fence}


class TurnLease(Lease, frozen=True):
    """The lease of a turn."""

    turn_id: str

    @property
    def turn_pk(self) -> int:
        """The number of the turn's row."""
        return int(self.key)


class RenewedLease(msgspec.Struct, frozen=True):
    """A lease that was renewed; of a turn also whether somebody wants it to end."""

    lease: Lease
    stop: StopReason | None = None


class NamedLease(msgspec.Struct, frozen=True, kw_only=True):
    """A name that somebody holds."""

    name: str
    owner: str
    until: datetime


def renew(tx: Tx, at: Instant, leases: Sequence[Lease], *, duration: int) -> list[RenewedLease]:
    """Renew these leases for so many microseconds from now; return those that still hold."""
    held = [lease for lease in leases if tx.run(f"renew_{lease.table}_lease", duration=duration, at=at, **lease.proof)]
    return [RenewedLease(lease, _stop_of(tx, lease)) for lease in held]


def require(tx: Tx, lease: TurnLease) -> None:
    """Raise `LeaseLost` unless the turn's lease holds. Its row stays as it is until the commit."""
    require_changed(tx.run("hold_turns_lease", **lease.proof))


def require_changed(changed: int) -> None:
    """Raise `LeaseLost` where a query that names a fence has found no row."""
    if not changed:
        raise LeaseLost


def expire_owned_by(tx: Tx, owners: str) -> int:
    """End the leases of owners that are dead for certain, by a pattern of their names; return how many."""
    return sum(tx.run(f"expire_{table}_leases", owners=owners) for table in _TABLES)


def acquire(tx: Tx, at: Instant, name: str, owner: str, *, duration: int) -> Lease | None:
    """Take a name for so many microseconds, or renew it; return its lease, or None where somebody else holds it."""
    row = tx.find("acquire_name", name=name, owner=owner, duration=duration, at=at)
    return None if row is None else Lease("named_leases", name, row[0])


def release(tx: Tx, lease: Lease) -> None:
    """Give a name back, so that another gets it at once. Nothing happens where the lease is lost."""
    tx.run("release_name", **lease.proof)


def list_all(tx: Tx, at: Instant) -> list[NamedLease]:
    """Return the names that somebody holds now, sorted."""
    return [
        NamedLease(name=name, owner=owner, until=from_instant(until))
        for name, owner, until in tx.rows("held_names", at=at)
    ]


def _stop_of(tx: Tx, lease: Lease) -> StopReason | None:
    row = tx.find("stop_of_turn", turn_pk=lease.key) if lease.table == "turns" else None
    return None if row is None else row[0]


class Leases(Group[Mode]):
    """Leases of all tables, and those that have a name."""

    renew = writes_now(renew)
    expire_owned_by = writes(expire_owned_by)
    acquire = writes_now(acquire)
    release = writes(release)
    list_all = reads_now(list_all)
