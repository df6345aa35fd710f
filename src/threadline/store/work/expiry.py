"""Stale sessions end by themselves; flushes show them to their agent once more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant, to_instant
from threadline.model.message import Message, decode_body
from threadline.model.policy import (
    SessionResetPolicy,
    last_boundary,
    next_expiry,
    resolve_zone,
    stale_reason,
    uses_person_timezone,
)
from threadline.model.session import ResetReason, SessionEntry
from threadline.model.view import message_number
from threadline.store import leases
from threadline.store.conversations import records
from threadline.store.engine.database import Perform, Step, Tx, read, task, write
from threadline.store.leases import Lease
from threadline.store.rows import StoredSession, entry_of, session_of
from threadline.store.verbs import Group, IsBusy, Mode, Store, reads, verb, writes_now

SCAN_LIMIT = 100
MAX_EXPIRED = 20
_SECOND = 1_000_000
# Clocks of several machines differ, and a transaction may take its time to commit: nothing appears behind this any more.
_SETTLED = 120 * _SECOND
_AGAIN = 300 * _SECOND
# What is not stale yet is looked at this often, because its policy or its person's time zone may change.
_AT_THE_LATEST = 3600 * _SECOND
_AFTER_CLOCK_WENT_BACK = 3600 * _SECOND
# What should have ended longer ago than this was left over from a time without a policy, or without a gateway.
_LONG_AGO = 24 * 3600 * _SECOND
FLUSH_SPACING = 30 * _SECOND
_BEGINNING = (-(2**62), 0)


class ExpiryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions a step examines, by which policy, and as of which time."""

    platform: str
    chat_type: str
    policy: SessionResetPolicy
    # Where a person's own days count, and they named no zone, this one's do.
    zone: str
    at: Instant
    # How many rows a step looks at, and how many sessions it ends.
    limit: int = SCAN_LIMIT
    max_expired: int = MAX_EXPIRED
    # The sessions whose end others have agreed to; `None`: nobody was asked.
    not_busy: frozenset[int] | None = None

    @property
    def now(self) -> datetime:
        """The time of the step."""
        return from_instant(self.at)


class ExpiryStep(msgspec.Struct, frozen=True):
    """What a step has done, and whether the next step has work at once."""

    scanned: int = 0
    ended: tuple[str, ...] = ()
    has_more: bool = False


def expire_batch(tx: Tx, request: ExpiryRequest) -> ExpiryStep:
    """End stale sessions that are not busy, and queue their flush. Does nothing while another watcher runs a step."""
    upto, row = _settled_before(request), _lock_cursor(tx, request)
    if upto is None or row is None:
        return ExpiryStep()
    key = {"platform": request.platform, "chat_type": request.chat_type}
    place = last = _place(row, request)
    ended: list[str] = []
    looked_at = 0
    for (session_pk,) in tx.rows("due_again", at=request.at, limit=request.limit, **key):
        if len(ended) < request.max_expired:
            looked_at += 1
            ended += _recheck(tx, request, session_pk, place)
    for session_pk, listed_at, is_open in _listed(tx, request, place, upto, request.limit - looked_at):
        if len(ended) < request.max_expired:
            looked_at += 1
            last = (listed_at, session_pk)
            ended += _expire_if_stale(tx, request, session_pk) if is_open else []
    if last != row:
        tx.run("move_cursor", listed_at=last[0], session_pk=last[1], **key)
    return ExpiryStep(looked_at, tuple(ended), looked_at >= request.limit or len(ended) >= request.max_expired)


def find_stale(tx: Tx, request: ExpiryRequest) -> list[tuple[int, str]]:
    """Return the sessions that a step would end now, with their keys, so that `is_busy` can be asked about them."""
    upto = _settled_before(request)
    if upto is None:
        return []
    key = {"platform": request.platform, "chat_type": request.chat_type}
    row = tx.find("find_cursor", **key)
    place = _place(_BEGINNING if row is None else (row[0], row[1]), request)
    found = [pk for (pk,) in tx.rows("due_again", at=request.at, limit=request.limit, **key)]
    found += [pk for pk, _, is_open in _listed(tx, request, place, upto, request.limit) if is_open]
    there = [session_of(row) for pk in found if (row := tx.find("find_session_by_pk", session_pk=pk)) is not None]
    return [(one.pk, one.entry.session_key) for one in there if _stale(tx, request, one) is not None]


def _settled_before(request: ExpiryRequest) -> Instant | None:
    """Return the time before which an inactive session may be stale; it is, unless people have time zones of their own."""
    policy, now = request.policy, request.now
    ends: list[datetime] = []
    if policy.mode in ("idle", "both"):
        ends.append(now - timedelta(minutes=policy.idle_minutes))
    if policy.mode in ("daily", "both"):
        ends.append(now if uses_person_timezone(policy) else last_boundary(now, policy.at_hour, request.zone))
    if not ends:
        return None
    newest = min(max(ends), now - timedelta(minutes=policy.grace_minutes))
    return Instant(min(to_instant(newest), request.at - _SETTLED))


