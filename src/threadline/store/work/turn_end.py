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
from threadline.store.leases import Held, require_changed
from threadline.store.rows import source_of
from threadline.store.work import approvals, inbox, outbox


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants turns, at most as many as there are ids for them, and under which limits."""

    owner: str
    turn_ids: tuple[str, ...]
    at: Instant
    lease: int
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


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to run."""

    held: Held
    attempts: int
    session: SessionEntry
    session_pk: int
    lane: QueueKind
    taken: tuple[PendingMessage, ...]
    role: Role
    origin: SessionSource
    # What it had journalled before it asked or broke off, as JSON, and the place of the last.
    journal: tuple[str, ...] = ()
    journalled: int = 0
    # How often it asked before, and what was answered.
    asked: int = 0
    answers: tuple[approvals.Answered, ...] = ()
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


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A user's message as the transcript is to keep it."""

    inbox_pk: int
    message: EncodedMessage
    author: str | None
    external_id: str | None
    fate: MessageOutcome
    # Who it is, where the session is shared and does not know them under that name yet.
    speaker: Speaker | None = None
    # The stored files that came with it.
    files: tuple[str, ...] = ()


class _Left(NamedTuple):
    """What a turn leaves behind that ends."""

    # Of the session that it answered in; `None` where that was deleted.
    session_pk: int | None
    origin: str
    # Messages that it took and that have no fate yet.
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


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """All that the end of a turn writes, together or not at all."""

    held: Held
    session_id: str
    outcome: TurnOutcome
    at: Instant
    said: tuple[Said, ...] = ()
    answer: tuple[EncodedMessage, ...] = ()
    # The stored files that go with each message of the answer; empty where none do.
    answer_files: tuple[tuple[str, ...], ...] = ()
    usage: Usage | None = None
    replies: tuple[outbox.NewDelivery, ...] = ()
    # The final text of the message that was streamed; `None`: nothing was.
    streamed: str | None = None
    # Fates of messages that leave no trace in the transcript.
    settled: tuple[tuple[PendingMessage, MessageOutcome, str | None], ...] = ()
    taken: tuple[PendingMessage, ...] = ()
    error: str | None = None
    # The session that goes on with what waits in this one.
    move_to: str | None = None


def finish(tx: Tx, wanted: Finish) -> None:
    """Ends a turn: transcript, usage, replies and fates in one. `LeaseLost`, and nothing is written, where it is another's."""
    held = wanted.held
    # The session first, as whoever takes a message in does: the other way round the two could wait for each other.
    tx.lock_rows("lock_session_pk", session_id=wanted.session_id)
    ended = tx.find(
        "end_turn",
        turn_pk=held.turn_pk,
        fence=held.fence,
        outcome=wanted.outcome,
        at=wanted.at,
        error=None if wanted.error is None else outbox.showable(wanted.error),
    )
    if ended is None:
        raise LeaseLost
    left = _Left(*ended)
    if left.session_pk is None:
        _drop_all(tx, wanted)
    else:
        settled = _keep(tx, wanted, left, left.session_pk)
        _go_on(tx, wanted, left, left.session_pk, is_all_settled=settled >= left.unsettled)
    if left.has_journal:
        tx.run("drop_journal", turn_pk=held.turn_pk)
    if left.has_asks:
        tx.run("drop_asks", turn_pk=held.turn_pk)


def release(
    tx: Tx,
    at: Instant,
    held: Held,
    session_pk: int,
    *,
    wait: int = 0,
    is_counted: bool = True,
    unused: Sequence[int] = (),
) -> None:
    """The turn runs again later, and goes on with the stream it had; one whose session was deleted ends instead.

    `unused`: answers that it was told and that are there for its next run.
    """
    if tx.find("session_of_pk", session_pk=session_pk) is None:
        end_deleted(tx, at, held)
        return
    require_changed(tx.run("release_turn", turn_pk=held.turn_pk, fence=held.fence, uncounted=int(not is_counted)))
    approvals.give_back(tx, held.turn_pk, unused)
    inbox.mark_ready(tx, at, session_pk, wait=wait)


def rest(tx: Tx, at: Instant, session_pk: int) -> None:
    """A session whose turn has ended goes on with what waits. Its row is locked, so nothing slips in unseen."""
    if tx.find("has_work", session_pk=session_pk) is not None:
        inbox.mark_ready(tx, at, session_pk)


