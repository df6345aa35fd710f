"""The values of a turn, and its end: finish or release it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from threadline.clock import Instant
from threadline.errors import LeaseLost
from threadline.model.access import Role
from threadline.model.delivery import target_of
from threadline.model.message import EncodedMessage, Message
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.speaker import Speaker
from threadline.model.turn import (
    MessageOutcome,
    PendingMessage,
    QueueKind,
    Replay,
    StopReason,
    Suspicion,
    TurnOutcome,
    WhenBusy,
)
from threadline.model.usage import Usage
from threadline.store.conversations import files, id_changes, records, transcripts, usage
from threadline.store.engine.database import Row, Tx
from threadline.store.leases import TurnLease, require_changed
from threadline.store.rows import source_of
from threadline.store.work import approvals, inbox, outbox


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker asks for turns: at most as many as it has ids for, and under these limits."""

    owner: str
    turn_ids: tuple[str, ...]
    at: Instant
    duration: int
    when_busy: WhenBusy = "collect"
    burst: int = 0
    per_person: int = 2
    per_platform: int = 16
    # A gateway answers on the platforms that it serves: nobody else could deliver.
    platforms: tuple[str, ...]
    # The digests of the addresses at which alone it answers; `None`: at all on its platforms.
    addresses: tuple[bytes, ...] | None = None
    # Since when the gateway lives, and the first back-off of turns that a dead one left behind.
    since: Instant = Instant(0)
    back_off: int = 0


class ClaimedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to run."""

    lease: TurnLease
    attempts: int
    session: SessionEntry
    session_pk: int
    lane: QueueKind
    messages: tuple[PendingMessage, ...]
    role: Role
    origin: SessionSource
    # What it had journalled before it asked or broke off, as JSON, and the place of the last.
    journal: tuple[str, ...] = ()
    last_journal_place: int = 0
    # How often it asked before, and what was answered.
    question_count: int = 0
    answers: tuple[approvals.ApprovalAnswer, ...] = ()
    context: str | None = None
    # Who has spoken before in a shared session.
    speakers: tuple[Speaker, ...] = ()
    replay: Replay = "safe"
    called_tool: bool = False
    stop: StopReason | None = None
    # Of the death that left it behind, where it was taken over.
    suspected: Suspicion = Suspicion()
    # What the model saw before, where it was read along with the claim.
    history: Sequence[Message] | None = None


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A user's message as the transcript shall store it."""

    inbox_pk: int
    message: EncodedMessage
    author: str | None
    external_id: str | None
    fate: MessageOutcome
    # Who it is, where the session is shared and does not know them under that name yet.
    speaker: Speaker | None = None
    # The stored files that came with it.
    files: tuple[str, ...] = ()


class _TurnRemainder(NamedTuple):
    """What an ended turn leaves to be settled."""

    # Of the session that it answered in; `None` where that was deleted.
    session_pk: int | None
    origin: str
    # Messages that it took and that have no outcome yet.
    unsettled: int
    has_stream: bool
    has_journal: bool
    has_asks: bool
    # For the next turn in its session.
    has_work: bool
    # Of its session's log: its last message, the last that search knows, and whose it is.
    last_seq: int
    indexed_seq: int
    owner: str | None


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """All that the end of a turn writes, together or not at all."""

    lease: TurnLease
    session_id: str
    outcome: TurnOutcome
    at: Instant
    user_messages: tuple[UserMessage, ...] = ()
    answer: tuple[EncodedMessage, ...] = ()
    # The stored files that go with each message of the answer; empty where none do.
    answer_files: tuple[tuple[str, ...], ...] = ()
    usage: Usage | None = None
    replies: tuple[outbox.NewDelivery, ...] = ()
    # The final text of the message that was streamed; `None`: nothing was.
    streamed: str | None = None
    # Outcomes of messages that leave no trace in the transcript.
    outcomes: tuple[tuple[PendingMessage, MessageOutcome, str | None], ...] = ()
    taken_messages: tuple[PendingMessage, ...] = ()
    error: str | None = None
    # The session that goes on with what waits in this one.
    move_to: str | None = None


def finish(tx: Tx, result: TurnResult) -> None:
    """End a turn: transcript, usage, replies and outcomes. Raises `LeaseLost`, and then writes nothing."""
    lease = result.lease
    # The session first, as whoever takes a message in does: the other way round the two could wait for each other.
    tx.lock_rows("lock_session_pk", session_id=result.session_id)
    ended = tx.find(
        "end_turn",
        outcome=result.outcome,
        at=result.at,
        error=None if result.error is None else outbox.displayable(result.error),
        **lease.proof,
    )
    if ended is None:
        raise LeaseLost
    left = _TurnRemainder(*ended)
    if left.session_pk is None:
        _drop_messages(tx, result)
    else:
        settled = _store_result(tx, result, left, left.session_pk)
        _start_next(tx, result, left, left.session_pk, is_all_settled=settled >= left.unsettled)
    if left.has_journal:
        tx.run("drop_journal", turn_pk=lease.turn_pk)
    if left.has_asks:
        tx.run("drop_approvals", turn_pk=lease.turn_pk)


def release(
    tx: Tx,
    at: Instant,
    lease: TurnLease,
    session_pk: int,
    *,
    wait: int = 0,
    is_counted: bool = True,
    unused: Sequence[int] = (),
) -> None:
    """Let a turn run again later, with the stream it had; end it where its session was deleted.

    `unused` names the answers that this run did not use and that the next run gets.
    """
    if tx.find("session_of_pk", session_pk=session_pk) is None:
        end_deleted(tx, at, lease)
        return
    require_changed(tx.run("release_turn", uncounted=int(not is_counted), **lease.proof))
    approvals.return_answers(tx, lease.turn_pk, unused)
    inbox.mark_ready(tx, at, session_pk, wait=wait)


