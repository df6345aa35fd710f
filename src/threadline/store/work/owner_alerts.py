"""Alerts about problems that only the owner can fix."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant, to_instant
from threadline.model.delivery import Target, target_of
from threadline.store.conversations import records
from threadline.store.engine.database import Step, Tx, write
from threadline.store.rows import source_of
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes, writes_now
from threadline.store.work import outbox

# The kind of a delivery that tells of an alarm.
ALARM = "alarm"
# Of an owner's direct chats so many are looked through, those used last.
_CHATS_AT_MOST = 50


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
    # When a gateway last said that its configuration has what this is about.
    known_at: datetime


def sound(tx: Tx, at: Instant, alarm: Alarm, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()) -> bool:
    """Opens an alarm and stores its notices; False where it was open before: then nothing is said again.

    A notice in the direct chat of an owner, one who was given the role here or of `owners`, is theirs: erasing them takes it away.
    """
    text, since = outbox.displayable(alarm.text), to_instant(alarm.since)
    is_new = tx.run("add_alarm", name=alarm.name, text=text, at=since, told=int(alarm.is_told)) == 1
    if is_new:
        _say(tx, at, notices, owners)
    return is_new


def tell(tx: Tx, at: Instant, name: str, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()) -> bool:
    """Stores the notices of an open alarm that nobody was told of; False where somebody was, or it is over."""
    is_untold = tx.run("mark_told", name=name) == 1
    if is_untold:
        _say(tx, at, notices, owners)
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
    return [
        AlarmState(name, from_instant(since), bool(told), from_instant(known_at))
        for name, since, told, known_at in tx.rows("alarm_states")
    ]


def know(tx: Tx, at: Instant, names: Sequence[str]) -> None:
    """What these alarms are about is in the configuration of a gateway that runs."""
    for name in names:
        tx.run("know_alarm", name=name, at=at)


def forget_unknown(tx: Tx, name: str, *, before: Instant) -> bool:
    """Closes an alarm of which no gateway has said since then that it knows it; False where one has, or it is over."""
    return tx.run("drop_unknown_alarm", name=name, before=before) == 1


def owners_chat(
    tx: Tx, owners: Sequence[str], accounts: Sequence[tuple[str, str]], gone: Collection[str] = ()
) -> Target | None:
    """The direct chat on one of these accounts that an owner used last: one who was given the role here, or of `owners`.

    Not one whose lane is in `gone`.
    """
    newest: tuple[int, Target] | None = None
    for owner in _known(tx, owners):
        row = tx.find("newest_dms", owner=owner, limit=1)
        if row is None or (newest is not None and row[1] <= newest[0]):
            continue
        target = target_of(source_of(row[0]))
        if (target.platform, target.account) in accounts and target.ordering_key not in gone:
            newest = row[1], target
    return None if newest is None else newest[1]


def notice_name(platform: str | None) -> str:
    """How the id of a notice begins: of one about a chat on a platform, or about anything else."""
    return "alarm." if platform is None else f"alarm.chat.{platform}."


def forget_told(tx: Tx, chat: Target) -> None:
    """Nothing is left of what was told in a direct chat: its person is erased."""
    tx.run("drop_alarms_told", lane=chat.ordering_key)


def _say(tx: Tx, at: Instant, notices: Sequence[outbox.NewDelivery], owners: Sequence[str]) -> None:
    people = _people_at(tx, owners) if notices else {}
    for notice in notices:
        outbox.enqueue(tx, at, msgspec.structs.replace(notice, person=people.get(notice.target.ordering_key)))


def _people_at(tx: Tx, owners: Sequence[str]) -> dict[str, str]:
    """Whose direct chats those are in which the owner may be told, by lane."""
    found: dict[str, str] = {}
    for owner in _known(tx, owners):
        for origin, _ in tx.rows("newest_dms", owner=owner, limit=_CHATS_AT_MOST):
            found[target_of(source_of(origin)).ordering_key] = owner
    for home in records.list_home_channels(tx):
        if home.person is not None:
            channel = home.channel
            place = Target(
                platform=channel.platform,
                account=channel.account,
                chat_id=channel.chat_id,
                thread_id=channel.thread_id,
            )
            found[place.ordering_key] = home.person
    return found


def _known(tx: Tx, owners: Sequence[str]) -> list[str]:
    return sorted({*owners, *(person for (person,) in tx.rows("owners"))})


class OwnerAlerts(Group[Mode]):
    """What only an owner can fix; each fault is reported once, and again when it comes back."""

    raise_alert = writes_now(sound)
    notify = writes_now(tell)
    mark_unsent = writes(untell)
    clear = writes(clear)
    touch = writes_now(know)
    list_open = reads(open_alarms)
    list_states = reads(states)
    find_owner_chat = reads(owners_chat)

    @verb
    def clear_untouched(_: Store[Any], name: str, before: datetime) -> Step[bool]:
        """Closes an alarm that no gateway has known since then; False where one has."""
        return write(forget_unknown, name, before=to_instant(before))
