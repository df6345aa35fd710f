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
from threadline.store import leases
from threadline.store.conversations import id_changes, records, views
from threadline.store.engine.database import Row, Step, Tx, leaving_work, write
from threadline.store.leases import Held, require, require_changed
from threadline.store.rows import StoredSession, json_text, session_of, source_of
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes, writes_now
from threadline.store.work import approvals, inbox, outbox, turn_end
from threadline.store.work.message_changes import _append_key, _heard
from threadline.store.work.turn_end import Claim, Claimed, _locked, end_deleted, release, taken_by

_LOOKED_AT = 16
_SHORT_HISTORY = 64
_SHORT_HISTORY_BYTES = 64 * 1024


class _Before(TypedDict):
    """What a turn did before it was claimed again."""

    journal: tuple[str, ...]
    journalled: int
    asked: int


class _Running:
    """How many turns run, for each person and on each platform."""

    def __init__(self, tx: Tx) -> None:
        self._people: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()
        for person, platform, count in tx.rows("live_counts"):
            self._people[person] += count
            self._platforms[platform] += count

    def has_room(self, wanted: Claim, session: StoredSession) -> bool:
        """Whether one more may run in that session."""
        owner, platform = session.entry.owner, session.entry.platform
        is_free = owner is None or self._people[owner] < wanted.per_person
        return is_free and self._platforms[platform] < wanted.per_platform

    def add(self, session: StoredSession) -> None:
        """One more runs in that session."""
        self._people[session.entry.owner or ""] += 1
        self._platforms[session.entry.platform] += 1


def claim(tx: Tx, wanted: Claim) -> list[Claimed]:
    """Turns for sessions that have something to do. Their messages are taken by them from then on."""
    ready = _ready(tx, wanted)
    claimed: list[Claimed] = []
    if not ready:
        return claimed
    running = _Running(tx)
    for _, session_pk in ready:
        row = tx.find("session_of_pk", session_pk=session_pk)
        if row is None or tx.find("live_turn", session_pk=session_pk) is not None:
            tx.run("drop_ready", session_pk=session_pk)
            continue
        session = session_of(row)
        if not running.has_room(wanted, session):
            continue
        again = tx.find("waiting_turn", session_pk=session_pk)
        tx.run("drop_ready", session_pk=session_pk)
        if again is not None and (wait := _held_back(tx, wanted, again)) > 0:
            inbox.mark_ready(tx, wanted.at, session_pk, wait=wait)
            continue
        taken = _again(tx, wanted, session, again) or _fresh(tx, wanted, wanted.turn_ids[len(claimed)], session)
        if taken is None:
            continue
        claimed.append(taken)
        running.add(session)
        if len(claimed) == len(wanted.turn_ids):
            break
    return claimed


def accept_and_claim(
    tx: Tx, wanted: Claim, admission: inbox.Admission, greeting: inbox.Greeting
) -> tuple[inbox.Received, list[Claimed]]:
    """Takes an event in, once, and begins turns: its own with it, where nothing else is to be done in its session.

    Where as much runs as may, the session waits like any other.
    """
    made: list[tuple[StoredSession, Row]] = []

    def make(session: StoredSession, *, is_alone: bool) -> int | None:
        if admission.lane != "talk" or admission.burst:
            return None
        if not is_alone and not _Running(tx).has_room(wanted, session):
            return None
        row = _add_turn(tx, wanted, wanted.turn_ids[0], session, admission.lane, admission.role, admission.event.source)
        made.append((session, row))
        return int(row[0])

    received = inbox.accept_and_greet(tx, admission, greeting, make)
    pk = received.admitted.pk
    if not made:
        return received, claim(tx, wanted)
    if pk is None:
        return received, []
    said = PendingMessage(pk, admission.lane, admission.event, admission.person, admission.role, admission.at)
    (session, row), *_ = made
    return received, [_claimed(tx, wanted.turn_ids[0], session, row, [said], admission.role)]


