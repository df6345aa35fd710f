"""Operations on turns: one at a time per session, over all processes, held by a lease and guarded by a fence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

import msgspec
from msgspec.structs import replace

from threadline.clock import Instant
from threadline.errors import LeaseLost, UnknownSession
from threadline.model.access import Role, allows, lowest
from threadline.model.delivery import target_of
from threadline.model.message import EncodedMessage, digest_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.speaker import Speaker
from threadline.model.turn import Fate, Lane, Outcome, Replay, Stop, Waiting, WhenBusy, next_batch
from threadline.model.usage import Usage
from threadline.store import aliases, asks, files, inbox, names, outbox, sessions, speakers, transcript, usage
from threadline.store.database import Row, Tx
from threadline.store.rows import StoredSession, json_text, session_of, source_of

_LOOKED_AT = 16
_RECOVERED = 20


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


class Held(msgspec.Struct, frozen=True):
    """A turn that its holder may write for, as long as the fence is the turn's."""

    turn_pk: int
    turn_id: str
    fence: int


class StillHeld(msgspec.Struct, frozen=True):
    """A turn whose lease was renewed, and whether somebody wants it to end."""

    held: Held
    stop: Stop | None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to run."""

    held: Held
    attempts: int
    session: SessionEntry
    session_pk: int
    lane: Lane
    taken: tuple[Waiting, ...]
    role: Role
    origin: SessionSource
    # What it had journalled before it asked or broke off, as JSON, and the place of the last.
    journal: tuple[str, ...] = ()
    journalled: int = 0
    # How often it asked before, and what was answered.
    asked: int = 0
    answers: tuple[asks.Answered, ...] = ()
    context: str | None = None
    # Who has spoken before in a shared session.
    speakers: tuple[Speaker, ...] = ()
    replay: Replay = "safe"
    called_tool: bool = False
    stop: Stop | None = None


class _Before(TypedDict):
    """What a turn did before it was claimed again."""

    journal: tuple[str, ...]
    journalled: int
    asked: int


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A user's message as the transcript is to keep it."""

    inbox_pk: int
    message: EncodedMessage
    author: str | None
    external_id: str | None
    fate: Fate
    # Who it is, where the session is shared and does not know them under that name yet.
    speaker: Speaker | None = None
    # The stored files that came with it.
    files: tuple[str, ...] = ()


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """All that the end of a turn writes, together or not at all."""

    held: Held
    session_id: str
    outcome: Outcome
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
    settled: tuple[tuple[Waiting, Fate, str | None], ...] = ()
    taken: tuple[Waiting, ...] = ()
    error: str | None = None
    # The session that goes on with what waits in this one.
    move_to: str | None = None


def claim(tx: Tx, wanted: Claim) -> list[Claimed]:
    """Turns for sessions that have something to do. Their messages are taken by them from then on."""
    ready = sorted(
        (due_at, pk)
        for platform in wanted.platforms
        for pk, due_at in tx.rows(
            "ready_sessions", platform=platform, at=wanted.at, per_person=wanted.per_person, limit=_LOOKED_AT
        )
    )
    claimed: list[Claimed] = []
    if not ready:
        return claimed
    people, platforms = _running(tx)
    for _, session_pk in ready:
        row = tx.find("session_of_pk", session_pk=session_pk)
        if row is None or tx.find("live_turn", session_pk=session_pk) is not None:
            tx.run("drop_ready", session_pk=session_pk)
            continue
        session = session_of(row)
        owner, platform = session.entry.owner, session.entry.platform
        if platforms[platform] >= wanted.per_platform or (owner is not None and people[owner] >= wanted.per_person):
            continue
        taken = _again(tx, wanted, session) or _fresh(tx, wanted, wanted.turn_ids[len(claimed)], session)
        tx.run("drop_ready", session_pk=session_pk)
        if taken is None:
            continue
        claimed.append(taken)
        platforms[platform] += 1
        people[owner or ""] += 1
        if len(claimed) == len(wanted.turn_ids):
            break
    return claimed


def declare(tx: Tx, held: Held, replay: Replay) -> None:
    """Notes whether the turn may run again, before it does anything."""
    _require(tx.run("set_replay", turn_pk=held.turn_pk, fence=held.fence, replay=replay))


