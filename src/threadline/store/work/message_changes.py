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

# duplicate  the event was stored before
# amended    the message was pending, and the next turn answers its edited text
# dropped    the message was pending, and is not answered
# redacted   the message is in a transcript, and its text was removed there
# postponed  a turn answers the message now: it is redacted once the transcript has it
# noted      nothing is left to change
# ignored    as `noted`, but nothing is stored: the message is unknown here, or its sender has no role. Anybody may delete what
#            they like
ChangeOutcome: TypeAlias = Literal["duplicate", "amended", "dropped", "redacted", "postponed", "noted", "ignored"]
_OUTCOMES: dict[ChangeOutcome, MessageOutcome] = {
    "amended": "merged",
    "dropped": "merged",
    "redacted": "merged",
    "noted": "dropped",
}
# The prefix of the append key that `turn_end.finish` gives to a message from the inbox.
_APPEND_KEY_PREFIX = "in:"


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Apply an edit or a deletion. `address` is the address of the message that it changes."""

    event: Inbound
    address: SessionAddress
    person: str | None
    role: Role
    at: Instant


class DropRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Drop a pending message. `fallback_replies` are sent instead if a turn has taken it in the meantime."""

    message: PendingMessage
    fallback_replies: tuple[outbox.NewDelivery, ...]


class _InboxMatch(msgspec.Struct, frozen=True):
    message: PendingMessage
    session_pk: int


