"""Claim turns, take over those of dead processes, keep their journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, TypedDict

from msgspec.structs import replace

from threadline.clock import Instant
from threadline.model.access import Role, allows, lowest_role
from threadline.model.message import LazyMessages, Message
from threadline.model.source import SessionSource
from threadline.model.turn import (
    PendingMessage,
    QueueKind,
    Replay,
    StopReason,
    apart_for,
    back_off,
    next_turn_messages,
    part_of,
    suspicion,
)
from threadline.model.view import message_number
from threadline.store.conversations import id_changes, records, views
from threadline.store.engine.database import Row, Step, Tx, leaving_work, write
from threadline.store.leases import TurnLease, require, require_changed
from threadline.store.rows import StoredSession, json_text, session_of, source_of
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes, writes_now
from threadline.store.work import approvals, inbox, outbox, turn_end
from threadline.store.work.message_changes import _append_key, _source_event
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest, _locked, end_deleted, messages_of, release

_SCAN_LIMIT = 16
_SHORT_HISTORY = 64
_SHORT_HISTORY_BYTES = 64 * 1024


class _EarlierRun(TypedDict):
    """What an earlier run of a turn left: its journal, and how many questions it asked."""

    journal: tuple[str, ...]
    last_journal_place: int
    question_count: int


class _RunningCounts:
    """The number of running turns of each person and on each platform."""

    def __init__(self, tx: Tx) -> None:
        self._people: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()
        for person, platform, count in tx.rows("live_counts"):
            self._people[person] += count
            self._platforms[platform] += count

    def has_room(self, request: ClaimRequest, session: StoredSession) -> bool:
        """Return whether one more turn may run in that session."""
        owner, platform = session.entry.owner, session.entry.platform
        is_free = owner is None or self._people[owner] < request.per_person
        return is_free and self._platforms[platform] < request.per_platform

    def add(self, session: StoredSession) -> None:
        """Count one more turn in that session."""
        self._people[session.entry.owner or ""] += 1
        self._platforms[session.entry.platform] += 1


def claim(tx: Tx, request: ClaimRequest) -> list[ClaimedTurn]:
    """Claim turns for sessions that have work; their pending messages belong to them from then on."""
    ready = _ready(tx, request)
    claimed: list[ClaimedTurn] = []
    if not ready:
        return claimed
    running = _RunningCounts(tx)
    for _, session_pk in ready:
        row = tx.find("session_of_pk", session_pk=session_pk)
        if row is None or tx.find("live_turn", session_pk=session_pk) is not None:
            tx.run("drop_ready", session_pk=session_pk)
            continue
        session = session_of(row)
        if not running.has_room(request, session):
            continue
        again = tx.find("waiting_turn", session_pk=session_pk)
        tx.run("drop_ready", session_pk=session_pk)
        if again is not None and (wait := _remaining_back_off(tx, request, again)) > 0:
            inbox.mark_ready(tx, request.at, session_pk, wait=wait)
            continue
        taken = _claim_again(tx, request, session, again) or _claim_new(
            tx, request, request.turn_ids[len(claimed)], session
        )
        if taken is None:
            continue
        claimed.append(taken)
        running.add(session)
        if len(claimed) == len(request.turn_ids):
            break
    return claimed


def accept_and_claim(
    tx: Tx, request: ClaimRequest, admission: inbox.AdmitRequest, greeting: inbox.Greeting
) -> tuple[inbox.ReceiveResult, list[ClaimedTurn]]:
    """Takes an event in, once, and begins turns: its own with it, where nothing else is to be done in its session.

    Where as much runs as may, the session waits like any other.
    """
    made: list[tuple[StoredSession, Row]] = []

    def make(session: StoredSession, *, is_first: bool) -> int | None:
        if admission.lane != "talk" or admission.burst:
            return None
        if not is_first and not _RunningCounts(tx).has_room(request, session):
            return None
        row = _add_turn(
            tx, request, request.turn_ids[0], session, admission.lane, admission.role, admission.event.source
        )
        made.append((session, row))
        return int(row[0])

    received = inbox.accept_and_greet(tx, admission, greeting, make)
    pk = received.admit_result.pk
    if not made:
        return received, claim(tx, request)
    if pk is None:
        return received, []
    said = PendingMessage(pk, admission.lane, admission.event, admission.person, admission.role, admission.at)
    (session, row), *_ = made
    return received, [_claimed(tx, request.turn_ids[0], session, row, [said], admission.role)]


def take_over(tx: Tx, at: Instant, owner: str, platforms: Sequence[str], *, duration: int) -> list[ClaimedTurn]:
    """Take over the turns on these platforms whose leases have expired; `owner` decides whether they run again."""
    turns: list[ClaimedTurn] = []
    left_behind: defaultdict[str, list[int]] = defaultdict(list)
    for dead, deaths in tx.rows("left_behind", at=at):
        left_behind[dead].append(deaths)
    expired = [
        row for platform in platforms for row in tx.rows("expired_turns", platform=platform, duration=duration, at=at)
    ]
    for row in expired:
        pk, turn_id, fence, attempts, lane, role, origin, session_pk, replay, tools, stop, dead, deaths = row
        if not tx.run("take_over_turn", key=pk, fence=fence, owner=owner, duration=duration, at=at):
            continue
        session_row = tx.find("session_of_pk", session_pk=session_pk)
        if session_row is None:
            end_deleted(tx, at, TurnLease("turns", pk, fence + 1, turn_id))
            continue
        turns.append(
            ClaimedTurn(
                lease=TurnLease("turns", pk, fence + 1, turn_id),
                attempts=attempts,
                session=session_of(session_row).entry,
                speakers=records.speakers_of(tx, session_of(session_row)),
                session_pk=session_pk,
                lane=lane,
                messages=messages_of(tx, pk),
                role=role,
                origin=source_of(origin),
                **_earlier_run(tx, pk),
                replay=replay,
                called_tool=bool(tools),
                stop=stop,
                suspected=suspicion(deaths, left_behind[dead] or [deaths]),
            )
        )
    return turns


def _ready(tx: Tx, request: ClaimRequest) -> list[Row]:
    """Return the sessions that have work, each with the time since when, oldest first."""
    if request.addresses is not None:
        found = [row for digest in request.addresses for row in tx.rows("ready_at", digest=digest, at=request.at)]
    else:
        found = [
            row
            for platform in request.platforms
            for row in tx.rows(
                "ready_sessions", platform=platform, at=request.at, per_person=request.per_person, limit=_SCAN_LIMIT
            )
        ]
    return sorted((due_at, pk) for pk, due_at in found)


def _remaining_back_off(tx: Tx, request: ClaimRequest, row: Row) -> int:
    """Return the microseconds of back-off that are left for a turn of a dead gateway; 0 for a turn that shall end."""
    _, turn_id, *_, stop, deaths, died_at = row
    if not deaths or stop is not None:
        return 0
    lived = request.at - max(int(died_at), request.since)
    apart = apart_for(deaths, request.back_off) - lived
    if (left := back_off(turn_id, deaths, request.back_off) - lived) > 0 or apart <= 0:
        return left
    running = [part_of(*suspect) for suspect in tx.rows("running_suspects", owner=request.owner)]
    is_apart = all(part == part_of(turn_id, deaths) for part in running)
    return 0 if is_apart else min(apart, request.back_off)


def _claim_again(tx: Tx, request: ClaimRequest, session: StoredSession, row: Row | None) -> ClaimedTurn | None:
    if row is None:
        return None
    pk, turn_id, fence, attempts, lane, role, origin, stop, *_ = row
    if not tx.run("claim_turn", turn_pk=pk, owner=request.owner, duration=request.duration, at=request.at):
        return None
    return ClaimedTurn(
        lease=TurnLease("turns", pk, fence + 1, turn_id),
        attempts=attempts + 1,
        session=session.entry,
        session_pk=session.pk,
        lane=lane,
        messages=messages_of(tx, pk),
        role=role,
        origin=source_of(origin),
        **_earlier_run(tx, pk),
        answers=approvals.take_answers(tx, pk),
        context=_context(tx, session.pk),
        speakers=records.speakers_of(tx, session),
        stop=stop,
    )


def _claim_new(tx: Tx, request: ClaimRequest, turn_id: str, session: StoredSession) -> ClaimedTurn | None:
    batch = next_turn_messages(inbox.pending_in(tx, session.pk), request.when_busy, request.burst)
    return _create_turn(tx, request, turn_id, session, batch) if batch else None


def _create_turn(
    tx: Tx, request: ClaimRequest, turn_id: str, session: StoredSession, batch: Sequence[PendingMessage]
) -> ClaimedTurn:
    """Create a turn that answers these messages. The unique index guarantees that no other runs in the session."""
    role, origin = lowest_role(item.role for item in batch), batch[-1].event.source
    row = _add_turn(tx, request, turn_id, session, batch[0].lane, role, origin)
    for item in batch:
        tx.run("take_inbound", turn_pk=row[0], pk=item.pk)
    return _claimed(tx, turn_id, session, row, batch, role)


def _add_turn(
    tx: Tx,
    request: ClaimRequest,
    turn_id: str,
    session: StoredSession,
    lane: QueueKind,
    role: Role,
    origin: SessionSource,
) -> Row:
    row = tx.find(
        "add_turn",
        turn_id=turn_id,
        session_pk=session.pk,
        lane=lane,
        owner=request.owner,
        duration=request.duration,
        person=session.entry.owner,
        platform=session.entry.platform,
        role=role,
        origin=json_text(origin),
        at=request.at,
    )
    assert row is not None  # noqa: S101 - what is added is returned
    return row


def _claimed(
    tx: Tx, turn_id: str, session: StoredSession, row: Row, batch: Sequence[PendingMessage], role: Role
) -> ClaimedTurn:
    """Return the turn of a row that was just added, for its first run."""
    lane = batch[0].lane
    return ClaimedTurn(
        lease=TurnLease("turns", row[0], 1, turn_id),
        attempts=1,
        session=session.entry,
        session_pk=session.pk,
        lane=lane,
        messages=tuple(batch),
        role=role,
        origin=batch[-1].event.source,
        context=row[1],
        speakers=records.speakers_of(tx, session),
        history=_short_history(tx, session) if lane == "talk" else None,
    )


def _earlier_run(tx: Tx, turn_pk: int) -> _EarlierRun:
    rows = tx.rows("journal_of", turn_pk=turn_pk)
    return {
        "journal": tuple(str(event) for _, event in rows),
        "last_journal_place": rows[-1][0] if rows else 0,
        "question_count": approvals.count(tx, turn_pk),
    }


def _short_history(tx: Tx, session: StoredSession) -> Sequence[Message] | None:
    """Return a short history, which is cheaper to read here than later. A long one would keep other writers waiting: None."""
    if session.last_seq > _SHORT_HISTORY or session.entry.parent_session_id is not None:
        return None
    if not session.last_seq:
        return ()
    rows = tx.rows(
        "short_history",
        session_pk=session.pk,
        lo=message_number(session.pk, 1),
        hi=message_number(session.pk, _SHORT_HISTORY),
        most=_SHORT_HISTORY_BYTES,
        limit=_SHORT_HISTORY,
    )
    # None: it weighs too much, or all of it was taken back, which is rare.
    return LazyMessages([body for (body,) in reversed(rows)]) if rows else None


def _context(tx: Tx, session_pk: int) -> str | None:
    row: Row | None = tx.find("find_context", session_pk=session_pk)
    return None if row is None else str(row[0])


def set_replay(tx: Tx, lease: TurnLease, replay: Replay) -> None:
    """Store whether the turn may run again, before it does anything."""
    require_changed(tx.run("set_replay", replay=replay, **lease.proof))


def ensure_context(tx: Tx, session_pk: int, block: str) -> str:
    """Return the session's context block: the stored one, else this one, which is stored."""
    tx.run("keep_context", session_pk=session_pk, block=block)
    row = tx.find("find_context", session_pk=session_pk)
    return block if row is None else str(row[0])