def keep_context(tx: Tx, session_pk: int, block: str) -> str:
    """The session's context block: the one that is stored, else this one, from now on."""
    tx.run("keep_context", session_pk=session_pk, block=block)
    row = tx.find("find_context", session_pk=session_pk)
    return block if row is None else str(row[0])


def take_more(tx: Tx, held: Held, session_id: str, role: Role) -> list[Waiting]:
    """Takes what was said since the turn began into it. Not behind a command, nor words that count less than the turn does."""
    session = _locked(tx, session_id)
    _require(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0))
    taken: list[Waiting] = []
    for item in [] if session is None else inbox.waiting_of(tx, session.pk):
        if item.lane != "talk" or not allows(item.role, role):
            break
        tx.run("take_inbound", turn_pk=held.turn_pk, pk=item.pk)
        taken.append(item)
    return taken


def renew(tx: Tx, held: Sequence[Held], *, lease: int, at: Instant) -> list[StillHeld]:
    """Renews what is still held of these, and tells what that is."""
    still = [own for own in held if tx.run("renew_turn", turn_pk=own.turn_pk, fence=own.fence, lease=lease, at=at)]
    return [StillHeld(own, _stop_of(tx, own.turn_pk)) for own in still]


def journal(tx: Tx, held: Held, place: int, events: Sequence[str], *, called_tool: bool) -> None:
    """Keeps what the turn said and did, from `place` on. `LeaseLost` where the turn is another's now."""
    _require(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=int(called_tool)))
    for offset, event in enumerate(events):
        tx.run("add_journal", turn_pk=held.turn_pk, place=place + offset, event=event)


def tell_progress(tx: Tx, held: Held, notice: outbox.NewDelivery, *, at: Instant) -> bool:
    """Stores what is said while the turn runs; False, and nothing is stored, once it runs no more or is another's.

    The turn's row is held meanwhile: its end waits, and the answer stands behind what is said here.
    """
    if not tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0):
        return False
    outbox.enqueue(tx, replace(notice, target=aliases.forward(tx, notice.target, at=at)), at=at)
    return True


def forget_journal(tx: Tx, held: Held) -> None:
    """A turn that runs again starts with an empty journal."""
    _require(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0))
    tx.run("drop_journal", turn_pk=held.turn_pk)


def finish(tx: Tx, wanted: Finish) -> None:
    """Ends a turn: transcript, usage, replies and fates in one. `LeaseLost`, and nothing is written, where it is another's."""
    held = wanted.held
    # The session first, as whoever takes a message in does: the other way round the two could wait for each other.
    session = _locked(tx, wanted.session_id)
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
    by_pk = {waiting.pk: waiting for waiting in wanted.taken}
    if session is None:
        _drop_all(tx, wanted)
    else:
        kept = _say(tx, wanted, by_pk)
        _write(tx, _forwarded(tx, wanted, ended[0]))
        speakers.keep(tx, session.pk, [said.speaker for said in kept if said.speaker is not None])
        # What was taken in while the turn was ending waits for the next one.
        tx.run("give_back", turn_pk=held.turn_pk)
        following = session if wanted.move_to is None else _locked(tx, wanted.move_to)
        if following is not None and following.pk != session.pk:
            tx.run("move_waiting", session_pk=session.pk, new_pk=following.pk)
        rest(tx, session.pk if following is None else following.pk, at=wanted.at)
    _forget(tx, held)


def release(
    tx: Tx,
    held: Held,
    session_pk: int,
    *,
    at: Instant,
    wait: int = 0,
    is_counted: bool = True,
    unused: Sequence[int] = (),
) -> None:
    """The turn runs again later, and goes on with the stream it had; one whose session was deleted ends instead.

    `unused`: answers that it was told and that are there for its next run.
    """
    if tx.find("session_of_pk", session_pk=session_pk) is None:
        _end_deleted(tx, held, at=at)
        return
    _require(tx.run("release_turn", turn_pk=held.turn_pk, fence=held.fence, uncounted=int(not is_counted)))
    asks.give_back(tx, held.turn_pk, unused)
    inbox.mark_ready(tx, session_pk, at=at, wait=wait)


