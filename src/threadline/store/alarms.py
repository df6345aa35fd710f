"""Operations on alarms: what only the owner can mend, and where they hear of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from threadline.clock import Instant, from_instant, to_instant
from threadline.model.delivery import Target, target_of
from threadline.store import outbox
from threadline.store.database import Tx
from threadline.store.rows import source_of


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Something that fails until its owner mends it."""

    name: str
    text: str
    since: datetime
    # False: there was nowhere to say it.
    is_told: bool = True


class AlarmState(msgspec.Struct, frozen=True):
    """What is looked at again and again of an open alarm; not its text."""

    name: str
    since: datetime
    is_told: bool


def sound(tx: Tx, alarm: Alarm, notices: Sequence[outbox.NewDelivery], *, at: Instant) -> bool:
    """Opens an alarm and stores its notices; False where it was open before: then nothing is said again."""
    text, since = outbox.showable(alarm.text), to_instant(alarm.since)
    is_new = tx.run("add_alarm", name=alarm.name, text=text, at=since, told=int(alarm.is_told)) == 1
    if is_new:
        _say(tx, notices, at=at)
    return is_new


def tell(tx: Tx, name: str, notices: Sequence[outbox.NewDelivery], *, at: Instant) -> bool:
    """Stores the notices of an open alarm that nobody was told of; False where somebody was, or it is over."""
    is_untold = tx.run("mark_told", name=name) == 1
    if is_untold:
        _say(tx, notices, at=at)
    return is_untold


def untell(tx: Tx) -> None:
    """Nobody may have read what was told of agents and platforms. Of chats nothing is told again: there may be many."""
    tx.run("mark_untold")


def clear(tx: Tx, name: str) -> bool:
    """Closes an alarm, so that the next failure is told anew; False where it was not open."""
    return tx.run("drop_alarm", name=name) == 1


def open_alarms(tx: Tx) -> list[Alarm]:
    """The alarms that are open, oldest first."""
    return [
        Alarm(name=name, text=text, since=from_instant(since), is_told=bool(told))
        for name, text, since, told in tx.rows("open_alarms")
    ]


def states(tx: Tx) -> list[AlarmState]:
    """The alarms that are open, oldest first, without their texts."""
    return [AlarmState(name, from_instant(since), bool(told)) for name, since, told in tx.rows("alarm_states")]


def owners_chat(
    tx: Tx, owners: Sequence[str], accounts: Sequence[tuple[str, str]], gone: Collection[str] = ()
) -> Target | None:
    """The direct chat on one of these accounts that an owner used last: one who was given the role here, or of `owners`.

    Not one whose lane is in `gone`.
    """
    known = {*owners, *(person for (person,) in tx.rows("owners"))}
    newest: tuple[int, Target] | None = None
    for owner in sorted(known):
        row = tx.find("newest_dm", owner=owner)
        if row is None or (newest is not None and row[1] <= newest[0]):
            continue
        target = target_of(source_of(row[0]))
        if (target.platform, target.account) in accounts and target.lane not in gone:
            newest = row[1], target
    return None if newest is None else newest[1]


def _say(tx: Tx, notices: Sequence[outbox.NewDelivery], *, at: Instant) -> None:
    for notice in notices:
        outbox.enqueue(tx, notice, at=at)