def _keep(tx: Tx, wanted: Finish, left: _Left, session_pk: int) -> int:
    """Keeps what was said, answered, spent and is to be sent; how many of the messages that it took got their fate."""
    by_pk = {waiting.pk: waiting for waiting in wanted.taken}
    kept = [said for said in wanted.said if inbox.settle(tx, wanted.at, by_pk[said.inbox_pk], said.fate)]
    _transcribe(tx, wanted, kept, (session_pk, left.last_seq, left.indexed_seq, left.owner))
    wanted = _forwarded(tx, wanted, left.origin)
    if wanted.usage is not None:
        usage.record(tx, wanted.at, wanted.session_id, wanted.held.turn_id, wanted.usage)
    settled = [
        waiting for waiting, fate, note in wanted.settled if inbox.settle(tx, wanted.at, waiting, fate, note=note)
    ]
    if left.has_stream:
        outbox.finish_stream(tx, wanted.at, wanted.held.turn_pk, wanted.streamed)
    for reply in wanted.replies:
        outbox.enqueue(tx, wanted.at, reply)
    records.add_speakers(tx, session_pk, [said.speaker for said in kept if said.speaker is not None])
    return len(kept) + sum(waiting.pk in by_pk for waiting in settled)


def _go_on(tx: Tx, wanted: Finish, left: _Left, session_pk: int, *, is_all_settled: bool) -> None:
    """The session, or the one that follows it, goes on with what waits, and with what the turn took and did not answer."""
    if not is_all_settled:
        tx.run("give_back", turn_pk=wanted.held.turn_pk)
    following = session_pk if wanted.move_to is None else _locked(tx, wanted.move_to) or session_pk
    if following != session_pk:
        tx.run("move_waiting", session_pk=session_pk, new_pk=following)
    if following != session_pk or not is_all_settled:
        rest(tx, wanted.at, following)
    elif left.has_work:
        inbox.mark_ready(tx, wanted.at, session_pk)


def _transcribe(tx: Tx, wanted: Finish, kept: Sequence[Said], state: Row) -> None:
    """Writes what people said, and what was answered. Of who was erased meanwhile nothing is kept, and nothing brought back.

    Once: a turn ends once, and a message gets its fate once.
    """
    requests = [_request_of(wanted, said) for said in kept]
    enclosed: list[Sequence[tuple[str, ...]]] = [(said.files,) for said in kept]
    if wanted.answer:
        key = f"turn:{wanted.held.turn_id}"
        requests.append(transcripts.AppendRequest(wanted.session_id, wanted.answer, wanted.at, key=key))
        enclosed.append(wanted.answer_files)
    for appended, sent in zip(transcripts.append_locked(tx, wanted.session_id, state, requests), enclosed, strict=True):
        for ref, used in zip(appended.refs, sent, strict=False) if any(sent) else ():
            if used:
                files.link_files(tx, transcripts.find_number(tx, ref), used)


def _request_of(wanted: Finish, said: Said) -> transcripts.AppendRequest:
    return transcripts.AppendRequest(
        wanted.session_id,
        [said.message],
        wanted.at,
        key=f"in:{said.inbox_pk}",
        author=said.author,
        external_id=said.external_id,
    )


def _forwarded(tx: Tx, wanted: Finish, origin: str) -> Finish:
    """What the chat is told goes to where it is now: it may have been given another id while the turn ran."""
    chat = target_of(source_of(origin)).chat_id
    if all(reply.target.chat_id == chat for reply in wanted.replies):
        return wanted
    id_changes.redirect_stream(tx, wanted.at, wanted.held.turn_pk)
    replies = (
        replace(reply, target=id_changes.current_target(tx, wanted.at, reply.target), reply_to=None)
        for reply in wanted.replies
    )
    return replace(wanted, replies=tuple(replies))


def _drop_all(tx: Tx, wanted: Finish) -> None:
    """The session was deleted while its turn ran: nobody is left to hear the answer."""
    for waiting in taken_by(tx, wanted.held.turn_pk):
        inbox.settle(tx, wanted.at, waiting, "dropped", note="its session was deleted")
    tx.run("drop_stream", turn_pk=wanted.held.turn_pk)


def end_deleted(tx: Tx, at: Instant, held: Held) -> None:
    """Ends a turn whose worker and session are both gone; its messages still get their fate."""
    error = "its session is gone"
    require_changed(tx.run("end_turn", turn_pk=held.turn_pk, fence=held.fence, outcome="dropped", at=at, error=error))
    for waiting in taken_by(tx, held.turn_pk):
        inbox.settle(tx, at, waiting, "dropped", note="its session was deleted")
    tx.run("drop_stream", turn_pk=held.turn_pk)
    _forget(tx, held)


def _forget(tx: Tx, held: Held) -> None:
    tx.run("drop_journal", turn_pk=held.turn_pk)
    tx.run("drop_asks", turn_pk=held.turn_pk)


def _locked(tx: Tx, session_id: str) -> int | None:
    """The number of a session, locked; `None` where it was deleted."""
    row = tx.find("lock_session_pk", session_id=session_id)
    return None if row is None else int(row[0])


def taken_by(tx: Tx, turn_pk: int) -> tuple[PendingMessage, ...]:
    """The messages that a turn answers."""
    return tuple(inbox.waiting_from(row) for row in tx.rows("taken_by_turn", turn_pk=turn_pk))
