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
    """Which sessions are looked at, by which policy, and as of when."""

    platform: str
    chat_type: str
    policy: SessionResetPolicy
    # Where a person's own days count, and they named no zone, this one's do.
    zone: str
    at: Instant
    # How many rows a step looks at, and how many sessions it ends.
    limit: int = SCAN_LIMIT
    most: int = MAX_EXPIRED
    # The sessions whose end others have agreed to; `None`: nobody was asked.
    agreed: frozenset[int] | None = None

    @property
    def now(self) -> datetime:
        """When it is."""
        return from_instant(self.at)


class ExpiryStep(msgspec.Struct, frozen=True):
    """What a step has done, and whether the next one has something to do at once."""

    looked_at: int = 0
    ended: tuple[str, ...] = ()
    is_more: bool = False


def expire_batch(tx: Tx, wanted: ExpiryRequest) -> ExpiryStep:
    """Ends stale sessions that are not busy, and queues their flush. Does nothing while another watcher is at it."""
    upto, row = _settled_before(wanted), _lock_cursor(tx, wanted)
    if upto is None or row is None:
        return ExpiryStep()
    key = {"platform": wanted.platform, "chat_type": wanted.chat_type}
    place = last = _place(row, wanted)
    ended: list[str] = []
    looked_at = 0
    for (session_pk,) in tx.rows("due_again", at=wanted.at, limit=wanted.limit, **key):
        if len(ended) < wanted.most:
            looked_at += 1
            ended += _recheck(tx, wanted, session_pk, place)
    for session_pk, listed_at, is_open in _listed(tx, wanted, place, upto, wanted.limit - looked_at):
        if len(ended) < wanted.most:
            looked_at += 1
            last = (listed_at, session_pk)
            ended += _expire_if_stale(tx, wanted, session_pk) if is_open else []
    if last != row:
        tx.run("move_cursor", listed_at=last[0], session_pk=last[1], **key)
    return ExpiryStep(looked_at, tuple(ended), looked_at >= wanted.limit or len(ended) >= wanted.most)


def find_stale(tx: Tx, wanted: ExpiryRequest) -> list[tuple[int, str]]:
    """The sessions that a step would end now, with their keys: for those who have a say in whether they are busy."""
    upto = _settled_before(wanted)
    if upto is None:
        return []
    key = {"platform": wanted.platform, "chat_type": wanted.chat_type}
    row = tx.find("find_cursor", **key)
    place = _place(_BEGINNING if row is None else (row[0], row[1]), wanted)
    found = [pk for (pk,) in tx.rows("due_again", at=wanted.at, limit=wanted.limit, **key)]
    found += [pk for pk, _, is_open in _listed(tx, wanted, place, upto, wanted.limit) if is_open]
    there = [session_of(row) for pk in found if (row := tx.find("find_session_by_pk", session_pk=pk)) is not None]
    return [(one.pk, one.entry.session_key) for one in there if _stale(tx, wanted, one) is not None]


def _settled_before(wanted: ExpiryRequest) -> Instant | None:
    """The instant before which a session that was last active may be stale, and is where nobody has days of their own."""
    policy, now = wanted.policy, wanted.now
    ends: list[datetime] = []
    if policy.mode in ("idle", "both"):
        ends.append(now - timedelta(minutes=policy.idle_minutes))
    if policy.mode in ("daily", "both"):
        ends.append(now if uses_person_timezone(policy) else last_boundary(now, policy.at_hour, wanted.zone))
    if not ends:
        return None
    newest = min(max(ends), now - timedelta(minutes=policy.grace_minutes))
    return Instant(min(to_instant(newest), wanted.at - _SETTLED))


def _lock_cursor(tx: Tx, wanted: ExpiryRequest) -> tuple[int, int] | None:
    key = {"platform": wanted.platform, "chat_type": wanted.chat_type}
    row = tx.find("lock_cursor", **key)
    if row is None:
        tx.run("add_cursor", listed_at=_BEGINNING[0], session_pk=_BEGINNING[1], **key)
        row = tx.find("lock_cursor", **key)
    return None if row is None else (row[0], row[1])


