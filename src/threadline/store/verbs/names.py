"""Verbs on named leases: what one process at a time may do."""

from __future__ import annotations

from threadline.store import leases
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.base import VerbsBase


class NameVerbs(VerbsBase):
    """A name is held by one owner at a time, for as long as they renew it."""

    def take_name(self, name: str, owner: str, *, lease: int) -> Plan[bool]:
        """Takes a name for so many microseconds, or renews it; False where somebody else holds it."""
        return (yield from write(leases.acquire, self._now(), name, owner, lease=lease))

    def release_name(self, name: str, owner: str) -> Plan[None]:
        """Gives a name back, if it is still this owner's."""
        yield from write(leases.release, name, owner)

    def held_names(self) -> Plan[list[leases.NamedLease]]:
        """The names that somebody holds now."""
        return (yield from read(leases.list_all, self._now()))
