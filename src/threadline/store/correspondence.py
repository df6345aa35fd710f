"""What went back and forth between a person and us, as they are told of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from threadline.clock import from_instant
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import json_value


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person may do here, and whether they wait to be let in. What there is not is left out."""

    role: str | None = None
    name: str | None = None
    since: datetime | None = None
    asked_at: datetime | None = None


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person sent and what became of it. `event` holds its words until it has a fate, then only whence it came."""

    number: int
    platform: str
    account: str
    accepted_at: datetime
    role: str
    fate: str
    fate_at: datetime | None
    note: str | None
    session_id: str | None
    turn_id: str | None
    event: dict[str, Any]


def standing_of(tx: Tx, person: str) -> Standing | None:
    """Their role and their request to be let in; `None` where there is neither."""
    known, asked = tx.find("find_person", person=person), tx.find("find_pairing", person=person)
    if known is None and asked is None:
        return None
    role, name, since = known or (None, None, None)
    waits_as, asked_at = asked or (None, None)
    return Standing(
        role=role,
        name=name or waits_as,
        since=None if since is None else from_instant(since),
        asked_at=None if asked_at is None else from_instant(asked_at),
    )


def events_of(tx: Tx, person: str, *, after: int, limit: int) -> list[EventRecord]:
    """All that came in from a person, what was turned away included, oldest first."""
    return [_event(row) for row in tx.rows("inbox_known", person=person, after=after, limit=limit)]


def _event(row: Row) -> EventRecord:
    pk, platform, account, event, role, accepted_at, fate, fate_at, note, session_id, turn_id = row
    return EventRecord(
        number=pk,
        platform=platform,
        account=account,
        accepted_at=from_instant(accepted_at),
        role=role,
        fate=fate,
        fate_at=None if fate_at is None else from_instant(fate_at),
        note=note,
        session_id=session_id,
        turn_id=turn_id,
        event=json_value(event),
    )