def find_content(
    tx: Tx, platform: str, account: str, dedupe_key: str, message_id: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return the text and the file handles of the message stored under that key, or `None` if they are not known."""
    key = {"platform": platform, "account": account, "dedupe_key": dedupe_key}
    row = tx.find("find_content", **key, message_id=message_id, append_key_prefix=_APPEND_KEY_PREFIX)
    event, outcome, body = row or (None, None, None)
    if event is not None and outcome is None:
        pending = rows.decode_event(event)
        return pending.text, tuple(file.handle for file in pending.attachments)
    if body is None:
        return None
    message = decode_body(body)
    return str(message["content"]), tuple(file.handle for file in attachments_of(message))


def find_no_op(tx: Tx, request: ChangeRequest) -> ChangeOutcome | None:
    """Return the outcome of a change that has no effect: a duplicate, or one of a message that is unknown here.

    It only reads. `None` says that the change must be applied.
    """
    if tx.find("find_inbound", **_event_key(request.event)) is not None:
        return "duplicate"
    # In this order: a message that is claimed or answered in the meantime is found by the next query.
    is_message_known = (
        _find_match(tx, "pending", request) is not None
        or _find_match(tx, "taken", request) is not None
        or bool(_transcript_numbers(tx, request))
    )
    return None if is_message_known else "ignored"


def apply(tx: Tx, request: ChangeRequest) -> ChangeOutcome:
    """Apply an edit or a deletion once. An edit that comes too late, or edits a command, is only recorded."""
    event, key = request.event, _event_key(request.event)
    if tx.find("find_inbound", **key) is not None:
        return "duplicate"
    if event.kind == "edit":
        outcome, session_pk = _edit_message(tx, request), None
    else:
        outcome, session_pk = _delete_message(tx, request)
    if outcome == "noted" and request.role == "group":
        return "ignored"
    is_postponed = outcome == "postponed"
    row = tx.find(
        "add_inbound",
        **key,
        session_pk=session_pk,
        # A postponed deletion is retried with the control commands that were not carried out.
        lane="control" if is_postponed else "talk",
        event=inbox.without_content(event),
        person=request.person,
        role=request.role,
        at=request.at,
        fate=_OUTCOMES.get(outcome),
        fate_at=None if is_postponed else request.at,
        note=f"{event.kind}: {outcome}",
    )
    return "duplicate" if row is None else outcome


def retry_deletion(tx: Tx, at: Instant, deletion: PendingMessage, session_pk: int) -> bool:
    """Apply a postponed deletion; return False while the turn that answers the message still runs."""
    event = deletion.event
    if _first_match(tx.rows("taken_anywhere", pattern=_pattern(event.message_id)), event) is not None:
        return False
    row = tx.find("find_external", session_pk=session_pk, external_id=event.message_id)
    numbers = [] if row is None or not _is_source_of(tx, event, _append_key(tx, row[0])) else [row[0]]
    outcome: ChangeOutcome = "redacted" if removal.redact_numbers(tx, at, numbers) else "noted"
    inbox.set_outcome(tx, at, deletion, _OUTCOMES[outcome], note=f"{event.kind}: {outcome}")
    return True


def answer_control(
    tx: Tx,
    at: Instant,
    command: PendingMessage,
    replies: Sequence[outbox.NewDelivery],
    *,
    drop_request: DropRequest | None = None,
    decision: approvals.ApprovalDecision | None = None,
) -> bool:
    """Store the outcome, the replies and the one effect of a control command, once; return False if another gateway did."""
    if not inbox.set_outcome(tx, at, command, "answered"):
        return False
    if decision is not None and not approvals.decide(tx, at, decision):
        replies = decision.fallback_replies
    if drop_request is not None and not drop(tx, at, drop_request.message, note="dropped by a command"):
        replies = drop_request.fallback_replies
    for reply in replies:
        outbox.enqueue(tx, at, msgspec.structs.replace(reply, person=command.person))
    return True


def drop(tx: Tx, at: Instant, message: PendingMessage, *, note: str) -> bool:
    """Drop a pending message; return False if it is not pending any more."""
    row = tx.find("find_inbox_session", pk=message.pk)
    if row is None or row[0] is None:
        return False
    session_pk: int = row[0]
    _lock_session(tx, session_pk)
    if not tx.run("drop_inbound", pk=message.pk, at=at, note=note, event=inbox.without_content(message.event)):
        return False
    if tx.find("has_work", session_pk=session_pk) is None:
        tx.run("drop_ready", session_pk=session_pk)
    return True


def _edit_message(tx: Tx, request: ChangeRequest) -> ChangeOutcome:
    event, match = request.event, _find_match(tx, "pending", request)
    if match is None or match.message.lane != "talk" or match.message.event.source.sender != event.source.sender:
        return "noted"
    _lock_session(tx, match.session_pk)
    before = match.message.event
    after = msgspec.structs.replace(before, text=event.text, attachments=event.attachments or before.attachments)
    return "amended" if tx.run("amend_inbound", pk=match.message.pk, event=json_text(after)) else "noted"


def _delete_message(tx: Tx, request: ChangeRequest) -> tuple[ChangeOutcome, int | None]:
    """Drop, postpone or redact. In this order: a message that is claimed or answered meanwhile is found by the next query."""
    pending = _find_match(tx, "pending", request)
    if pending is not None and drop(tx, request.at, pending.message, note="deleted by its sender"):
        return "dropped", pending.session_pk
    taken = _find_match(tx, "taken", request)
    if taken is not None:
        return "postponed", taken.session_pk
    return ("redacted" if removal.redact_numbers(tx, request.at, _transcript_numbers(tx, request)) else "noted"), None


def _transcript_numbers(tx: Tx, request: ChangeRequest) -> list[int]:
    """Return the numbers of the transcript messages that a change is about."""
    rows = tx.rows("transcript_numbers", external_id=request.event.message_id, **_session_filter(request))
    return [number for number, append_key in rows if _is_source_of(tx, request.event, append_key)]


def _find_match(tx: Tx, state: Literal["pending", "taken"], request: ChangeRequest) -> _InboxMatch | None:
    """Return the message that a change is about, among those that have no outcome yet."""
    pattern = _pattern(request.event.message_id)
    if request.event.source.chat_type == "dm":
        # A platform that omits the deleting user and the thread does not say enough to find the session.
        rows = tx.rows(f"{state}_anywhere", pattern=pattern)
    else:
        rows = tx.rows(f"{state}_in_chat", pattern=pattern, **_session_filter(request))
    return _first_match(rows, request.event)


def _first_match(rows: Sequence[Row], event: Inbound) -> _InboxMatch | None:
    for row in rows:
        match = _InboxMatch(inbox.pending_from_row(row), row[6])
        if match.message.event.kind == "message" and _is_about(event, match.message.event):
            return match
    return None


def _session_filter(request: ChangeRequest) -> dict[str, Any]:
    """Return the parameters that select the sessions in which the changed message may be."""
    source = request.event.source
    owned = ownership_of(source, request.address)
    return {"digest": request.address.digest, "chat": owned.chat, "owner": person_of(source)}


def _event_key(event: Inbound) -> dict[str, str]:
    return {"platform": event.source.platform, "account": event.source.account, "dedupe_key": event.dedupe_key}


def _lock_session(tx: Tx, session_pk: int) -> None:
    """Keep every turn from claiming the session's pending messages until this transaction ends."""
    tx.find("lock_session_state", session_pk=session_pk)
    tx.find("lock_ready", session_pk=session_pk)


def _is_source_of(tx: Tx, event: Inbound, append_key: str | None) -> bool:
    source = _source_event(tx, append_key)
    return source is not None and _is_about(event, source[0])


def _source_event(tx: Tx, append_key: str | None) -> tuple[Inbound, Role] | None:
    """Return the inbox event of a transcript message, without its content; `None` if the message came another way."""
    if append_key is None or not append_key.startswith(_APPEND_KEY_PREFIX):
        return None
    number = append_key.removeprefix(_APPEND_KEY_PREFIX)
    row = tx.find("find_source_event", pk=int(number)) if number.isdecimal() else None
    # The event of an erased person is empty.
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
    """Return a LIKE pattern that finds events by their JSON text. Its matches may be other messages: check each."""
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
    def apply(_: Store[Any], request: ChangeRequest) -> Step[ChangeOutcome]:
        """Apply an edit or a deletion once. A change of a message that is unknown here costs no write."""
        return task(_apply_if_needed, request)


def _apply_if_needed(perform: Perform, request: ChangeRequest) -> ChangeOutcome:
    outcome = perform(read(find_no_op, request))
    return perform(write(apply, request)) if outcome is None else outcome
