"""Operations at the door: who is greeted, what is changed or taken back after it was sent, what a command asks and does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.access import Role
from threadline.model.address import SessionAddress
from threadline.model.files import attachments_of
from threadline.model.inbound import Inbound
from threadline.model.message import decode_body
from threadline.model.ownership import ownership_of, person_of
from threadline.model.session import SessionEntry
from threadline.model.turn import Fate, Waiting
from threadline.store import asks, erasure, inbox, outbox, sessions, switching, transcript, views
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import json_text

# duplicate  it was here before
# amended    what the next turn answers reads as it was edited
# dropped    the message waited, and nobody will answer it
# redacted   the message is in a transcript, which does not say any more what it said
# postponed  a turn answers the message just now: it is redacted once the transcript has it
# noted      there is nothing left to change
# ignored    the same, where the message was never heard here, or for somebody who has no role: anybody may delete what they
#            like, and nothing is kept of it
Change: TypeAlias = Literal["duplicate", "amended", "dropped", "redacted", "postponed", "noted", "ignored"]

_FATES: dict[Change, Fate] = {"amended": "merged", "dropped": "merged", "redacted": "merged", "noted": "dropped"}
# What `turns.finish` calls the append of a message that came in.
_APPENDED_AS = "in:"
_ASKED_AT_MOST = 200
_AT_THE_LATEST = 2_000_000


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What is said before all else: to the first who ever writes, and where a conversation started afresh by itself."""

    welcome: str | None
    idle: str
    daily: str


class Received(msgspec.Struct, frozen=True):
    """What became of an event, and whether its sender was greeted."""

    admitted: inbox.Admitted
    greeted: bool


class Changing(msgspec.Struct, frozen=True, kw_only=True):
    """An edit or a deletion, and the address that the message had."""

    event: Inbound
    address: SessionAddress
    person: str | None
    role: Role
    at: Instant