def _place(reached: tuple[int, int], wanted: ExpiryRequest) -> tuple[int, int]:
    """Where to go on. A clock that went back has put what came since behind the place that was reached."""
    if reached[0] > wanted.at - _SETTLED:
        return (wanted.at - _AFTER_CLOCK_WENT_BACK, 0)
    return reached


def _listed(
    tx: Tx, wanted: ExpiryRequest, place: tuple[int, int], upto: Instant, limit: int
) -> list[tuple[int, int, bool]]:
    rows = tx.rows(
        "listed_after",
        platform=wanted.platform,
        chat_type=wanted.chat_type,
        listed_at=place[0],
        session_pk=place[1],
        upto=upto,
        limit=limit,
    )
    return [(session_pk, listed_at, bool(is_open)) for session_pk, listed_at, is_open in rows]


def _recheck(tx: Tx, wanted: ExpiryRequest, session_pk: int, place: tuple[int, int]) -> list[str]:
    """Looks at a session that was passed before. One that has moved forward since is met again on the way."""
    row = tx.find("find_session_by_pk", session_pk=session_pk)
    session = None if row is None else session_of(row)
    if (
        session is None
        or not session.is_current
        or session.entry.ended_at is not None
        or session.entry.chat_type != wanted.chat_type
        or (session.listed_at, session_pk) > place
    ):
        tx.run("drop_again", session_pk=session_pk)
        return []
    return _expire_if_stale(tx, wanted, session_pk)


def _expire_if_stale(tx: Tx, wanted: ExpiryRequest, session_pk: int) -> list[str]:
    """Ends the session where it may end, and tells its id; else it is looked at again."""
    row = tx.find("hold_open", session_pk=session_pk)
    session = None if row is None else session_of(row)
    reason = None if session is None else _stale(tx, wanted, session)
    if session is None or reason is None or _is_busy(tx, wanted, session_pk):
        due_at = wanted.at + _AGAIN if session is None or reason is not None else _due_at(tx, wanted, session)
        place = {"platform": wanted.platform, "chat_type": wanted.chat_type}
        tx.run("look_again", session_pk=session_pk, due_at=due_at, **place)
        return []
    records.end(tx, wanted.at, session, reason="session_reset")
    records.queue_flush(tx, _flush_at(tx, wanted, session), session_pk)
    tx.run("mark_expired", address_pk=session.address_pk, reason=reason)
    tx.run("drop_again", session_pk=session_pk)
    return [session.entry.session_id]


def _flush_at(tx: Tx, wanted: ExpiryRequest, session: StoredSession) -> Instant:
    """When the agent is to see it once more: at once, but where it should have ended long ago one after the other.

    Whoever lets conversations end for the first time has all the old ones end together, and each flush may cost money. What ends
    in its time meanwhile does not wait for those.
    """
    stale_at = next_expiry(wanted.policy, active_at=session.entry.active_at, zone=_zone(tx, wanted, session))
    if stale_at is None or wanted.at - to_instant(stale_at) < _LONG_AGO:
        return wanted.at
    row = tx.find("last_flush", platform=wanted.platform)
    return wanted.at if row is None or row[0] is None else Instant(max(wanted.at, row[0] + FLUSH_SPACING))


def _is_busy(tx: Tx, wanted: ExpiryRequest, session_pk: int) -> bool:
    if wanted.agreed is not None and session_pk not in wanted.agreed:
        return True
    return tx.find("is_busy", session_pk=session_pk) is not None


def _stale(tx: Tx, wanted: ExpiryRequest, session: StoredSession) -> ResetReason | None:
    zone = _zone(tx, wanted, session)
    return stale_reason(wanted.policy, active_at=session.entry.active_at, now=wanted.now, zone=zone)