def take_over(tx: Tx, at: Instant, owner: str, platforms: Sequence[str], *, lease: int) -> list[Claimed]:
    """Turns on these platforms whose holder is gone, now held by `owner`, who decides what becomes of them."""
    taken: list[Claimed] = []
    left_behind: defaultdict[str, list[int]] = defaultdict(list)
    for dead, deaths in tx.rows("left_behind", at=at):
        left_behind[dead].append(deaths)
    expired = [row for platform in platforms for row in tx.rows("expired_turns", platform=platform, lease=lease, at=at)]
    for row in expired:
        pk, turn_id, fence, attempts, lane, role, origin, session_pk, replay, tools, stop, dead, deaths = row
        if not tx.run("take_over", turn_pk=pk, fence=fence, owner=owner, lease=lease, at=at):
            continue
        found = tx.find("session_of_pk", session_pk=session_pk)
        if found is None:
            end_deleted(tx, at, Held(pk, turn_id, fence + 1))
            continue
        taken.append(
            Claimed(
                held=Held(pk, turn_id, fence + 1),
                attempts=attempts,
                session=session_of(found).entry,
                speakers=records.speakers_of(tx, session_of(found)),
                session_pk=session_pk,
                lane=lane,
                taken=taken_by(tx, pk),
                role=role,
                origin=source_of(origin),
                **_before(tx, pk),
                replay=replay,
                called_tool=bool(tools),
                stop=stop,
                suspected=suspicion(deaths, left_behind[dead] or [deaths]),
            )
        )
    return taken


def _ready(tx: Tx, wanted: Claim) -> list[Row]:
    """Sessions that have something to do, each with since when, the longest first."""
    if wanted.addresses is not None:
        found = [row for digest in wanted.addresses for row in tx.rows("ready_at", digest=digest, at=wanted.at)]
    else:
        found = [
            row
            for platform in wanted.platforms
            for row in tx.rows(
                "ready_sessions", platform=platform, at=wanted.at, per_person=wanted.per_person, limit=_LOOKED_AT
            )
        ]
    return sorted((due_at, pk) for pk, due_at in found)


def _held_back(tx: Tx, wanted: Claim, row: Row) -> int:
    """How many microseconds a turn is not to run yet that a dead gateway left behind. Not one that is to end."""
    _, turn_id, *_, stop, deaths, died_at = row
    if not deaths or stop is not None:
        return 0
    lived = wanted.at - max(int(died_at), wanted.since)
    apart = apart_for(deaths, wanted.back_off) - lived
    if (left := back_off(turn_id, deaths, wanted.back_off) - lived) > 0 or apart <= 0:
        return left
    running = [part_of(*suspect) for suspect in tx.rows("running_suspects", owner=wanted.owner)]
    is_apart = all(part == part_of(turn_id, deaths) for part in running)
    return 0 if is_apart else min(apart, wanted.back_off)


def _again(tx: Tx, wanted: Claim, session: StoredSession, row: Row | None) -> Claimed | None:
    if row is None:
        return None
    pk, turn_id, fence, attempts, lane, role, origin, stop, *_ = row
    if not tx.run("take_turn", turn_pk=pk, owner=wanted.owner, lease=wanted.lease, at=wanted.at):
        return None
    return Claimed(
        held=Held(pk, turn_id, fence + 1),
        attempts=attempts + 1,
        session=session.entry,
        session_pk=session.pk,
        lane=lane,
        taken=taken_by(tx, pk),
        role=role,
        origin=source_of(origin),
        **_before(tx, pk),
        answers=approvals.take_answers(tx, pk),
        context=_context(tx, session.pk),
        speakers=records.speakers_of(tx, session),
        stop=stop,
    )


def _fresh(tx: Tx, wanted: Claim, turn_id: str, session: StoredSession) -> Claimed | None:
    batch = next_turn_messages(inbox.waiting_of(tx, session.pk), wanted.when_busy, wanted.burst)
    return _made(tx, wanted, turn_id, session, batch) if batch else None