def take_pending(tx: Tx, lease: TurnLease, session_id: str, role: Role) -> list[PendingMessage]:
    """Take messages that came since the turn began into it, up to the first command or message of a lower role."""
    session_pk = _locked(tx, session_id)
    require(tx, lease)
    taken: list[PendingMessage] = []
    for item in [] if session_pk is None else inbox.pending_in(tx, session_pk):
        if item.lane != "talk" or not allows(item.role, role):
            break
        tx.run("take_inbound", turn_pk=lease.turn_pk, pk=item.pk)
        taken.append(item)
    return taken


def append_journal(tx: Tx, lease: TurnLease, place: int, events: Sequence[str], *, called_tool: bool = False) -> None:
    """Store events of the turn from `place` on. Raises `LeaseLost`."""
    require_changed(tx.run("note_tools", tools=int(called_tool), **lease.proof))
    for offset, event in enumerate(events):
        tx.run("add_journal", turn_pk=lease.turn_pk, place=place + offset, event=event)


def enqueue_progress(tx: Tx, at: Instant, lease: TurnLease, notice: outbox.NewDelivery) -> bool:
    """Enqueue a notice while the turn runs; return False, and store nothing, where its lease is lost.

    The turn's row is held meanwhile: its end waits, and the answer stands behind what is said here.
    """
    if not tx.run("note_tools", tools=0, **lease.proof):
        return False
    outbox.enqueue(tx, at, replace(notice, target=id_changes.current_target(tx, at, notice.target)))
    return True


