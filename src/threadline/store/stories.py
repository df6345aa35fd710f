"""What became of a message: who sent it, which turn answered it, and how the answer reached the chat."""

from __future__ import annotations

from datetime import datetime

import msgspec

from threadline.clock import from_instant
from threadline.errors import UnknownMessage
from threadline.store import inbox, outbox
from threadline.store.database import Row, Tx


class _Heard(msgspec.Struct, frozen=True):
    """What is kept of an event whatever its fate: no words. `raw` is what came where nobody could read it."""

    class _Source(msgspec.Struct, frozen=True):
        chat_id: str | None = None
        user_name: str | None = None

    source: _Source = _Source()
    message_id: str = ""
    kind: str = "message"
    raw: str | None = None


class MessageLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message that came in. `fate` is `waiting` or `running` until it has one, and `failed` where its turn did."""

    pk: int
    platform: str
    account: str
    chat_id: str | None
    person: str | None
    role: str
    kind: str
    accepted_at: datetime
    fate: str
    fate_at: datetime | None
    note: str | None
    session_id: str | None


class TurnLine(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that took it."""

    turn_id: str
    state: str
    outcome: str | None
    attempts: int
    created_at: datetime
    ended_at: datetime | None
    error: str | None


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of what became of a message."""

    message: MessageLine
    turn: TurnLine | None
    deliveries: list[outbox.DeliveryLine]
    # What came, where nobody could read it.
    raw: str | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do."""

    waiting_messages: int
    running_turns: int
    waiting_deliveries: int
    parked_deliveries: int
    # When the message came in that has waited longest.
    waiting_since: datetime | None


def load(tx: Tx) -> Load:
    """How much waits, runs and is parked, over all gateways."""
    waiting, running, pending, parked, since = tx.find("gateway_counts") or (0, 0, 0, 0, None)
    return Load(
        waiting_messages=waiting,
        running_turns=running,
        waiting_deliveries=pending,
        parked_deliveries=parked,
        waiting_since=None if since is None else from_instant(since),
    )


def lines(tx: Tx, fate: str | None, *, before: int, limit: int) -> list[MessageLine]:
    """What came in, newest first."""
    return [_line(row) for row in tx.rows("list_inbox", fate=fate, before=before, limit=limit)]


def story(tx: Tx, pk: int) -> Story:
    """The whole story of one message, or `UnknownMessage`."""
    row = tx.find("find_inbox", pk=pk)
    if row is None:
        raise UnknownMessage(
            f"no message that came in is number {pk}; `threadline messages list` shows those there are"
        )
    turn_pk = row[12]
    turn = None if turn_pk is None else tx.find("story_of_turn", turn_pk=turn_pk)
    return Story(
        message=_line(row),
        turn=None if turn is None else _turn(turn),
        deliveries=[] if turn_pk is None else outbox.lines_of_turn(tx, turn_pk),
        raw=_decode(row[4]).raw,
    )


def _line(row: Row) -> MessageLine:
    pk, platform, account, _, event, person, role, accepted_at, fate, fate_at, note, session_id, _ = row
    heard = _decode(event)
    return MessageLine(
        pk=pk,
        platform=platform,
        account=account,
        chat_id=heard.source.chat_id,
        person=person,
        role=role,
        kind=heard.kind,
        accepted_at=from_instant(accepted_at),
        fate=fate,
        fate_at=None if fate_at is None else from_instant(fate_at),
        note=note,
        session_id=session_id,
    )


def _turn(row: Row) -> TurnLine:
    turn_id, state, outcome, attempts, created_at, ended_at, error = row
    return TurnLine(
        turn_id=turn_id,
        state=state,
        outcome=outcome,
        attempts=attempts,
        created_at=from_instant(created_at),
        ended_at=None if ended_at is None else from_instant(ended_at),
        error=error,
    )


_decode = inbox.reader(_Heard)