def mark_ready_if_pending(tx: Tx, at: Instant, session_pk: int) -> None:
    """Mark a session ready where it has work. Its row is locked, so no message slips in unseen."""
    if tx.find("has_work", session_pk=session_pk) is not None:
        inbox.mark_ready(tx, at, session_pk)


def _store_result(tx: Tx, result: TurnResult, left: _TurnRemainder, session_pk: int) -> int:
    """Store messages, answer, usage and replies; return how many of the taken messages got an outcome."""
    by_pk = {waiting.pk: waiting for waiting in result.taken_messages}
    kept = [said for said in result.user_messages if inbox.set_outcome(tx, result.at, by_pk[said.inbox_pk], said.fate)]
    _append_messages(tx, result, kept, (session_pk, left.last_seq, left.indexed_seq, left.owner))
    result = _redirect_replies(tx, result, left.origin)
    if result.usage is not None:
        usage.record(tx, result.at, result.session_id, result.lease.turn_id, result.usage)
    settled = [
        waiting for waiting, fate, note in result.outcomes if inbox.set_outcome(tx, result.at, waiting, fate, note=note)
    ]
    if left.has_stream:
        outbox.finish_stream(tx, result.at, result.lease.turn_pk, result.streamed)
    for reply in result.replies:
        outbox.enqueue(tx, result.at, reply)
    records.add_speakers(tx, session_pk, [said.speaker for said in kept if said.speaker is not None])
    return len(kept) + sum(waiting.pk in by_pk for waiting in settled)


def _start_next(tx: Tx, result: TurnResult, left: _TurnRemainder, session_pk: int, *, is_all_settled: bool) -> None:
    """Mark the session, or the one that follows it, ready for what is pending and for taken messages without an answer."""
    if not is_all_settled:
        tx.run("give_back", turn_pk=result.lease.turn_pk)
    following = session_pk if result.move_to is None else _locked(tx, result.move_to) or session_pk
    if following != session_pk:
        tx.run("move_waiting", session_pk=session_pk, new_pk=following)
    if following != session_pk or not is_all_settled:
        mark_ready_if_pending(tx, result.at, following)
    elif left.has_work:
        inbox.mark_ready(tx, result.at, session_pk)


def _append_messages(tx: Tx, result: TurnResult, kept: Sequence[UserMessage], state: Row) -> None:
    """Append what people said and what was answered. Nothing is stored of a person who was erased meanwhile.

    This happens once: a turn ends once, and a message gets one outcome.
    """
    requests = [_request_of(result, said) for said in kept]
    enclosed: list[Sequence[tuple[str, ...]]] = [(said.files,) for said in kept]
    if result.answer:
        key = f"turn:{result.lease.turn_id}"
        requests.append(transcripts.AppendRequest(result.session_id, result.answer, result.at, key=key))
        enclosed.append(result.answer_files)
    for appended, sent in zip(transcripts.append_locked(tx, result.session_id, state, requests), enclosed, strict=True):
        for ref, used in zip(appended.refs, sent, strict=False) if any(sent) else ():
            if used:
                files.link_files(tx, transcripts.find_number(tx, ref), used)


def _request_of(result: TurnResult, said: UserMessage) -> transcripts.AppendRequest:
    return transcripts.AppendRequest(
        result.session_id,
        [said.message],
        result.at,
        key=f"in:{said.inbox_pk}",
        author=said.author,
        external_id=said.external_id,
    )


def _redirect_replies(tx: Tx, result: TurnResult, origin: str) -> TurnResult:
    """Return the result with its replies going to the chat's present id: it may have got another one while the turn ran."""
    chat = target_of(source_of(origin)).chat_id
    if all(reply.target.chat_id == chat for reply in result.replies):
        return result
    id_changes.redirect_stream(tx, result.at, result.lease.turn_pk)
    replies = (
        replace(reply, target=id_changes.current_target(tx, result.at, reply.target), reply_to=None)
        for reply in result.replies
    )
    return replace(result, replies=tuple(replies))


def _drop_messages(tx: Tx, result: TurnResult) -> None:
    """Settle the messages of a turn whose session was deleted while it ran."""
    for waiting in messages_of(tx, result.lease.turn_pk):
        inbox.set_outcome(tx, result.at, waiting, "dropped", note="its session was deleted")
    tx.run("drop_stream", turn_pk=result.lease.turn_pk)


def end_deleted(tx: Tx, at: Instant, lease: TurnLease) -> None:
    """End a turn whose worker and session are both gone; its messages still get an outcome."""
    error = "its session is gone"
    require_changed(tx.run("end_turn", outcome="dropped", at=at, error=error, **lease.proof))
    for waiting in messages_of(tx, lease.turn_pk):
        inbox.set_outcome(tx, at, waiting, "dropped", note="its session was deleted")
    tx.run("drop_stream", turn_pk=lease.turn_pk)
    _delete_journal(tx, lease)


def _delete_journal(tx: Tx, lease: TurnLease) -> None:
    tx.run("drop_journal", turn_pk=lease.turn_pk)
    tx.run("drop_approvals", turn_pk=lease.turn_pk)


def _locked(tx: Tx, session_id: str) -> int | None:
    """Lock a session and return its number, or None where it was deleted."""
    row = tx.find("lock_session_pk", session_id=session_id)
    return None if row is None else int(row[0])


def messages_of(tx: Tx, turn_pk: int) -> tuple[PendingMessage, ...]:
    """Return the messages that a turn answers."""
    return tuple(inbox.pending_from_row(row) for row in tx.rows("taken_by_turn", turn_pk=turn_pk))