def suggest_title(tx: Tx, at: Instant, lease: TurnLease, session_id: str, title: str) -> None:
    """Set the title of a turn's session unless it has one. Raises `LeaseLost`."""
    is_there = _locked(tx, session_id) is not None
    require(tx, lease)
    if is_there and records.get_entry(tx, session_id).title is None:
        records.set_title(tx, at, session_id, title)


def clear_journal(tx: Tx, lease: TurnLease) -> None:
    """Delete the journal of a turn that starts again. Raises `LeaseLost`."""
    require(tx, lease)
    tx.run("drop_journal", turn_pk=lease.turn_pk)


def rerun(tx: Tx, at: Instant, left: Sequence[ClaimedTurn], *, first: int) -> None:
    """Let turns of a dead gateway run again from the start, each after its back-off; `first` is the shortest one.

    All at once: a death between two would leave the second behind as if it had been alone. Those that are another's now are not
    touched.
    """
    for turn in left:
        lease, deaths = turn.lease, turn.suspected.deaths
        if tx.run("suspect_turn", deaths=deaths, at=at, **lease.proof):
            tx.run("drop_journal", turn_pk=lease.turn_pk)
            release(tx, at, lease, turn.session_pk, wait=back_off(lease.turn_id, deaths, first))


def request_stop(tx: Tx, at: Instant, session_id: str, stop: StopReason) -> bool:
    """Ask the running turn of a session to end; return False if none runs."""
    return inbox.request_stop(tx, at, records.get_session(tx, session_id).pk, stop)


