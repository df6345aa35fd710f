"""Edits, deletions and answers to control commands."""

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
from threadline.model.turn import MessageOutcome, PendingMessage
from threadline.store import rows
from threadline.store.engine.database import Perform, Row, Step, Tx, read, task, write
from threadline.store.people import removal
from threadline.store.rows import json_text
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes_now
from threadline.store.work import approvals, inbox, outbox

# duplicate  it was here before
# amended    what the next turn answers reads as it was edited
# dropped    the message waited, and nobody will answer it
# redacted   the message is in a transcript, which does not say any more what it said
# postponed  a turn answers the message just now: it is redacted once the transcript has it
# noted      there is nothing left to change
# ignored    the same, where the message was never heard here, or for somebody who has no role: anybody may delete what they
#            like, and nothing is kept of it
ChangeOutcome: TypeAlias = Literal["duplicate", "amended", "dropped", "redacted", "postponed", "noted", "ignored"]
_OUTCOMES: dict[ChangeOutcome, MessageOutcome] = {
    "amended": "merged",
    "dropped": "merged",
    "redacted": "merged",
    "noted": "dropped",
}
# What `turns.finish` calls the append of a message that came in.
_APPENDED_AS = "in:"


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An edit or a deletion, and the address that the message had."""

    event: Inbound
    address: SessionAddress
    person: str | None
    role: Role
    at: Instant


class DropRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting message to drop, and what to answer if a turn has taken it meanwhile."""

    message: PendingMessage
    fallback_replies: tuple[outbox.NewDelivery, ...]


class _InboxMatch(msgspec.Struct, frozen=True):
    message: PendingMessage
    session_pk: int


def find_content(
    tx: Tx, platform: str, account: str, dedupe_key: str, message_id: str
) -> tuple[str, tuple[str, ...]] | None:
    """The text and the files' handles of a message that came in under that key; `None`: nobody knows."""
    key = {"platform": platform, "account": account, "dedupe_key": dedupe_key}
    row = tx.find("find_content", **key, message_id=message_id, appended_as=_APPENDED_AS)
    event, fate, body = row or (None, None, None)
    if event is not None and fate is None:
        waiting = rows.decode_event(event)
        return waiting.text, tuple(file.handle for file in waiting.attachments)
    if body is None:
        return None
    message = decode_body(body)
    return str(message["content"]), tuple(file.handle for file in attachments_of(message))


def find_no_op(tx: Tx, wanted: ChangeRequest) -> ChangeOutcome | None:
    """What a change comes to that changes nothing: it was here before, or is about something that was never heard here.

    It only reads. `None`: it must be carried out.
    """
    if tx.find("find_inbound", **_event_key(wanted.event)) is not None:
        return "duplicate"
    # In this order: what is claimed or answered meanwhile is found by the next look.
    is_heard = (
        _find_match(tx, "pending", wanted) is not None
        or _find_match(tx, "taken", wanted) is not None
        or bool(_transcript_numbers(tx, wanted))
    )
    return None if is_heard else "ignored"


def apply(tx: Tx, wanted: ChangeRequest) -> ChangeOutcome:
    """Carries an edit or a deletion out, once. An edit that comes too late, and one of a command, is noted and no more."""
    event, key = wanted.event, _event_key(wanted.event)
    if tx.find("find_inbound", **key) is not None:
        return "duplicate"
    if event.kind == "edit":
        outcome, session_pk = _edit_message(tx, wanted), None
    else:
        outcome, session_pk = _delete_message(tx, wanted)
    if outcome == "noted" and wanted.role == "group":
        return "ignored"
    is_open = outcome == "postponed"
    row = tx.find(
        "add_inbound",
        **key,
        session_pk=session_pk,
        # One that is open is looked at again with the commands that nobody has carried out.
        lane="control" if is_open else "talk",
        event=inbox.without_content(event),
        person=wanted.person,
        role=wanted.role,
        at=wanted.at,
        fate=_OUTCOMES.get(outcome),
        fate_at=None if is_open else wanted.at,
        note=f"{event.kind}: {outcome}",
    )
    return "duplicate" if row is None else outcome


def retry_deletion(tx: Tx, at: Instant, asked: PendingMessage, session_pk: int) -> bool:
    """Carries out a deletion that was postponed; False while the turn that answers the message still runs."""
    event = asked.event
    if _first_match(tx.rows("taken_anywhere", pattern=_pattern(event.message_id)), event) is not None:
        return False
    row = tx.find("find_external", session_pk=session_pk, external_id=event.message_id)
    numbers = [] if row is None or not _is_source_of(tx, event, _append_key(tx, row[0])) else [row[0]]
    done: ChangeOutcome = "redacted" if removal.redact_numbers(tx, at, numbers) else "noted"
    inbox.set_outcome(tx, at, asked, _OUTCOMES[done], note=f"{event.kind}: {done}")
    return True


def answer_control(
    tx: Tx,
    at: Instant,
    waiting: PendingMessage,
    replies: Sequence[outbox.NewDelivery],
    *,
    dropping: DropRequest | None = None,
    deciding: approvals.ApprovalDecision | None = None,
) -> bool:
    """Gives a control command its fate, its answer and its one effect, once; False if another gateway did."""
    if not inbox.set_outcome(tx, at, waiting, "answered"):
        return False
    if deciding is not None and not approvals.decide(tx, at, deciding):
        replies = deciding.fallback_replies
    if dropping is not None and not drop(tx, at, dropping.message, note="dropped by a command"):
        replies = dropping.fallback_replies
    for reply in replies:
        outbox.enqueue(tx, at, msgspec.structs.replace(reply, person=waiting.person))
    return True