def take_over(tx: Tx, owner: str, platforms: Sequence[str], *, lease: int, at: Instant) -> list[Claimed]:
    """Turns on these platforms whose holder is gone, now held by `owner`, who decides what becomes of them."""
    taken: list[Claimed] = []
    expired = [
        row for platform in platforms for row in tx.rows("expired_turns", platform=platform, at=at, limit=_RECOVERED)
    ]
    for row in expired:
        pk, turn_id, fence, attempts, lane, role, origin, session_pk, replay, tools, stop = row
        if not tx.run("take_over", turn_pk=pk, fence=fence, owner=owner, lease=lease, at=at):
            continue
        found = tx.find("session_of_pk", session_pk=session_pk)
        if found is None:
            _end_deleted(tx, Held(pk, turn_id, fence + 1), at=at)
            continue
        taken.append(
            Claimed(
                held=Held(pk, turn_id, fence + 1),
                attempts=attempts,
                session=session_of(found).entry,
                speakers=speakers.of_session(tx, session_of(found)),
                session_pk=session_pk,
                lane=lane,
                taken=_taken(tx, pk),
                role=role,
                origin=source_of(origin),
                **_before(tx, pk),
                replay=replay,
                called_tool=bool(tools),
                stop=stop,
            )
        )
    return taken


def void(tx: Tx, owners: str) -> int:
    """Leases of holders that are dead for certain end now; how many."""
    return tx.run("void_turns", owners=owners) + tx.run("void_deliveries", owners=owners) + names.void(tx, owners)


def ask_to_stop(tx: Tx, session_id: str, stop: Stop, *, at: Instant) -> bool:
    """Asks the turn that runs in a session to end; False if none does."""
    return inbox.ask_to_stop(tx, sessions.get_session(tx, session_id).pk, stop, at=at)


def rest(tx: Tx, session_pk: int, *, at: Instant) -> None:
    """A session whose turn has ended goes on with what waits. Its row is locked, so nothing slips in unseen."""
    row = tx.find("count_waiting", session_pk=session_pk)
    if (row is not None and row[0]) or tx.find("waiting_turn", session_pk=session_pk) is not None:
        inbox.mark_ready(tx, session_pk, at=at)


def _again(tx: Tx, wanted: Claim, session: StoredSession) -> Claimed | None:
    row = tx.find("waiting_turn", session_pk=session.pk)
    if row is None:
        return None
    pk, turn_id, fence, attempts, lane, role, origin, stop = row
    if not tx.run("take_turn", turn_pk=pk, owner=wanted.owner, lease=wanted.lease, at=wanted.at):
        return None
    return Claimed(
        held=Held(pk, turn_id, fence + 1),
        attempts=attempts + 1,
        session=session.entry,
        session_pk=session.pk,
        lane=lane,
        taken=_taken(tx, pk),
        role=role,
        origin=source_of(origin),
        **_before(tx, pk),
        answers=asks.take_answers(tx, pk),
        context=_context(tx, session.pk),
        speakers=speakers.of_session(tx, session),
        stop=stop,
    )


def _fresh(tx: Tx, wanted: Claim, turn_id: str, session: StoredSession) -> Claimed | None:
    waiting = inbox.waiting_of(tx, session.pk)
    batch = next_batch(waiting, wanted.when_busy, wanted.burst)
    if not batch:
        return None
    role = lowest(item.role for item in batch)
    origin = batch[-1].event.source
    row = tx.find(
        "add_turn",
        turn_id=turn_id,
        session_pk=session.pk,
        lane=batch[0].lane,
        owner=wanted.owner,
        lease=wanted.lease,
        person=session.entry.owner,
        platform=session.entry.platform,
        role=role,
        origin=json_text(origin),
        at=wanted.at,
    )
    if row is None:
        return None
    for item in batch:
        tx.run("take_inbound", turn_pk=row[0], pk=item.pk)
    return Claimed(
        held=Held(row[0], turn_id, 1),
        attempts=1,
        session=session.entry,
        session_pk=session.pk,
        lane=batch[0].lane,
        taken=tuple(batch),
        role=role,
        origin=origin,
        context=_context(tx, session.pk),
        speakers=speakers.of_session(tx, session),
    )


def _say(tx: Tx, wanted: Finish, by_pk: dict[int, Waiting]) -> list[Said]:
    """Writes what people said; what was written. Who was erased meanwhile is not brought back."""
    kept = [said for said in wanted.said if inbox.settle(tx, by_pk[said.inbox_pk], said.fate, at=wanted.at)]
    for said in kept:
        appended = transcript.append(
            tx,
            transcript.AppendRequest(
                wanted.session_id,
                [said.message],
                wanted.at,
                f"in:{said.inbox_pk}",
                digest_of([said.message]),
                said.author,
                said.external_id,
            ),
        )
        if said.files:
            files.use(tx, transcript.number_of(tx, appended.refs[0]), said.files)
    return kept