def _due_at(tx: Tx, wanted: ExpiryRequest, session: StoredSession) -> int:
    stale_at = next_expiry(wanted.policy, active_at=session.entry.active_at, zone=_zone(tx, wanted, session))
    latest = wanted.at + _AT_THE_LATEST
    return latest if stale_at is None else min(latest, to_instant(stale_at))


def _zone(tx: Tx, wanted: ExpiryRequest, session: StoredSession) -> str:
    owner = session.entry.owner
    if owner is None or not uses_person_timezone(wanted.policy):
        return wanted.zone
    return records.timezone_of(tx, owner) or wanted.zone


MAX_ATTEMPTS = 3
_MINUTE = 60_000_000
# After the first attempt that failed, and after the second.
_PAUSES = (_MINUTE, 10 * _MINUTE)


class Flush(msgspec.Struct, frozen=True, kw_only=True):
    """A flush that its holder carries out: the messages after `after`, up to and with `upto`, of the session's own log.

    `attempts` counts this one. Where it is more than `MAX_ATTEMPTS`, earlier ones took their gateway with them.
    """

    session: SessionEntry
    session_pk: int
    after: int
    upto: int
    attempts: int
    lease: Lease

    @property
    def is_spent(self) -> bool:
        """Whether it was tried often enough."""
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
            after=flushed[0],
            upto=upto,
            attempts=attempts + 1,
            lease=Lease("flushes", session_pk, fence + 1),
        )
    return None


def read_flush(tx: Tx, flush: Flush) -> list[Message]:
    """What the flush covers, as far as the session shows it: oldest first, without what it borrows from others."""
    lo, hi = message_number(flush.session_pk, flush.after + 1), message_number(flush.session_pk, flush.upto)
    return [decode_body(body) for (body,) in tx.rows("unflushed_bodies", session_pk=flush.session_pk, lo=lo, hi=hi)]


def finish_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """The agent has seen it; what was said and ended since is due at once. False, and nothing is noted, where it is another's."""
    if not _end_flush(tx, at, flush):
        return False
    tx.run("mark_flushed", seq=flush.upto, session_pk=flush.session_pk)
    return True


def discard_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """Nobody is to see it. False where it is another's."""
    return _end_flush(tx, at, flush)


def fail_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    """It is tried again later, or given up after its last attempt: then True."""
    if flush.attempts >= MAX_ATTEMPTS:
        return _end_flush(tx, at, flush)
    due_at = at + _PAUSES[flush.attempts - 1]
    tx.run("reschedule_flush", due_at=due_at, attempts=flush.attempts, **flush.lease.proof)
    return False


def release_flush(tx: Tx, at: Instant, flush: Flush) -> None:
    """Gives a flush back that was cut short in good order: it has cost no attempt, and is due at once."""
    tx.run("reschedule_flush", due_at=at, attempts=flush.attempts - 1, **flush.lease.proof)


def _end_flush(tx: Tx, at: Instant, flush: Flush) -> bool:
    if tx.run("end_flush", upto=flush.upto, **flush.lease.proof):
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
        """A bounded step towards the end of all stale sessions of a platform and chat type; nothing without a policy."""
        settings = store.settings
        policy = settings.policies.policy_for(platform, chat_type)
        if policy.mode == "none":
            return read(_nothing_expires)
        wanted = ExpiryRequest(
            platform=platform,
            chat_type=chat_type,
            policy=policy,
            zone=resolve_zone(policy, installation=settings.zone),
            at=store.now(),
        )
        if settings.is_busy is not None:
            return task(_expire_unless_busy, wanted, settings.is_busy)
        return write(expire_batch, wanted)


def _nothing_expires(_: Tx) -> ExpiryStep:
    return ExpiryStep()


def _expire_unless_busy(perform: Perform, wanted: ExpiryRequest, is_busy: IsBusy) -> ExpiryStep:
    # The votes are asked outside of any transaction: they may be slow, and may ask the store itself.
    stale = perform(read(find_stale, wanted))
    agreed = frozenset(session_pk for session_pk, key in stale if not is_busy(key))
    return perform(write(expire_batch, msgspec.structs.replace(wanted, agreed=agreed)))