def _made(tx: Tx, wanted: Claim, turn_id: str, session: StoredSession, batch: Sequence[PendingMessage]) -> Claimed:
    """A turn that answers these. None runs in the session: the index that says so has the last word."""
    role, origin = lowest_role(item.role for item in batch), batch[-1].event.source
    row = _add_turn(tx, wanted, turn_id, session, batch[0].lane, role, origin)
    for item in batch:
        tx.run("take_inbound", turn_pk=row[0], pk=item.pk)
    return _claimed(tx, turn_id, session, row, batch, role)


def _add_turn(
    tx: Tx, wanted: Claim, turn_id: str, session: StoredSession, lane: QueueKind, role: Role, origin: SessionSource
) -> Row:
    row = tx.find(
        "add_turn",
        turn_id=turn_id,
        session_pk=session.pk,
        lane=lane,
        owner=wanted.owner,
        lease=wanted.lease,
        person=session.entry.owner,
        platform=session.entry.platform,
        role=role,
        origin=json_text(origin),
        at=wanted.at,
    )
    assert row is not None  # noqa: S101 - what is added is returned
    return row


def _claimed(
    tx: Tx, turn_id: str, session: StoredSession, row: Row, batch: Sequence[PendingMessage], role: Role
) -> Claimed:
    """The turn that was added as that row, for its first run."""
    lane = batch[0].lane
    return Claimed(
        held=Held(row[0], turn_id, 1),
        attempts=1,
        session=session.entry,
        session_pk=session.pk,
        lane=lane,
        taken=tuple(batch),
        role=role,
        origin=batch[-1].event.source,
        context=row[1],
        speakers=records.speakers_of(tx, session),
        history=_short_history(tx, session) if lane == "talk" else None,
    )


def _before(tx: Tx, turn_pk: int) -> _Before:
    rows = tx.rows("journal_of", turn_pk=turn_pk)
    return {
        "journal": tuple(str(event) for _, event in rows),
        "journalled": rows[-1][0] if rows else 0,
        "asked": approvals.count(tx, turn_pk),
    }


def _short_history(tx: Tx, session: StoredSession) -> Sequence[Message] | None:
    """A short history is read along: it costs less than to come again for it. A long one must not keep other writers waiting."""
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


def set_replay(tx: Tx, held: Held, replay: Replay) -> None:
    """Notes whether the turn may run again, before it does anything."""
    require_changed(tx.run("set_replay", turn_pk=held.turn_pk, fence=held.fence, replay=replay))


def ensure_context(tx: Tx, session_pk: int, block: str) -> str:
    """The session's context block: the one that is stored, else this one, from now on."""
    tx.run("keep_context", session_pk=session_pk, block=block)
    row = tx.find("find_context", session_pk=session_pk)
    return block if row is None else str(row[0])


def take_pending(tx: Tx, held: Held, session_id: str, role: Role) -> list[PendingMessage]:
    """Takes what was said since the turn began into it. Not behind a command, nor words that count less than the turn does."""
    session_pk = _locked(tx, session_id)
    require_changed(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0))
    taken: list[PendingMessage] = []
    for item in [] if session_pk is None else inbox.waiting_of(tx, session_pk):
        if item.lane != "talk" or not allows(item.role, role):
            break
        tx.run("take_inbound", turn_pk=held.turn_pk, pk=item.pk)
        taken.append(item)
    return taken


def append_journal(tx: Tx, held: Held, place: int, events: Sequence[str], *, called_tool: bool = False) -> None:
    """Keeps what the turn said and did, from `place` on. `LeaseLost` where the turn is another's now."""
    require_changed(tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=int(called_tool)))
    for offset, event in enumerate(events):
        tx.run("add_journal", turn_pk=held.turn_pk, place=place + offset, event=event)


