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

# The kind of a delivery that notifies an owner of an alert.
ALERT_KIND = "alarm"
# How many of an owner's direct chats are considered, most recently used first.
_MAX_CHATS = 50


class OwnerAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that only the owner can fix."""

    name: str
    text: str
    since: datetime
    # False: no chat of an owner could be reached. The JSON output of `threadline status` keeps its name for it.
    is_sent: bool = msgspec.field(default=True, name="is_told")


class OwnerAlertState(msgspec.Struct, frozen=True):
    """An open alert without its text, for periodic checks."""

    name: str
    since: datetime
    is_sent: bool
    # When a gateway last reported that its configuration contains the subject of the alert.
    touched_at: datetime


def raise_alert(
    tx: Tx, at: Instant, alert: OwnerAlert, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()
) -> bool:
    """Open an alert and enqueue its notices; return False, and enqueue nothing, if it was open before.

    Owners are the persons with that role here, and `owners`. A notice in an owner's direct chat belongs to that owner: erasing
    the owner deletes it.
    """
    text, since = outbox.displayable(alert.text), to_instant(alert.since)
    is_new = tx.run("add_alert", name=alert.name, text=text, at=since, is_sent=int(alert.is_sent)) == 1
    if is_new:
        _enqueue_notices(tx, at, notices, owners)
    return is_new


def notify(tx: Tx, at: Instant, name: str, notices: Sequence[outbox.NewDelivery], owners: Sequence[str] = ()) -> bool:
    """Enqueue the notices of an open alert that was not sent yet; return False if it was sent or is closed."""
    is_unsent = tx.run("mark_alert_sent", name=name) == 1
    if is_unsent:
        _enqueue_notices(tx, at, notices, owners)
    return is_unsent


def mark_unsent(tx: Tx) -> None:
    """Mark alerts about agents and platforms as not sent: perhaps no owner could read them.

    Alerts about chats stay marked as sent, because there may be many.
    """
    tx.run("mark_alerts_unsent")


def clear(tx: Tx, name: str) -> bool:
    """Close an alert, so that the next failure is reported again; return False if it was not open."""
    return tx.run("drop_alert", name=name) == 1


def list_open(tx: Tx) -> list[OwnerAlert]:
    """Return the open alerts, oldest first."""
    return [
        OwnerAlert(name=name, text=text, since=from_instant(since), is_sent=bool(is_sent))
        for name, text, since, is_sent in tx.rows("list_open_alerts")
    ]


def list_states(tx: Tx) -> list[OwnerAlertState]:
    """Return the open alerts without their texts, oldest first."""
    return [
        OwnerAlertState(name, from_instant(since), bool(is_sent), from_instant(touched_at))
        for name, since, is_sent, touched_at in tx.rows("list_alert_states")
    ]


def touch(tx: Tx, at: Instant, names: Sequence[str]) -> None:
    """Record that the configuration of a running gateway contains the subjects of these alerts."""
    for name in names:
        tx.run("touch_alert", name=name, at=at)


def clear_untouched(tx: Tx, name: str, *, before: Instant) -> bool:
    """Close an alert that no gateway has touched since `before`; return False if one has, or the alert is closed."""
    return tx.run("drop_untouched_alert", name=name, before=before) == 1


def find_owner_chat(
    tx: Tx, owners: Sequence[str], accounts: Sequence[tuple[str, str]], unreachable_keys: Collection[str] = ()
) -> Target | None:
    """Return the direct chat on one of these accounts that an owner used last, or `None`.

    Owners are the persons with that role here, and `owners`. Chats whose ordering key is in `unreachable_keys` are skipped.
    """
    newest: tuple[int, Target] | None = None
    for owner in _all_owners(tx, owners):
        row = tx.find("newest_direct_chats", owner=owner, limit=1)
        if row is None or (newest is not None and row[1] <= newest[0]):
            continue
        target = target_of(source_of(row[0]))
        if (target.platform, target.account) in accounts and target.ordering_key not in unreachable_keys:
            newest = row[1], target
    return None if newest is None else newest[1]


def notice_id_prefix(platform: str | None) -> str:
    """Return the prefix of delivery ids for alerts about chats of a platform; `None`: about anything else."""
    return "alarm." if platform is None else f"alarm.chat.{platform}."


def forget_notified_chat(tx: Tx, chat: Target) -> None:
    """Delete the notices that were sent to a direct chat: its person is erased."""
    tx.run("drop_alert_notices", lane=chat.ordering_key)


def _enqueue_notices(tx: Tx, at: Instant, notices: Sequence[outbox.NewDelivery], owners: Sequence[str]) -> None:
    owner_of = _owners_by_ordering_key(tx, owners) if notices else {}
    for notice in notices:
        outbox.enqueue(tx, at, msgspec.structs.replace(notice, person=owner_of.get(notice.target.ordering_key)))


def _owners_by_ordering_key(tx: Tx, owners: Sequence[str]) -> dict[str, str]:
    """Return the person of each chat in which an owner may be notified."""
    owner_of: dict[str, str] = {}
    for owner in _all_owners(tx, owners):
        for origin, _ in tx.rows("newest_direct_chats", owner=owner, limit=_MAX_CHATS):
            owner_of[target_of(source_of(origin)).ordering_key] = owner
    for home in records.list_home_channels(tx):
        if home.person is not None:
            channel = home.channel
            target = Target(
                platform=channel.platform,
                account=channel.account,
                chat_id=channel.chat_id,
                thread_id=channel.thread_id,
            )
            owner_of[target.ordering_key] = home.person
    return owner_of


def _all_owners(tx: Tx, owners: Sequence[str]) -> list[str]:
    return sorted({*owners, *(person for (person,) in tx.rows("owners"))})


class OwnerAlerts(Group[Mode]):
    """Alerts about faults that only an owner can fix. Each fault is reported once, and again after it was cleared."""

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
        """Close an alert that no gateway has touched since `before`; return False if one has."""
        return write(clear_untouched, name, before=to_instant(before))