def drop(tx: Tx, at: Instant, waiting: PendingMessage, *, note: str) -> bool:
    """Drops a message that waits; False if it does not wait any more."""
    row = tx.find("find_inbox_session", pk=waiting.pk)
    if row is None or row[0] is None:
        return False
    session_pk: int = row[0]
    _lock_session(tx, session_pk)
    if not tx.run("drop_inbound", pk=waiting.pk, at=at, note=note, event=inbox.without_content(waiting.event)):
        return False
    if tx.find("has_work", session_pk=session_pk) is None:
        tx.run("drop_ready", session_pk=session_pk)
    return True


def _edit_message(tx: Tx, wanted: ChangeRequest) -> ChangeOutcome:
    event, found = wanted.event, _find_match(tx, "pending", wanted)
    if found is None or found.message.lane != "talk" or found.message.event.source.sender != event.source.sender:
        return "noted"
    _lock_session(tx, found.session_pk)
    before = found.message.event
    after = msgspec.structs.replace(before, text=event.text, attachments=event.attachments or before.attachments)
    return "amended" if tx.run("amend_inbound", pk=found.message.pk, event=json_text(after)) else "noted"


def _delete_message(tx: Tx, wanted: ChangeRequest) -> tuple[ChangeOutcome, int | None]:
    """Drops, postpones or redacts. In this order: what is claimed or answered meanwhile is found by the next look."""
    found = _find_match(tx, "pending", wanted)
    if found is not None and drop(tx, wanted.at, found.message, note="deleted by its sender"):
        return "dropped", found.session_pk
    found = _find_match(tx, "taken", wanted)
    if found is not None:
        return "postponed", found.session_pk
    return ("redacted" if removal.redact_numbers(tx, wanted.at, _transcript_numbers(tx, wanted)) else "noted"), None


def _transcript_numbers(tx: Tx, wanted: ChangeRequest) -> list[int]:
    """The messages of transcripts that a change is about."""
    rows = tx.rows("transcript_numbers", external_id=wanted.event.message_id, **_session_filter(wanted))
    return [number for number, append_key in rows if _is_source_of(tx, wanted.event, append_key)]


def _find_match(tx: Tx, state: Literal["pending", "taken"], wanted: ChangeRequest) -> _InboxMatch | None:
    """The message that a change is about, among those that have no fate yet."""
    pattern = _pattern(wanted.event.message_id)
    if wanted.event.source.chat_type == "dm":
        # A platform that does not say who deleted it, and in which thread, says too little to find the session by.
        rows = tx.rows(f"{state}_anywhere", pattern=pattern)
    else:
        rows = tx.rows(f"{state}_in_chat", pattern=pattern, **_session_filter(wanted))
    return _first_match(rows, wanted.event)


def _first_match(rows: Sequence[Row], event: Inbound) -> _InboxMatch | None:
    for row in rows:
        found = _InboxMatch(inbox.pending_from_row(row), row[6])
        if found.message.event.kind == "message" and _is_about(event, found.message.event):
            return found
    return None


def _session_filter(wanted: ChangeRequest) -> dict[str, Any]:
    """What the sessions are found by in which the message may be that a change is about."""
    source = wanted.event.source
    owned = ownership_of(source, wanted.address)
    return {"digest": wanted.address.digest, "chat": owned.chat, "owner": person_of(source)}


def _event_key(event: Inbound) -> dict[str, str]:
    return {"platform": event.source.platform, "account": event.source.account, "dedupe_key": event.dedupe_key}


def _lock_session(tx: Tx, session_pk: int) -> None:
    """Nobody claims what waits in the session until this transaction ends."""
    tx.find("lock_session_state", session_pk=session_pk)
    tx.find("lock_ready", session_pk=session_pk)


def _is_source_of(tx: Tx, event: Inbound, append_key: str | None) -> bool:
    heard = _source_event(tx, append_key)
    return heard is not None and _is_about(event, heard[0])


def _source_event(tx: Tx, append_key: str | None) -> tuple[Inbound, Role] | None:
    """The event that a message of a transcript came as, without its words; `None` for any other message."""
    if append_key is None or not append_key.startswith(_APPENDED_AS):
        return None
    number = append_key.removeprefix(_APPENDED_AS)
    row = tx.find("find_source_event", pk=int(number)) if number.isdecimal() else None
    # Of somebody who was erased not even this is kept.
    return None if row is None or row[0] == "{}" else (rows.decode_event(row[0]), row[1])


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


class MessageChanges(Group[Mode]):
    """Edits and deletions of messages, and answers to control commands."""

    find_content = reads(find_content)
    retry_deletion = writes_now(retry_deletion)
    answer_control = writes_now(answer_control)

    @verb
    def apply(_: Store[Any], wanted: ChangeRequest) -> Step[ChangeOutcome]:
        """Carries an edit or a deletion out, once. What was never heard here costs no write."""
        return task(_apply_if_needed, wanted)


def _apply_if_needed(perform: Perform, wanted: ChangeRequest) -> ChangeOutcome:
    foreseen = perform(read(find_no_op, wanted))
    return perform(write(apply, wanted)) if foreseen is None else foreseen
