"""Operations that give turns to whoever runs them: fresh ones, those that go on, and those whose worker is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from threadline.clock import Instant
from threadline.model.access import lowest
from threadline.model.turn import next_batch
from threadline.store import asks, inbox, speakers
from threadline.store.database import Row, Tx
from threadline.store.rows import StoredSession, json_text, session_of, source_of
from threadline.store.turns import Claim, Claimed, Held, end_deleted, taken_by

_LOOKED_AT = 16
_RECOVERED = 20


class _Before(TypedDict):
    """What a turn did before it was claimed again."""

    journal: tuple[str, ...]
    journalled: int
    asked: int


def claim(tx: Tx, wanted: Claim) -> list[Claimed]:
    """Turns for sessions that have something to do. Their messages are taken by them from then on."""
    ready = _ready(tx, wanted)
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


def _running(tx: Tx) -> tuple[Counter[str], Counter[str]]:
    people: Counter[str] = Counter()
    platforms: Counter[str] = Counter()
    for person, platform, count in tx.rows("live_counts"):
        people[person] += count
        platforms[platform] += count
    return people, platforms


def _before(tx: Tx, turn_pk: int) -> _Before:
    rows = tx.rows("journal_of", turn_pk=turn_pk)
    return {
        "journal": tuple(str(event) for _, event in rows),
        "journalled": rows[-1][0] if rows else 0,
        "asked": asks.count(tx, turn_pk),
    }


def _context(tx: Tx, session_pk: int) -> str | None:
    row: Row | None = tx.find("find_context", session_pk=session_pk)
    return None if row is None else str(row[0])