def _lock_cursor(tx: Tx, request: ExpiryRequest) -> tuple[int, int] | None:
    key = {"platform": request.platform, "chat_type": request.chat_type}
    row = tx.find("lock_cursor", **key)
    if row is None:
        tx.run("add_cursor", listed_at=_BEGINNING[0], session_pk=_BEGINNING[1], **key)
        row = tx.find("lock_cursor", **key)
    return None if row is None else (row[0], row[1])


def _place(reached: tuple[int, int], request: ExpiryRequest) -> tuple[int, int]:
    """Return where to go on. After a clock went back, newer sessions stand behind the stored cursor."""
    if reached[0] > request.at - _SETTLED:
        return (request.at - _AFTER_CLOCK_WENT_BACK, 0)
    return reached


def _listed(
    tx: Tx, request: ExpiryRequest, place: tuple[int, int], upto: Instant, limit: int
) -> list[tuple[int, int, bool]]:
    rows = tx.rows(
        "listed_after",
        platform=request.platform,
        chat_type=request.chat_type,
        listed_at=place[0],
        session_pk=place[1],
        upto=upto,
        limit=limit,
    )
    return [(session_pk, listed_at, bool(is_open)) for session_pk, listed_at, is_open in rows]


def _recheck(tx: Tx, request: ExpiryRequest, session_pk: int, place: tuple[int, int]) -> list[str]:
    """Examine a session that an earlier step passed. One that has moved forward since is met again on the way."""
    row = tx.find("find_session_by_pk", session_pk=session_pk)
    session = None if row is None else session_of(row)
    if (
        session is None
        or not session.is_current
        or session.entry.ended_at is not None
        or session.entry.chat_type != request.chat_type
        or (session.listed_at, session_pk) > place
    ):
        tx.run("drop_again", session_pk=session_pk)
        return []
    return _expire_if_stale(tx, request, session_pk)


def _expire_if_stale(tx: Tx, request: ExpiryRequest, session_pk: int) -> list[str]:
    """End a session where it may end, and return its id; else schedule another look."""
    row = tx.find("hold_open", session_pk=session_pk)
    session = None if row is None else session_of(row)
    reason = None if session is None else _stale(tx, request, session)
    if session is None or reason is None or _is_busy(tx, request, session_pk):
        due_at = request.at + _AGAIN if session is None or reason is not None else _due_at(tx, request, session)
        place = {"platform": request.platform, "chat_type": request.chat_type}
        tx.run("look_again", session_pk=session_pk, due_at=due_at, **place)
        return []
    records.end(tx, request.at, session, reason="session_reset")
    records.queue_flush(tx, _flush_at(tx, request, session), session_pk)
    tx.run("mark_expired", address_pk=session.address_pk, reason=reason)
    tx.run("drop_again", session_pk=session_pk)
    return [session.entry.session_id]


def _flush_at(tx: Tx, request: ExpiryRequest, session: StoredSession) -> Instant:
    """Return when the flush is due: at once, but one after the other for sessions that should have ended long ago.

    Whoever lets conversations end for the first time has all the old ones end together, and each flush may cost money. What ends
    in its time meanwhile does not wait for those.
    """
    stale_at = next_expiry(request.policy, active_at=session.entry.active_at, zone=_zone(tx, request, session))
    if stale_at is None or request.at - to_instant(stale_at) < _LONG_AGO:
        return request.at
    row = tx.find("last_flush", platform=request.platform)
    return request.at if row is None or row[0] is None else Instant(max(request.at, row[0] + FLUSH_SPACING))


def _is_busy(tx: Tx, request: ExpiryRequest, session_pk: int) -> bool:
    if request.not_busy is not None and session_pk not in request.not_busy:
        return True
    return tx.find("is_busy", session_pk=session_pk) is not None


def _stale(tx: Tx, request: ExpiryRequest, session: StoredSession) -> ResetReason | None:
    zone = _zone(tx, request, session)
    return stale_reason(request.policy, active_at=session.entry.active_at, now=request.now, zone=zone)


def _due_at(tx: Tx, request: ExpiryRequest, session: StoredSession) -> int:
    stale_at = next_expiry(request.policy, active_at=session.entry.active_at, zone=_zone(tx, request, session))
    latest = request.at + _AT_THE_LATEST
    return latest if stale_at is None else min(latest, to_instant(stale_at))


def _zone(tx: Tx, request: ExpiryRequest, session: StoredSession) -> str:
    owner = session.entry.owner
    if owner is None or not uses_person_timezone(request.policy):
        return request.zone
    return records.timezone_of(tx, owner) or request.zone


MAX_ATTEMPTS = 3
_MINUTE = 60_000_000
# After the first attempt that failed, and after the second.
_PAUSES = (_MINUTE, 10 * _MINUTE)