def enqueue_progress(tx: Tx, at: Instant, held: Held, notice: outbox.NewDelivery) -> bool:
    """Stores what is said while the turn runs; False, and nothing is stored, once it runs no more or is another's.

    The turn's row is held meanwhile: its end waits, and the answer stands behind what is said here.
    """
    if not tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0):
        return False
    outbox.enqueue(tx, at, replace(notice, target=id_changes.current_target(tx, at, notice.target)))
    return True


def suggest_title(tx: Tx, at: Instant, held: Held, session_id: str, title: str) -> None:
    """Names the session of a turn, unless it has a name. `LeaseLost` where the turn is another's now."""
    is_there = _locked(tx, session_id) is not None
    require(tx, held)
    if is_there and records.get_entry(tx, session_id).title is None:
        records.set_title(tx, at, session_id, title)


def clear_journal(tx: Tx, held: Held) -> None:
    """A turn that runs again starts with an empty journal."""
    require(tx, held)
    tx.run("drop_journal", turn_pk=held.turn_pk)


def rerun(tx: Tx, at: Instant, left: Sequence[Claimed], *, first: int) -> None:
    """Turns that were left behind run again from the start, each after its back-off; `first` is the first one.

    All at once: a death between two would leave the second behind as if it had been alone. Those that are another's now are not
    touched.
    """
    for turn in left:
        held, deaths = turn.held, turn.suspected.deaths
        if tx.run("suspect_turn", turn_pk=held.turn_pk, fence=held.fence, deaths=deaths, at=at):
            tx.run("drop_journal", turn_pk=held.turn_pk)
            release(tx, at, held, turn.session_pk, wait=back_off(held.turn_id, deaths, first))


def request_stop(tx: Tx, at: Instant, session_id: str, stop: StopReason) -> bool:
    """Asks the turn that runs in a session to end; False if none does."""
    return inbox.ask_to_stop(tx, at, records.get_session(tx, session_id).pk, stop)


_MAX_UNANSWERED = 200


def people_of_running(tx: Tx, session_id: str) -> list[str | None]:
    """Whose messages the turn that runs in a session answers; empty where none runs."""
    return [person for (person,) in tx.rows("people_of_turn", session_pk=records.get_session(tx, session_id).pk)]


def roles_of_unanswered(tx: Tx, session_id: str) -> list[Role]:
    """The roles of those whose messages a session ends with, unanswered. What did not come through the door counts least."""
    roles: list[Role] = []
    for _, number, role, *_ in reversed(views.last_rows(tx, records.get_session(tx, session_id), _MAX_UNANSWERED)):
        if role != "user":
            break
        heard = _heard(tx, _append_key(tx, number))
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
    def finish(_: Store[Any], wanted: turn_end.Finish) -> Step[None]:
        """Ends a turn."""
        return leaving_work(write(turn_end.finish, wanted))

    @verb
    def release(
        store: Store[Any],
        held: leases.Held,
        session_pk: int,
        *,
        wait: int = 0,
        is_counted: bool = True,
        unused: Sequence[int] = (),
    ) -> Step[None]:
        """Gives a turn back, to be run again, and with it the answers that it has not used.

        `is_counted`: it has cost one of its attempts.
        """
        at = store.now()
        return write(turn_end.release, at, held, session_pk, wait=wait, is_counted=is_counted, unused=unused)

    @verb
    def take_over(store: Store[Any], owner: str, platforms: Sequence[str], lease: int) -> Step[list[turn_end.Claimed]]:
        """Turns on these platforms whose holder is gone."""
        return write(take_over, store.now(), owner, platforms, lease=lease)

    @verb
    def accept_and_claim(
        _: Store[Any], wanted: inbox.Admission, greeting: inbox.Greeting, claim: turn_end.Claim
    ) -> Step[tuple[inbox.Received, list[turn_end.Claimed]]]:
        """Takes an event in, once, and begins its turn where nothing else is to be done there: one commit for both."""
        return leaving_work(write(accept_and_claim, claim, wanted, greeting))
