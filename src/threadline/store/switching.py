"""Operations on which session an address goes on with: an earlier one, or a copy of one that is held elsewhere."""

from __future__ import annotations

from msgspec.structs import replace

from threadline.clock import Instant
from threadline.errors import NotYours, UnknownSession
from threadline.model.editors import ACP, runtime_at
from threadline.model.ownership import may_resume, may_take
from threadline.model.session import SessionEntry
from threadline.store import sessions
from threadline.store.engine.database import Tx
from threadline.store.rows import StoredSession, json_text, session_of
from threadline.store.sessions import AddressRow, Beginning


def switch(
    tx: Tx, key: str, session_id: str, *, new_id: str, at: Instant, owners: str | None = None
) -> SessionEntry | None:
    """The address goes on with an earlier session, reopened; one that another address holds is forked instead.

    Its own session, where that has expired, goes on as if it had not. `owners`: an owner asks, and this person is one as well: a
    session of theirs is forked, and nothing changes where it is held. `None` for an unknown key.
    """
    address = sessions.find_address(tx, key)
    if address is None:
        return None
    wanted = sessions.get_session(tx, session_id, lock=True)
    if wanted.pk == address.session_pk:
        return wanted.entry if wanted.entry.ended_at is None else reopen(tx, address, wanted, at=at)
    is_dm = address.chat_type == "dm"
    is_theirs = may_resume(address.ownership, is_dm=is_dm, wanted=wanted.ownership)
    if not is_theirs and not may_take(is_dm=is_dm, wanted=wanted.ownership, owners=owners):
        raise NotYours
    here = None if address.session_pk is None else _held(tx, address.session_pk)
    if here is None and not is_theirs:
        raise UnknownSession("nothing is held here any more that could go on with it; nothing was changed")
    # What goes on at an address has that address's origin: what is told there must not reach where it was before.
    place = wanted.entry if here is None else here.entry
    if here is not None:
        sessions.end(tx, here, reason="session_switch", at=at)
    how = beginning_at(place, wanted.entry, new_id=new_id, at=at)
    if wanted.is_current or not is_theirs:
        return sessions.fork_at(tx, address, wanted, how)
    bring(tx, wanted, how)
    return reopen(tx, address, wanted, at=at)


def beginning_at(place: SessionEntry, coming: SessionEntry, *, new_id: str, at: Instant) -> Beginning:
    """How a copy of `coming` begins where `place` was held until now: with what stays with the place."""
    how = Beginning(new_id, place.origin, at, display_name=place.display_name)
    if place.platform != ACP:
        return how
    return replace(how, cwd=place.cwd, runtime=json_text(runtime_at(place.runtime, coming.runtime)))


def bring(tx: Tx, session: StoredSession, how: Beginning) -> None:
    """Give a session that is reopened what stays with the place."""
    tx.run("set_origin", origin=json_text(how.origin), session_pk=session.pk)
    if how.runtime:
        tx.run("set_runtime", model=session.entry.model, runtime=how.runtime, session_pk=session.pk)
    if how.cwd is not None:
        tx.run("set_cwd", cwd=how.cwd, session_pk=session.pk)
    # It may go on in another chat than the one that its agent was told of.
    tx.run("drop_context", session_pk=session.pk)


def reopen(tx: Tx, address: AddressRow, session: StoredSession, *, at: Instant) -> SessionEntry:
    """Make a session the current one of an address, open and active now, and return its entry."""
    tx.run(
        "reopen_session",
        address_pk=address.pk,
        chat_type=address.chat_type,
        chat=address.chat,
        session_pk=session.pk,
    )
    tx.run("reopen_state", at=at, session_pk=session.pk)
    tx.run("point_address", address_pk=address.pk, session_pk=session.pk)
    tx.run("drop_waiting_flush", session_pk=session.pk)
    return sessions.get_entry(tx, session.entry.session_id)


def _held(tx: Tx, session_pk: int) -> StoredSession:
    row = tx.find("find_session_by_pk", session_pk=session_pk)
    assert row is not None, "the session that a locked address points at is there"  # noqa: S101
    return session_of(row)