def _write(tx: Tx, wanted: Finish) -> None:
    if wanted.answer:
        key, answer = f"turn:{wanted.held.turn_id}", list(wanted.answer)
        request = transcript.AppendRequest(wanted.session_id, answer, wanted.at, key, digest_of(answer))
        for ref, sent in zip(transcript.append(tx, request).refs, wanted.answer_files, strict=False):
            files.use(tx, transcript.number_of(tx, ref), sent)
    if wanted.usage is not None:
        usage.record(tx, wanted.session_id, wanted.held.turn_id, wanted.usage, at=wanted.at)
    for waiting, fate, note in wanted.settled:
        inbox.settle(tx, waiting, fate, at=wanted.at, note=note)
    outbox.finish_stream(tx, wanted.held.turn_pk, wanted.streamed, at=wanted.at)
    for reply in wanted.replies:
        outbox.enqueue(tx, reply, at=wanted.at)


def _forwarded(tx: Tx, wanted: Finish, origin: str) -> Finish:
    """What the chat is told goes to where it is now: it may have been given another id while the turn ran."""
    chat = target_of(source_of(origin)).chat_id
    if all(reply.target.chat_id == chat for reply in wanted.replies):
        return wanted
    aliases.forward_stream(tx, wanted.held.turn_pk, at=wanted.at)
    replies = (
        replace(reply, target=aliases.forward(tx, reply.target, at=wanted.at), reply_to=None)
        for reply in wanted.replies
    )
    return replace(wanted, replies=tuple(replies))


def _drop_all(tx: Tx, wanted: Finish) -> None:
    """The session was deleted while its turn ran: nobody is left to hear the answer."""
    for waiting in _taken(tx, wanted.held.turn_pk):
        inbox.settle(tx, waiting, "dropped", at=wanted.at, note="its session was deleted")
    tx.run("drop_stream", turn_pk=wanted.held.turn_pk)


def _end_deleted(tx: Tx, held: Held, *, at: Instant) -> None:
    """Ends a turn whose worker and session are both gone; its messages still get their fate."""
    error = "its session is gone"
    _require(tx.run("end_turn", turn_pk=held.turn_pk, fence=held.fence, outcome="dropped", at=at, error=error))
    for waiting in _taken(tx, held.turn_pk):
        inbox.settle(tx, waiting, "dropped", at=at, note="its session was deleted")
    tx.run("drop_stream", turn_pk=held.turn_pk)
    _forget(tx, held)


def _forget(tx: Tx, held: Held) -> None:
    tx.run("drop_journal", turn_pk=held.turn_pk)
    tx.run("drop_asks", turn_pk=held.turn_pk)


def _locked(tx: Tx, session_id: str) -> StoredSession | None:
    try:
        return sessions.get_session(tx, session_id, lock=True)
    except UnknownSession:
        return None


def _running(tx: Tx) -> tuple[Counter[str], Counter[str]]:
    people: Counter[str] = Counter()
    platforms: Counter[str] = Counter()
    for person, platform, count in tx.rows("live_counts"):
        people[person] += count
        platforms[platform] += count
    return people, platforms


def _taken(tx: Tx, turn_pk: int) -> tuple[Waiting, ...]:
    return tuple(inbox.waiting_from(row) for row in tx.rows("taken_by_turn", turn_pk=turn_pk))


def _before(tx: Tx, turn_pk: int) -> _Before:
    rows = tx.rows("journal_of", turn_pk=turn_pk)
    return {
        "journal": tuple(str(event) for _, event in rows),
        "journalled": rows[-1][0] if rows else 0,
        "asked": asks.count(tx, turn_pk),
    }


def _stop_of(tx: Tx, turn_pk: int) -> Stop | None:
    row = tx.find("stop_of_turn", turn_pk=turn_pk)
    return None if row is None else row[0]


def _context(tx: Tx, session_pk: int) -> str | None:
    row: Row | None = tx.find("find_context", session_pk=session_pk)
    return None if row is None else str(row[0])


def _require(changed: int) -> None:
    if not changed:
        raise LeaseLost
