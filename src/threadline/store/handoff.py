"""Operations on handing a conversation over: it goes on at another address, and its people there are told in the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.errors import NotYours
from threadline.model.address import SessionAddress
from threadline.model.delivery import target_of
from threadline.model.handoff import may_hand_over
from threadline.model.ownership import Ownership
from threadline.model.session import SessionEntry
from threadline.store import outbox, sessions, switching
from threadline.store.engine.database import Tx
from threadline.store.rows import StoredSession, session_of

# busy  something waits or runs there
# gone  nothing is held there any more
# here  it is the very conversation
NotHandedOver: TypeAlias = Literal["busy", "gone", "here"]


class Reached(msgspec.Struct, frozen=True):
    """A place where conversations are held: its current session, and whose it is."""

    session: SessionEntry
    ownership: Ownership

    @property
    def is_dm(self) -> bool:
        """Whether it is a direct chat."""
        return self.session.chat_type == "dm"


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """Which session goes on under which key, and what is said there."""

    session_id: str
    to: str
    is_owners: bool
    text: str
    new_id: str
    at: Instant


def find_place(tx: Tx, addresses: Sequence[SessionAddress]) -> Reached | None:
    """The first of these addresses at which there is a conversation. Locks nothing."""
    for address in addresses:
        row = tx.find("peek_current", digest=address.digest)
        if row is not None:
            found = session_of(row)
            return Reached(found.entry, found.ownership)
    return None


def hand_over(tx: Tx, wanted: Handoff) -> SessionEntry | NotHandedOver:
    """A copy of the session goes on at the other address, whose own session ends; both and the notice there, or nothing.

    `NotYours` where it may not go on there. What is at work there is never cut short: `busy`.
    """
    address = sessions.find_address(tx, wanted.to)
    if address is None or address.session_pk is None:
        return "gone"
    session = sessions.get_session(tx, wanted.session_id, lock=True)
    if session.pk == address.session_pk:
        return "here"
    is_dm = address.chat_type == "dm"
    if not may_hand_over(session.ownership, address.ownership, is_dm=is_dm, is_owners=wanted.is_owners):
        raise NotYours
    if tx.find("is_busy", session_pk=address.session_pk) is not None:
        return "busy"
    before = _held(tx, address.session_pk)
    sessions.end(tx, before, reason="session_switch", at=wanted.at)
    there = before.entry
    how = switching.beginning_at(there, session.entry, new_id=wanted.new_id, at=wanted.at)
    following = sessions.fork_at(tx, address, session, how)
    told = outbox.NewDelivery(
        delivery_id=f"handoff.{wanted.new_id}",
        target=target_of(there.origin),
        text=wanted.text,
        person=address.owner,
    )
    outbox.enqueue(tx, told, at=wanted.at)
    return following


def _held(tx: Tx, session_pk: int) -> StoredSession:
    row = tx.find("find_session_by_pk", session_pk=session_pk)
    assert row is not None, "the session that a locked address points at is there"  # noqa: S101
    return session_of(row)
