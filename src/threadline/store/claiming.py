"""Operations that give turns to whoever runs them: fresh ones, those that go on, and those whose worker is gone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypedDict

from threadline.clock import Instant
from threadline.model.access import Role, lowest
from threadline.model.message import Message, StoredMessages
from threadline.model.source import SessionSource
from threadline.model.turn import Lane, Waiting, apart_for, back_off, next_batch, part_of, suspicion
from threadline.model.view import message_number
from threadline.store import asks, inbox, reception, speakers
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import StoredSession, json_text, session_of, source_of
from threadline.store.turns import Claim, Claimed, Held, end_deleted, taken_by

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
            inbox.mark_ready(tx, session_pk, at=wanted.at, wait=wait)
            continue
        taken = _again(tx, wanted, session, again) or _fresh(tx, wanted, wanted.turn_ids[len(claimed)], session)
        if taken is None:
            continue
        claimed.append(taken)
        running.add(session)
        if len(claimed) == len(wanted.turn_ids):
            break
    return claimed


def receive(
    tx: Tx, wanted: Claim, admission: inbox.Admission, greeting: reception.Greeting
) -> tuple[reception.Received, list[Claimed]]:
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

    received = reception.receive(tx, admission, greeting, make)
    pk = received.admitted.pk
    if not made:
        return received, claim(tx, wanted)
    if pk is None:
        return received, []
    said = Waiting(pk, admission.lane, admission.event, admission.person, admission.role, admission.at)
    (session, row), *_ = made
    return received, [_claimed(tx, wanted.turn_ids[0], session, row, [said], admission.role)]


def take_over(tx: Tx, owner: str, platforms: Sequence[str], *, lease: int, at: Instant) -> list[Claimed]:
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
            end_deleted(tx, Held(pk, turn_id, fence + 1), at=at)
            continue
        taken.append(
            Claimed(
                held=Held(pk, turn_id, fence + 1),
                attempts=attempts,
                session=session_of(found).entry,
                speakers=speakers.of_session(tx, session_of(found)),
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
        answers=asks.take_answers(tx, pk),
        context=_context(tx, session.pk),
        speakers=speakers.of_session(tx, session),
        stop=stop,
    )


def _fresh(tx: Tx, wanted: Claim, turn_id: str, session: StoredSession) -> Claimed | None:
    batch = next_batch(inbox.waiting_of(tx, session.pk), wanted.when_busy, wanted.burst)
    return _made(tx, wanted, turn_id, session, batch) if batch else None


def _made(tx: Tx, wanted: Claim, turn_id: str, session: StoredSession, batch: Sequence[Waiting]) -> Claimed:
    """A turn that answers these. None runs in the session: the index that says so has the last word."""
    role, origin = lowest(item.role for item in batch), batch[-1].event.source
    row = _add_turn(tx, wanted, turn_id, session, batch[0].lane, role, origin)
    for item in batch:
        tx.run("take_inbound", turn_pk=row[0], pk=item.pk)
    return _claimed(tx, turn_id, session, row, batch, role)


def _add_turn(
    tx: Tx, wanted: Claim, turn_id: str, session: StoredSession, lane: Lane, role: Role, origin: SessionSource
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


def _claimed(tx: Tx, turn_id: str, session: StoredSession, row: Row, batch: Sequence[Waiting], role: Role) -> Claimed:
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
        speakers=speakers.of_session(tx, session),
        history=_short_history(tx, session) if lane == "talk" else None,
    )


def _before(tx: Tx, turn_pk: int) -> _Before:
    rows = tx.rows("journal_of", turn_pk=turn_pk)
    return {
        "journal": tuple(str(event) for _, event in rows),
        "journalled": rows[-1][0] if rows else 0,
        "asked": asks.count(tx, turn_pk),
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
    return StoredMessages([body for (body,) in reversed(rows)]) if rows else None


def _context(tx: Tx, session_pk: int) -> str | None:
    row: Row | None = tx.find("find_context", session_pk=session_pk)
    return None if row is None else str(row[0])
