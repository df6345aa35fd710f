"""Operations on flushes: conversations that have ended, and that their agent is to see once more, for its memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadline.clock import Instant
from threadline.model.message import Message, decode_body
from threadline.model.session import SessionEntry
from threadline.model.view import message_number
from threadline.store.engine.database import Tx
from threadline.store.rows import entry_of

MOST_ATTEMPTS = 3
_MINUTE = 60_000_000
# After the first attempt that failed, and after the second.
_PAUSES = (_MINUTE, 10 * _MINUTE)


class Flush(msgspec.Struct, frozen=True, kw_only=True):
    """A flush that its holder carries out: the messages after `after`, up to and with `upto`, of the session's own log.

    `attempts` counts this one. Where it is more than `MOST_ATTEMPTS`, earlier ones took their gateway with them.
    """

    session: SessionEntry
    session_pk: int
    after: int
    upto: int
    attempts: int
    owner: str

    @property
    def is_spent(self) -> bool:
        """Whether it was tried often enough."""
        return self.attempts > MOST_ATTEMPTS


def queue(tx: Tx, session_pk: int, *, at: Instant) -> None:
    """The agent is to see what was said since the last flush, not before `at`; where nothing was, nothing is queued."""
    tx.run("queue_flush", session_pk=session_pk, at=at)


def claim(
    tx: Tx, platforms: Sequence[str], *, owner: str, lease: int, at: Instant, held: Sequence[Flush] = ()
) -> Flush | None:
    """A flush on these platforms that is due and that nobody carries out, or `None`. It costs one of its attempts.

    What the claimer is still at, `held`, stays with them, also where they could not renew it in time.
    """
    for one in held:
        renew(tx, one, lease=lease, at=at)
    for platform in platforms:
        row = tx.find("due_flush", platform=platform, at=at)
        if row is None:
            continue
        session_pk, upto, attempts = row
        found, flushed = (
            tx.find("find_session_by_pk", session_pk=session_pk),
            tx.find("flushed_seq", session_pk=session_pk),
        )
        if found is None or flushed is None:
            tx.run("drop_flush", session_pk=session_pk)
            continue
        tx.run("take_flush", session_pk=session_pk, owner=owner, lease=lease, at=at)
        return Flush(
            session=entry_of(found),
            session_pk=session_pk,
            after=flushed[0],
            upto=upto,
            attempts=attempts + 1,
            owner=owner,
        )
    return None


def history(tx: Tx, flush: Flush) -> list[Message]:
    """What the flush covers, as far as the session shows it: oldest first, without what it borrows from others."""
    lo, hi = message_number(flush.session_pk, flush.after + 1), message_number(flush.session_pk, flush.upto)
    return [decode_body(body) for (body,) in tx.rows("unflushed_bodies", session_pk=flush.session_pk, lo=lo, hi=hi)]


def renew(tx: Tx, flush: Flush, *, lease: int, at: Instant) -> bool:
    """Keeps a flush with its holder; False where it is another's, or its session is gone."""
    return tx.run("renew_flush", lease=lease, at=at, **_held(flush)) == 1


def finish(tx: Tx, flush: Flush, *, at: Instant) -> bool:
    """The agent has seen it; what was said and ended since is due at once. False, and nothing is noted, where it is another's."""
    if not _end(tx, flush, at=at):
        return False
    tx.run("mark_flushed", seq=flush.upto, session_pk=flush.session_pk)
    return True


def drop(tx: Tx, flush: Flush, *, at: Instant) -> bool:
    """Nobody is to see it. False where it is another's."""
    return _end(tx, flush, at=at)


def failed(tx: Tx, flush: Flush, *, at: Instant) -> bool:
    """It is tried again later, or given up after its last attempt: then True."""
    if flush.attempts >= MOST_ATTEMPTS:
        return _end(tx, flush, at=at)
    due_at = at + _PAUSES[flush.attempts - 1]
    tx.run("put_off_flush", due_at=due_at, used=flush.attempts, **_held(flush))
    return False


def release(tx: Tx, flush: Flush, *, at: Instant) -> None:
    """Gives a flush back that was cut short in good order: it has cost no attempt, and is due at once."""
    tx.run("put_off_flush", due_at=at, used=flush.attempts - 1, **_held(flush))


def _end(tx: Tx, flush: Flush, *, at: Instant) -> bool:
    held = _held(flush)
    if tx.run("end_flush", upto=flush.upto, **held):
        return True
    # The session was resumed, and has ended again: the rest is another flush.
    return tx.run("put_off_flush", due_at=at, used=0, **held) == 1


def _held(flush: Flush) -> dict[str, int | str]:
    return {"session_pk": flush.session_pk, "owner": flush.owner, "attempts": flush.attempts}
