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
ALERT_KIND = "alarm"
# Of an owner's direct chats so many are looked through, those used last.
_MAX_CHATS = 50


class OwnerAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Something that fails until its owner mends it."""

    name: str
    text: str
    since: datetime
    # False: there was nowhere to say it.
    is_sent: bool = True


class OwnerAlertState(msgspec.Struct, frozen=True):
    """What is looked at again and again of an open alarm; not its text."""

    name: str
    since: datetime
    is_sent: bool
    # When a gateway last said that its configuration has what this is about.
    touched_at: datetime


def raise_alert(
    tx: Tx, at: Instant, alarm: OwnerAlert, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()
) -> bool:
    """Opens an alarm and stores its notices; False where it was open before: then nothing is said again.

    A notice in the direct chat of an owner, one who was given the role here or of `owners`, is theirs: erasing them takes it away.
    """
    text, since = outbox.showable(alarm.text), to_instant(alarm.since)
    is_new = tx.run("add_alert", name=alarm.name, text=text, at=since, told=int(alarm.is_sent)) == 1
    if is_new:
        _enqueue_notices(tx, at, notices, owners)
    return is_new


def notify(tx: Tx, at: Instant, name: str, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()) -> bool:
    """Stores the notices of an open alarm that nobody was told of; False where somebody was, or it is over."""
    is_untold = tx.run("mark_alert_sent", name=name) == 1
    if is_untold:
        _enqueue_notices(tx, at, notices, owners)
    return is_untold


def mark_unsent(tx: Tx) -> None:
    """Nobody may have read what was told of agents and platforms. Of chats nothing is told again: there may be many."""
    tx.run("mark_alerts_unsent")


def clear(tx: Tx, name: str) -> bool:
    """Closes an alarm, so that the next failure is told anew; False where it was not open."""
    return tx.run("drop_alert", name=name) == 1


def list_open(tx: Tx) -> list[OwnerAlert]:
    """The alarms that are open, oldest first."""
    return [
        OwnerAlert(name=name, text=text, since=from_instant(since), is_sent=bool(told))
        for name, text, since, told in tx.rows("list_open_alerts")
    ]


def list_states(tx: Tx) -> list[OwnerAlertState]:
    """The alarms that are open, oldest first, without their texts."""
    return [
        OwnerAlertState(name, from_instant(since), bool(told), from_instant(known_at))
        for name, since, told, known_at in tx.rows("list_alert_states")
    ]


def touch(tx: Tx, at: Instant, names: Sequence[str]) -> None:
    """What these alarms are about is in the configuration of a gateway that runs."""
    for name in names:
        tx.run("touch_alert", name=name, at=at)


def clear_untouched(tx: Tx, name: str, *, before: Instant) -> bool:
    """Closes an alarm of which no gateway has said since then that it knows it; False where one has, or it is over."""
    return tx.run("drop_untouched_alert", name=name, before=before) == 1


def find_owner_chat(
    tx: Tx, owners: Sequence[str], accounts: Sequence[tuple[str, str]], gone: Collection[str] = ()
) -> Target | None:
    """The direct chat on one of these accounts that an owner used last: one who was given the role here, or of `owners`.

    Not one whose lane is in `gone`.
    """
    newest: tuple[int, Target] | None = None
    for owner in _all_owners(tx, owners):
        row = tx.find("newest_direct_chats", owner=owner, limit=1)
        if row is None or (newest is not None and row[1] <= newest[0]):
            continue
        target = target_of(source_of(row[0]))
        if (target.platform, target.account) in accounts and target.ordering_key not in gone:
            newest = row[1], target
    return None if newest is None else newest[1]


def notice_id_prefix(platform: str | None) -> str:
    """How the id of a notice begins: of one about a chat on a platform, or about anything else."""
    return "alarm." if platform is None else f"alarm.chat.{platform}."


def forget_notified_chat(tx: Tx, chat: Target) -> None:
    """Nothing is left of what was told in a direct chat: its person is erased."""
    tx.run("drop_alert_notices", lane=chat.ordering_key)


def _enqueue_notices(tx: Tx, at: Instant, notices: Sequence[outbox.NewDelivery], owners: Sequence[str]) -> None:
    people = _owners_by_ordering_key(tx, owners) if notices else {}
    for notice in notices:
        outbox.enqueue(tx, at, msgspec.structs.replace(notice, person=people.get(notice.target.ordering_key)))


def _owners_by_ordering_key(tx: Tx, owners: Sequence[str]) -> dict[str, str]:
    """Whose direct chats those are in which the owner may be told, by lane."""
    found: dict[str, str] = {}
    for owner in _all_owners(tx, owners):
        for origin, _ in tx.rows("newest_direct_chats", owner=owner, limit=_MAX_CHATS):
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


def _all_owners(tx: Tx, owners: Sequence[str]) -> list[str]:
    return sorted({*owners, *(person for (person,) in tx.rows("owners"))})


class OwnerAlerts(Group[Mode]):
    """What only an owner can fix; each fault is reported once, and again when it comes back."""

    raise_alert = writes_now(raise_alert)
    notify = writes_now(notify)
    mark_unsent = writes(mark_unsent)
    clear = writes(clear)
    touch = writes_now(touch)
    list_open = reads(list_open)
    list_states = reads(list_states)
    find_owner_chat = reads(find_owner_chat)

    @verb
    def clear_untouched(_: Store[Any], name: str, before: datetime) -> Step[bool]:
        """Closes an alarm that no gateway has known since then; False where one has."""
        return write(clear_untouched, name, before=to_instant(before))