_MAX_UNANSWERED = 200


def people_of_running(tx: Tx, session_id: str) -> list[str | None]:
    """Return the people whose messages the running turn of a session answers; empty where none runs."""
    return [person for (person,) in tx.rows("people_of_turn", session_pk=records.get_session(tx, session_id).pk)]


def roles_of_unanswered(tx: Tx, session_id: str) -> list[Role]:
    """Return the roles of those whose unanswered messages a session ends with. A message that was not admitted counts least."""
    roles: list[Role] = []
    for _, number, role, *_ in reversed(views.last_rows(tx, records.get_session(tx, session_id), _MAX_UNANSWERED)):
        if role != "user":
            break
        heard = _source_event(tx, _append_key(tx, number))
        roles.append("group" if heard is None else heard[1])
    return roles


class Turns(Group[Mode]):
    """Turns: claimed, leased, journalled, ended."""

    claim = writes(claim)
    set_replay = writes(set_replay)
    ensure_context = writes(ensure_context)
    take_pending = writes(take_pending)
    append_journal = writes(append_journal)
    enqueue_progress = writes_now(enqueue_progress)
    suggest_title = writes_now(suggest_title)
    clear_journal = writes(clear_journal)
    rerun = writes_now(rerun)
    request_stop = writes_now(request_stop)
    people_of_running = reads(people_of_running)
    roles_of_unanswered = reads(roles_of_unanswered)

    @verb
    def finish(_: Store[Any], request: turn_end.TurnResult) -> Step[None]:
        """End a turn: transcript, usage, replies and outcomes in one transaction. Raises `LeaseLost`."""
        return leaving_work(write(turn_end.finish, request))

    @verb
    def release(
        store: Store[Any],
        lease: TurnLease,
        session_pk: int,
        *,
        wait: int = 0,
        is_counted: bool = True,
        unused: Sequence[int] = (),
    ) -> Step[None]:
        """Give a turn back, to be run again, with the answers that it has not used.

        With `is_counted` it has cost one of its attempts.
        """
        at = store.now()
        return write(turn_end.release, at, lease, session_pk, wait=wait, is_counted=is_counted, unused=unused)

    @verb
    def take_over(
        store: Store[Any], owner: str, platforms: Sequence[str], duration: int
    ) -> Step[list[turn_end.ClaimedTurn]]:
        """Take over the turns on these platforms whose leases have expired."""
        return write(take_over, store.now(), owner, platforms, duration=duration)

    @verb
    def accept_and_claim(
        _: Store[Any], request: inbox.AdmitRequest, greeting: inbox.Greeting, claim: turn_end.ClaimRequest
    ) -> Step[tuple[inbox.ReceiveResult, list[turn_end.ClaimedTurn]]]:
        """Accept an event, once, and claim its turn where its session has no other work: one commit for both."""
        return leaving_work(write(accept_and_claim, claim, request, greeting))
