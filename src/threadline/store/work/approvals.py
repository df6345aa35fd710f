"""A turn asks for an approval, and somebody answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.errors import LeaseLost
from threadline.model.access import Role
from threadline.store.conversations import id_changes, records
from threadline.store.engine.database import Tx
from threadline.store.verbs import Group, Mode, reads_now, writes, writes_now
from threadline.store.work import inbox, outbox

Decision: TypeAlias = Literal["granted", "denied"]
_MAX_EXPIRED = 50


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for an approval on behalf of a turn, and enqueue the messages that put the question to people."""

    turn_pk: int
    fence: int
    session_id: str
    # The turn's latest events, which the journal does not have yet, from `place` on. The last event is the question.
    place: int
    events: Sequence[str]
    # The question as the agent put it, and the lowest role that may answer it.
    event: str
    least_role: Role
    code: str
    # The text streamed since the last question, which becomes a message of its own; `None` if there was none.
    streamed_text: str | None
    messages: tuple[outbox.NewDelivery, ...]
    # The answers that this run received and did not use: they are delivered to the next run too.
    unused: tuple[int, ...] = ()
    at: Instant
    expires_at: Instant


class OpenApproval(msgspec.Struct, frozen=True):
    """A question that waits for its answer. `shown_at` is when the chat showed it in full; `None` if it has not yet."""

    pk: int
    code: str
    event: str
    least_role: Role
    shown_at: Instant | None


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A question and its answer. `is_used` says that the approved action was carried out, or will not be."""

    pk: int
    event: str
    decision: Decision
    is_used: bool = False


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Answer a question. `fallback_replies` are sent to the person instead if the question is not open any more."""

    approval_pk: int
    decision: Decision
    person: str | None
    fallback_replies: tuple[outbox.NewDelivery, ...]


def request(tx: Tx, request: ApprovalRequest) -> None:
    """Store a question and release the turn until it is answered.

    Raises `LeaseLost` if the caller does not hold the turn, and `UnknownSession`; then nothing is written.
    """
    session = records.get_session(tx, request.session_id, lock=True)
    if not tx.run("mark_turn_asking", turn_pk=request.turn_pk, fence=request.fence):
        raise LeaseLost
    row = tx.find("stop_of_turn", turn_pk=request.turn_pk)
    is_stopped = row is not None and row[0] is not None
    return_answers(tx, request.turn_pk, request.unused)
    tx.run("mark_answers_used", turn_pk=request.turn_pk)
    for offset, event in enumerate(request.events[:-1] if is_stopped else request.events):
        tx.run("add_journal", turn_pk=request.turn_pk, place=request.place + offset, event=event)
    if is_stopped:
        # A stop was requested before the question: whoever claims the turn ends it, and the question is not put.
        inbox.wake_asking_turn(tx, request.at, session.pk)
        return
    tx.run(
        "add_approval",
        turn_pk=request.turn_pk,
        session_pk=session.pk,
        code=request.code,
        event=request.event,
        least=request.least_role,
        question=request.messages[-1].delivery_id,
        at=request.at,
        expires_at=request.expires_at,
    )
    # The id of the chat may have changed while the turn ran.
    id_changes.redirect_stream(tx, request.at, request.turn_pk)
    outbox.finish_stream(tx, request.at, request.turn_pk, request.streamed_text)
    for message in request.messages:
        target = id_changes.current_target(tx, request.at, message.target)
        outbox.enqueue(tx, request.at, msgspec.structs.replace(message, target=target))


def find_open(tx: Tx, at: Instant, session_id: str) -> OpenApproval | None:
    """Return the question that a session waits for, or `None`."""
    return find_open_in(tx, at, records.get_session(tx, session_id).pk)


def find_open_in(tx: Tx, at: Instant, session_pk: int) -> OpenApproval | None:
    """Return the question that the session with that key waits for, or `None`."""
    row = tx.find("find_open_approval", session_pk=session_pk, at=at)
    return None if row is None else OpenApproval(*row)


def find_in_chat(tx: Tx, at: Instant, ordering_key: str, code: str) -> OpenApproval | None:
    """Return the open question with that code that a chat shows, in whichever session, or `None`."""
    rows = tx.rows("open_approvals_with_code", code=code, at=at)
    shown_here = (row for *row, target in rows if outbox.read_target(target).ordering_key == ordering_key)
    return next((OpenApproval(*row) for row in shown_here), None)


def decide(tx: Tx, at: Instant, decision: ApprovalDecision) -> bool:
    """Answer a question once and wake its turn; return False if it is not open any more."""
    row = tx.find("decide_approval", pk=decision.approval_pk, state=decision.decision, person=decision.person, at=at)
    if row is None:
        return False
    inbox.wake_asking_turn(tx, at, row[0])
    return True


def expire(tx: Tx, at: Instant) -> int:
    """End turns whose question was not answered in time; return how many questions were due."""
    rows = tx.rows("expired_approvals", at=at, limit=_MAX_EXPIRED)
    for pk, session_pk in rows:
        if tx.run("close_approval", pk=pk):
            inbox.request_stop(tx, at, session_pk, "expired")
    return len(rows)


def take_answers(tx: Tx, turn_pk: int) -> tuple[ApprovalAnswer, ...]:
    """Return the answers of a turn for the run that begins. A grant belongs to this run alone until it returns it.

    A grant delivered to a run that was interrupted is void: nobody knows what that run did, so the agent must ask again.
    """
    rows = tx.rows("answers_of", turn_pk=turn_pk)
    states = {state for _, _, state in rows}
    if "told" in states:
        tx.run("close_delivered_answers", turn_pk=turn_pk)
    if "granted" in states:
        tx.run("deliver_answers", turn_pk=turn_pk)
    return tuple(
        ApprovalAnswer(pk, event, "denied" if state == "denied" else "granted", state == "used")
        for pk, event, state in rows
        if state != "told"
    )


def return_answers(tx: Tx, turn_pk: int, unused: Sequence[int]) -> None:
    """Make answers that a run received and did not use available to the next run."""
    for pk in unused:
        tx.run("return_answer", turn_pk=turn_pk, pk=pk)


def count(tx: Tx, turn_pk: int) -> int:
    """Return how many questions a turn has asked so far."""
    row = tx.find("count_approvals", turn_pk=turn_pk)
    return 0 if row is None else int(row[0])


class Approvals(Group[Mode]):
    """Questions that agents put to people, and their answers."""

    request = writes(request)
    find_open = reads_now(find_open)
    find_in_chat = reads_now(find_in_chat)
    expire = writes_now(expire)
