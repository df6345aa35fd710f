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
_EXPIRED_AT_ONCE = 50


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that may not go on without somebody's word, and what its people are told of it."""

    turn_pk: int
    fence: int
    session_id: str
    # What it said and did so far and the journal does not have yet, from that place on; the last is the question.
    place: int
    events: Sequence[str]
    # The question as the agent put it, and the role that may answer it.
    event: str
    least: Role
    code: str
    # What was streamed becomes a message of its own; `None`: nothing was said since the last question.
    streamed: str | None
    messages: tuple[outbox.NewDelivery, ...]
    # Of the answers that this run was told, those that it has not used; the next run is told them too.
    unused: tuple[int, ...] = ()
    at: Instant
    expires_at: Instant


class OpenAsk(msgspec.Struct, frozen=True):
    """A question that waits for its answer. `shown_at`: since when it stands in the chat."""

    pk: int
    code: str
    event: str
    least: Role
    shown_at: Instant | None


class Answered(msgspec.Struct, frozen=True):
    """A question as it was put, and what was answered to it. `is_used`: what was granted has been done, or is not to be."""

    pk: int
    event: str
    decision: Decision
    is_used: bool = False


class Deciding(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's word on a question, and what to tell them where it comes too late."""

    ask: int
    decision: Decision
    person: str | None
    otherwise: tuple[outbox.NewDelivery, ...]


def ask(tx: Tx, wanted: Asking) -> None:
    """The turn waits, held by nobody. `LeaseLost`, and nothing is written, where it is another's; `UnknownSession` too."""
    session = records.get_session(tx, wanted.session_id, lock=True)
    if not tx.run("ask_turn", turn_pk=wanted.turn_pk, fence=wanted.fence):
        raise LeaseLost
    row = tx.find("stop_of_turn", turn_pk=wanted.turn_pk)
    is_stopped = row is not None and row[0] is not None
    give_back(tx, wanted.turn_pk, wanted.unused)
    tx.run("use_answers", turn_pk=wanted.turn_pk)
    for offset, event in enumerate(wanted.events[:-1] if is_stopped else wanted.events):
        tx.run("add_journal", turn_pk=wanted.turn_pk, place=wanted.place + offset, event=event)
    if is_stopped:
        # Somebody wanted it to end before it asked: whoever claims it closes it, and nobody is asked.
        inbox.go_on(tx, wanted.at, session.pk)
        return
    tx.run(
        "add_ask",
        turn_pk=wanted.turn_pk,
        session_pk=session.pk,
        code=wanted.code,
        event=wanted.event,
        least=wanted.least,
        question=wanted.messages[-1].delivery_id,
        at=wanted.at,
        expires_at=wanted.expires_at,
    )
    # The chat may have got another id while the turn ran.
    id_changes.redirect_stream(tx, wanted.at, wanted.turn_pk)
    outbox.finish_stream(tx, wanted.at, wanted.turn_pk, wanted.streamed)
    for message in wanted.messages:
        target = id_changes.current_target(tx, wanted.at, message.target)
        outbox.enqueue(tx, wanted.at, msgspec.structs.replace(message, target=target))


def open_ask(tx: Tx, at: Instant, session_id: str) -> OpenAsk | None:
    """The question that a session waits for."""
    row = tx.find("open_ask", session_pk=records.get_session(tx, session_id).pk, at=at)
    return None if row is None else OpenAsk(*row)


def ask_in_chat(tx: Tx, at: Instant, lane: str, code: str) -> OpenAsk | None:
    """The open question with that code among those that a chat shows, whoever's conversation there it belongs to."""
    rows = tx.rows("open_ask_in_chat", code=code, at=at)
    return next((OpenAsk(*row) for *row, target in rows if outbox.read_target(target).ordering_key == lane), None)


def decide(tx: Tx, at: Instant, wanted: Deciding) -> bool:
    """Answers a question, once: its turn goes on as soon as there is room. False where it is not open any more."""
    row = tx.find("decide_ask", pk=wanted.ask, state=wanted.decision, person=wanted.person, at=at)
    if row is None:
        return False
    inbox.go_on(tx, at, row[0])
    return True


def expire(tx: Tx, at: Instant) -> int:
    """Ends turns whose question nobody answered in time; how many."""
    rows = tx.rows("expired_asks", at=at, limit=_EXPIRED_AT_ONCE)
    for pk, session_pk in rows:
        if tx.run("close_ask", pk=pk):
            inbox.ask_to_stop(tx, at, session_pk, "expired")
    return len(rows)


def take_answers(tx: Tx, turn_pk: int) -> tuple[Answered, ...]:
    """What was answered in the turn, for the run that begins. A yes is this run's alone, until the run gives it back.

    A yes that was told to a run which broke off counts no more: nobody knows what that run did, so it must ask again.
    """
    rows = tx.rows("answers_of", turn_pk=turn_pk)
    states = {state for _, _, state in rows}
    if "told" in states:
        tx.run("lose_answers", turn_pk=turn_pk)
    if "granted" in states:
        tx.run("tell_answers", turn_pk=turn_pk)
    return tuple(
        Answered(pk, event, "denied" if state == "denied" else "granted", state == "used")
        for pk, event, state in rows
        if state != "told"
    )


def give_back(tx: Tx, turn_pk: int, unused: Sequence[int]) -> None:
    """Answers that a run was told and has not used are there for the next."""
    for pk in unused:
        tx.run("keep_answer", turn_pk=turn_pk, pk=pk)


def count(tx: Tx, turn_pk: int) -> int:
    """How often a turn has asked so far."""
    row = tx.find("count_asks", turn_pk=turn_pk)
    return 0 if row is None else int(row[0])


class Approvals(Group[Mode]):
    """Questions that agents put to people, and their answers."""

    request = writes(ask)
    find_open = reads_now(open_ask)
    find_in_chat = reads_now(ask_in_chat)
    expire = writes_now(expire)