class Flush(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed flush: the messages of the session's own log after `after_seq`, up to and with `last_seq`.

    `attempts` counts this one. Where it is more than `MAX_ATTEMPTS`, earlier ones took their gateway with them.
    """

    session: SessionEntry
    session_pk: int
    after_seq: int
    last_seq: int
    attempts: int
    lease: Lease

    @property
    def is_exhausted(self) -> bool:
        """Whether it was tried as often as it may be."""
        return self.attempts > MAX_ATTEMPTS


def claim_flush(
    tx: Tx, at: Instant, platforms: Sequence[str], *, owner: str, duration: int, running: Sequence[Lease] = ()
) -> Flush | None:
    """Return a flush on these platforms that is due and that nobody carries out, or None. It costs one of its attempts.

    The flushes that the claimer still runs stay with it, also where it could not renew their leases in time.
    """
    leases.renew(tx, at, running, duration=duration)
    for platform in platforms:
        row = tx.find("due_flush", platform=platform, at=at)
        if row is None:
            continue
        session_pk, upto, attempts, fence = row
        found, flushed = (
            tx.find("find_session_by_pk", session_pk=session_pk),
            tx.find("flushed_seq", session_pk=session_pk),
        )
        if found is None or flushed is None:
            tx.run("drop_flush", session_pk=session_pk)
            continue
        tx.run("take_flush", session_pk=session_pk, owner=owner, duration=duration, at=at)
        return Flush(
            session=entry_of(found),
            session_pk=session_pk,
            after_seq=flushed[0],
            last_seq=upto,
            attempts=attempts + 1,
            lease=Lease("flushes", session_pk, fence + 1),
        )
    return None


def read_flush(tx: Tx, flush: Flush) -> list[Message]:
    """Return the messages of a flush that the session shows, oldest first, without those inherited from other sessions."""
    lo, hi = message_number(flush.session_pk, flush.after_seq + 1), message_number(flush.session_pk, flush.last_seq)
    return [decode_body(body) for (body,) in tx.rows("unflushed_bodies", session_pk=flush.session_pk, lo=lo, hi=hi)]


def finish_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """Note that the agent has seen a flush. Return False, and note nothing, where its lease is lost."""
    if not _end_flush(tx, at, flush):
        return False
    tx.run("mark_flushed", seq=flush.last_seq, session_pk=flush.session_pk)
    return True


def discard_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """Drop a flush that no agent needs. Return False where its lease is lost."""
    return _end_flush(tx, at, flush)


def fail_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """Try a flush again later. Return True where this was its last attempt, and it is given up."""
    if flush.attempts >= MAX_ATTEMPTS:
        return _end_flush(tx, at, flush)
    due_at = at + _PAUSES[flush.attempts - 1]
    tx.run("reschedule_flush", due_at=due_at, attempts=flush.attempts, **flush.lease.proof)
    return False


def release_flush(tx: Tx, at: Instant, flush: Flush) -> None:
    """Give a flush back that was cut short in good order: it has cost no attempt and is due at once."""
    tx.run("reschedule_flush", due_at=at, attempts=flush.attempts - 1, **flush.lease.proof)


def _end_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    if tx.run("end_flush", upto=flush.last_seq, **flush.lease.proof):
        return True
    # The session was resumed, and has ended again: the rest is another flush.
    return tx.run("reschedule_flush", due_at=at, attempts=0, **flush.lease.proof) == 1


class Expiry(Group[Mode]):
    """Sessions that went stale, and the flush of each."""

    claim_flush = writes_now(claim_flush)
    read_flush = reads(read_flush)
    finish_flush = writes_now(finish_flush)
    discard_flush = writes_now(discard_flush)
    fail_flush = writes_now(fail_flush)
    release_flush = writes_now(release_flush)

    @verb
    def expire_batch(store: Store[Any], platform: str, chat_type: str) -> Step[ExpiryStep]:
        """End some stale sessions of a platform and chat type; nothing without a reset policy."""
        settings = store.settings
        policy = settings.policies.policy_for(platform, chat_type)
        if policy.mode == "none":
            return read(_nothing_expires)
        request = ExpiryRequest(
            platform=platform,
            chat_type=chat_type,
            policy=policy,
            zone=resolve_zone(policy, installation=settings.zone),
            at=store.now(),
        )
        if settings.is_busy is not None:
            return task(_expire_unless_busy, request, settings.is_busy)
        return write(expire_batch, request)


def _nothing_expires(_: Tx) -> ExpiryStep:
    return ExpiryStep()


def _expire_unless_busy(perform: Perform, request: ExpiryRequest, is_busy: IsBusy) -> ExpiryStep:
    # The votes are asked outside of any transaction: they may be slow, and may ask the store itself.
    stale = perform(read(find_stale, request))
    agreed = frozenset(session_pk for session_pk, key in stale if not is_busy(key))
    return perform(write(expire_batch, msgspec.structs.replace(request, not_busy=agreed)))
