"""Verbs on alarms: what only the owner can mend."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from threadline.clock import to_instant
from threadline.model.delivery import Target
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.base import VerbsBase
from threadline.store.work import owner_alerts
from threadline.store.work.outbox import NewDelivery


class AlarmVerbs(VerbsBase):
    """The owner is told once of what fails, and once more when it fails anew."""

    def sound_alarm(
        self, alarm: owner_alerts.Alarm, notices: Sequence[NewDelivery], owners: Sequence[str] = ()
    ) -> Plan[bool]:
        """Opens an alarm and stores its notices, together; False where it was open before: then nothing is said.

        `owners`: who is an owner by the configuration. A notice in the direct chat of one is theirs.
        """
        return (yield from write(owner_alerts.sound, self._now(), alarm, notices, owners))

    def tell_alarm(self, name: str, notices: Sequence[NewDelivery], owners: Sequence[str] = ()) -> Plan[bool]:
        """Stores the notices of an alarm that nobody was told of yet; False where somebody was, or it is over."""
        return (yield from write(owner_alerts.tell, self._now(), name, notices, owners))

    def untell_alarms(self) -> Plan[None]:
        """What was told of agents and platforms counts as not told: nobody may have read it."""
        yield from write(owner_alerts.untell)

    def clear_alarm(self, name: str) -> Plan[bool]:
        """Closes an alarm; False where it was not open."""
        return (yield from write(owner_alerts.clear, name))

    def know_alarms(self, names: Sequence[str]) -> Plan[None]:
        """What these alarms are about is in the configuration of a gateway that runs."""
        yield from write(owner_alerts.know, self._now(), names)

    def forget_unknown_alarm(self, name: str, before: datetime) -> Plan[bool]:
        """Closes an alarm that no gateway has known since then; False where one has."""
        return (yield from write(owner_alerts.forget_unknown, name, before=to_instant(before)))

    def open_alarms(self) -> Plan[list[owner_alerts.Alarm]]:
        """The alarms that are open, oldest first."""
        return (yield from read(owner_alerts.open_alarms))

    def alarm_states(self) -> Plan[list[owner_alerts.AlarmState]]:
        """The alarms that are open, oldest first, without their texts."""
        return (yield from read(owner_alerts.states))

    def owners_chat(
        self, owners: Sequence[str], accounts: Sequence[tuple[str, str]], gone: Collection[str] = ()
    ) -> Plan[Target | None]:
        """The direct chat on one of these accounts that an owner used last, and that is not `gone`."""
        return (yield from read(owner_alerts.owners_chat, owners, accounts, gone))