class Dropping(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting message to drop, and what to answer if a turn has taken it meanwhile."""

    waiting: Waiting
    otherwise: tuple[outbox.NewDelivery, ...]


class _Found(msgspec.Struct, frozen=True):
    waiting: Waiting
    session_pk: int


def receive(tx: Tx, wanted: inbox.Admission, greeting: Greeting, make_turn: inbox.MakeTurn = inbox.no_turn) -> Received:
    """Takes an event in, once, and greets its sender where that is due: both or neither is stored."""
    admitted = inbox.accept(tx, wanted, make_turn)
    if admitted.pk is None or admitted.refused or admitted.session is None:
        return Received(admitted, greeted=False)
    told = _greeting_for(tx, wanted, admitted.session, greeting)
    if told is not None:
        outbox.enqueue(tx, msgspec.structs.replace(told, person=wanted.person), at=wanted.at)
    return Received(admitted, greeted=told is not None)


def knows_chat(tx: Tx, chat: str | None, person: str | None) -> bool:
    """Whether any conversation is held in that group, or is that person's: nowhere else there is anything to change."""
    return tx.find("knows_chat", chat=chat, person=person) is not None


def find_words(
    tx: Tx, platform: str, account: str, dedupe_key: str, message_id: str
) -> tuple[str, tuple[str, ...]] | None:
    """The text and the files' handles of a message that came in under that key; `None`: nobody knows."""
    key = {"platform": platform, "account": account, "dedupe_key": dedupe_key}
    row = tx.find("find_words", **key, message_id=message_id, appended_as=_APPENDED_AS)
    event, fate, body = row or (None, None, None)
    if event is not None and fate is None:
        waiting = inbox.decode_event(event)
        return waiting.text, tuple(file.handle for file in waiting.attachments)
    if body is None:
        return None
    message = decode_body(body)
    return str(message["content"]), tuple(file.handle for file in attachments_of(message))


def foresee(tx: Tx, wanted: Changing) -> Change | None:
    """What a change comes to that changes nothing: it was here before, or is about something that was never heard here.

    It only reads. `None`: it must be carried out.
    """
    if tx.find("find_inbound", **_key(wanted.event)) is not None:
        return "duplicate"
    # In this order: what is claimed or answered meanwhile is found by the next look.
    is_heard = (
        _find(tx, "waiting", wanted) is not None or _find(tx, "taken", wanted) is not None or bool(_said(tx, wanted))
    )
    return None if is_heard else "ignored"


def change(tx: Tx, wanted: Changing) -> Change:
    """Carries an edit or a deletion out, once. An edit that comes too late, and one of a command, is noted and no more."""
    event, key = wanted.event, _key(wanted.event)
    if tx.find("find_inbound", **key) is not None:
        return "duplicate"
    if event.kind == "edit":
        outcome, session_pk = _amend(tx, wanted), None
    else:
        outcome, session_pk = _withdraw(tx, wanted)
    if outcome == "noted" and wanted.role == "group":
        return "ignored"
    is_open = outcome == "postponed"
    row = tx.find(
        "add_inbound",
        **key,
        session_pk=session_pk,
        # One that is open is looked at again with the commands that nobody has carried out.
        lane="control" if is_open else "talk",
        event=inbox.spent(event),
        person=wanted.person,
        role=wanted.role,
        at=wanted.at,
        fate=_FATES.get(outcome),
        fate_at=None if is_open else wanted.at,
        note=f"{event.kind}: {outcome}",
    )
    return "duplicate" if row is None else outcome


def withdraw_again(tx: Tx, asked: Waiting, session_pk: int, *, at: Instant) -> bool:
    """Carries out a deletion that was postponed; False while the turn that answers the message still runs."""
    event = asked.event
    if _among(tx.rows("taken_under", pattern=_pattern(event.message_id)), event) is not None:
        return False
    row = tx.find("find_external", session_pk=session_pk, external_id=event.message_id)
    numbers = [] if row is None or not _is_said(tx, event, _append_key(tx, row[0])) else [row[0]]
    done: Change = "redacted" if erasure.redact_numbers(tx, numbers, at=at) else "noted"
    inbox.settle(tx, asked, _FATES[done], at=at, note=f"{event.kind}: {done}")
    return True


def answer_control(
    tx: Tx,
    waiting: Waiting,
    replies: Sequence[outbox.NewDelivery],
    *,
    dropping: Dropping | None = None,
    deciding: asks.Deciding | None = None,
    at: Instant,
) -> bool:
    """Gives a control command its fate, its answer and its one effect, once; False if another gateway did."""
    if not inbox.settle(tx, waiting, "answered", at=at):
        return False
    if deciding is not None and not asks.decide(tx, deciding, at=at):
        replies = deciding.otherwise
    if dropping is not None and not drop(tx, dropping.waiting, at=at, note="dropped by a command"):
        replies = dropping.otherwise
    for reply in replies:
        outbox.enqueue(tx, msgspec.structs.replace(reply, person=waiting.person), at=at)
    return True


def drop(tx: Tx, waiting: Waiting, *, at: Instant, note: str) -> bool:
    """Drops a message that waits; False if it does not wait any more."""
    row = tx.find("find_inbox_session", pk=waiting.pk)
    if row is None or row[0] is None:
        return False
    session_pk: int = row[0]
    _hold(tx, session_pk)
    if not tx.run("drop_inbound", pk=waiting.pk, at=at, note=note, event=inbox.spent(waiting.event)):
        return False
    if tx.find("has_work", session_pk=session_pk) is None:
        tx.run("drop_ready", session_pk=session_pk)
    return True


def start_afresh(tx: Tx, session_id: str, *, new_id: str, at: Instant) -> SessionEntry:
    """`/new`: a fresh session for the conversation, which takes along what waits in this one."""
    session = sessions.get_session(tx, session_id)
    fresh = sessions.reset(tx, session.entry.session_key, new_id=new_id, at=at, flush=True)
    if fresh is None:
        raise sessions.unknown(session_id)
    return _take_along(tx, session.pk, fresh, at=at)


def resume(
    tx: Tx, session_id: str, wanted: str, *, new_id: str, at: Instant, owners: str | None = None
) -> SessionEntry:
    """`/resume`: an earlier session goes on, with what waits in this one. `UnknownSession`, `NotYours`: nothing was changed."""
    session = sessions.get_session(tx, session_id)
    earlier = switching.switch(tx, session.entry.session_key, wanted, new_id=new_id, at=at, owners=owners)
    if earlier is None:
        raise sessions.unknown(session_id)
    return _take_along(tx, session.pk, earlier, at=at)


def go_on_in_copy(tx: Tx, session_id: str, *, new_id: str, at: Instant) -> SessionEntry:
    """`/fork`: a copy goes on, with what waits in this session."""
    session = sessions.get_session(tx, session_id)
    how = sessions.Beginning(new_id, session.entry.origin, at)
    copy = transcript.fork(tx, session_id, how, upto=None, key=session.entry.session_key)
    return _take_along(tx, session.pk, copy, at=at)


def session_before(tx: Tx, session_id: str) -> str | None:
    """The session that was current at the same address before this one; those in which nothing was said don't count.

    Where this one has expired, and nothing took its place yet, it is the one.
    """
    session = sessions.get_session(tx, session_id)
    if session.is_current and session.entry.ended_at is not None and session.had_activity:
        return session_id
    row = tx.find("session_before", address_pk=session.address_pk, session_pk=session.pk)
    return None if row is None else str(row[0])


def people_of_turn(tx: Tx, session_id: str) -> list[str | None]:
    """Whose messages the turn that runs in a session answers; empty where none runs."""
    return [person for (person,) in tx.rows("people_of_turn", session_pk=sessions.get_session(tx, session_id).pk)]


def roles_of_question(tx: Tx, session_id: str) -> list[Role]:
    """The roles of those whose messages a session ends with, unanswered. What did not come through the door counts least."""
    roles: list[Role] = []
    for _, number, role, *_ in reversed(views.rows_before(tx, sessions.get_session(tx, session_id), _ASKED_AT_MOST)):
        if role != "user":
            break
        heard = _heard(tx, _append_key(tx, number))
        roles.append("group" if heard is None else heard[1])
    return roles


def _greeting_for(
    tx: Tx, wanted: inbox.Admission, session: SessionEntry, greeting: Greeting
) -> outbox.NewDelivery | None:
    if session.message_count:
        return None
    if session.was_auto_reset:
        notice = sessions.take_reset_notice(tx, session.session_id, "user")
        if notice is None:
            return None
        return outbox.notice_about(wanted.event, "reset", greeting.idle if notice.reason == "idle" else greeting.daily)
    if session.session_id != wanted.resolve.new_id or sessions.has_any(tx, session.session_id):
        return None
    return None if greeting.welcome is None else outbox.notice_about(wanted.event, "welcome", greeting.welcome)


def _take_along(tx: Tx, from_pk: int, following: SessionEntry, *, at: Instant) -> SessionEntry:
    """What waits moves with the conversation, in its own transaction: a gateway may die before the command has ended."""
    new_pk = sessions.get_session(tx, following.session_id).pk
    if new_pk != from_pk:
        tx.run("move_waiting", session_pk=from_pk, new_pk=new_pk)
        left = tx.find("count_waiting", session_pk=new_pk)
        if left is not None and left[0]:
            # The end of the command's own turn starts it at once, after its answer; this is for when that never comes.
            inbox.mark_ready(tx, new_pk, at=at, wait=_AT_THE_LATEST)
    return following


def _amend(tx: Tx, wanted: Changing) -> Change:
    event, found = wanted.event, _find(tx, "waiting", wanted)
    if found is None or found.waiting.lane != "talk" or found.waiting.event.source.sender != event.source.sender:
        return "noted"
    _hold(tx, found.session_pk)
    before = found.waiting.event
    after = msgspec.structs.replace(before, text=event.text, attachments=event.attachments or before.attachments)
    return "amended" if tx.run("amend_inbound", pk=found.waiting.pk, event=json_text(after)) else "noted"


def _withdraw(tx: Tx, wanted: Changing) -> tuple[Change, int | None]:
    """Drops, postpones or redacts. In this order: what is claimed or answered meanwhile is found by the next look."""
    found = _find(tx, "waiting", wanted)
    if found is not None and drop(tx, found.waiting, at=wanted.at, note="deleted by its sender"):
        return "dropped", found.session_pk
    found = _find(tx, "taken", wanted)
    if found is not None:
        return "postponed", found.session_pk
    return ("redacted" if erasure.redact_numbers(tx, _said(tx, wanted), at=wanted.at) else "noted"), None


def _said(tx: Tx, wanted: Changing) -> list[int]:
    """The messages of transcripts that a change is about."""
    rows = tx.rows("said_under", external_id=wanted.event.message_id, **_about(wanted))
    return [number for number, append_key in rows if _is_said(tx, wanted.event, append_key)]


def _find(tx: Tx, state: Literal["waiting", "taken"], wanted: Changing) -> _Found | None:
    """The message that a change is about, among those that have no fate yet."""
    pattern = _pattern(wanted.event.message_id)
    if wanted.event.source.chat_type == "dm":
        # A platform that does not say who deleted it, and in which thread, says too little to find the session by.
        rows = tx.rows(f"{state}_under", pattern=pattern)
    else:
        rows = tx.rows(f"{state}_there", pattern=pattern, **_about(wanted))
    return _among(rows, wanted.event)


def _among(rows: Sequence[Row], event: Inbound) -> _Found | None:
    for row in rows:
        found = _Found(inbox.waiting_from(row), row[6])
        if found.waiting.event.kind == "message" and _is_about(event, found.waiting.event):
            return found
    return None


def _about(wanted: Changing) -> dict[str, Any]:
    """What the sessions are found by in which the message may be that a change is about."""
    source = wanted.event.source
    owned = ownership_of(source, wanted.address)
    return {"digest": wanted.address.digest, "chat": owned.chat, "owner": person_of(source)}


def _key(event: Inbound) -> dict[str, str]:
    return {"platform": event.source.platform, "account": event.source.account, "dedupe_key": event.dedupe_key}


def _hold(tx: Tx, session_pk: int) -> None:
    """Nobody claims what waits in the session until this transaction ends."""
    tx.find("hold_state", session_pk=session_pk)
    tx.find("hold_ready", session_pk=session_pk)


def _is_said(tx: Tx, event: Inbound, append_key: str | None) -> bool:
    heard = _heard(tx, append_key)
    return heard is not None and _is_about(event, heard[0])


def _heard(tx: Tx, append_key: str | None) -> tuple[Inbound, Role] | None:
    """The event that a message of a transcript came as, without its words; `None` for any other message."""
    if append_key is None or not append_key.startswith(_APPENDED_AS):
        return None
    number = append_key.removeprefix(_APPENDED_AS)
    row = tx.find("find_heard", pk=int(number)) if number.isdecimal() else None
    # Of somebody who was erased not even this is kept.
    return None if row is None or row[0] == "{}" else (inbox.decode_event(row[0]), row[1])


def _append_key(tx: Tx, number: int) -> str | None:
    row: Row | None = tx.find("find_append_key", number=number)
    return None if row is None else row[0]


def _is_about(event: Inbound, message: Inbound) -> bool:
    ours, theirs = event.source, message.source
    return (event.message_id, ours.platform, ours.account, ours.chat_id) == (
        message.message_id,
        theirs.platform,
        theirs.account,
        theirs.chat_id,
    )


def _pattern(message_id: str) -> str:
    """Finds events by their text without reading each: those that it finds may still be others."""
    quoted = json_text(message_id)
    for sign in "!%_":
        quoted = quoted.replace(sign, f"!{sign}")
    return f'%"message_id":{quoted}%'
