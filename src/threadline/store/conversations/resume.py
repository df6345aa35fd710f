"""Continue an earlier session, start a new one, continue in a fork, hand over to another chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.errors import NotYours, UnknownSession
from threadline.model.address import SessionAddress
from threadline.model.delivery import target_of
from threadline.model.ownership import Ownership, may_copy_between_owners, may_hand_over, may_resume
from threadline.model.session import SessionEntry
from threadline.store.conversations import records, sessions, transcripts
from threadline.store.conversations.records import AddressRow, NewSession, new_session_at
from threadline.store.engine.database import Step, Tx, write
from threadline.store.rows import StoredSession, json_text, session_of
from threadline.store.verbs import Group, Mode, Store, reads, verb
from threadline.store.work import inbox, outbox
from threadline.store.work.inbox import _MAX_GREETING_DELAY


def switch(
    tx: Tx, at: Instant, key: str, session_id: str, *, new_id: str, owners: str | None = None
) -> SessionEntry | None:
    """Continue an earlier session at the address, reopened; a session that is current at another address is forked instead.

    The address's own session, if it has expired, continues as if it had not. `owners`: an owner asks, and this person is an owner
    too: a session of theirs is forked, and nothing changes at its place. `None` for an unknown key.
    """
    address = records.find_address(tx, key)
    if address is None:
        return None
    earlier = records.get_session(tx, session_id, lock=True)
    if earlier.pk == address.session_pk:
        return earlier.entry if earlier.entry.ended_at is None else reopen(tx, at, address, earlier)
    is_dm = address.chat_type == "dm"
    is_theirs = may_resume(address.ownership, is_dm=is_dm, wanted=earlier.ownership)
    if not is_theirs and not may_copy_between_owners(is_dm=is_dm, wanted=earlier.ownership, owners=owners):
        raise NotYours
    current = None if address.session_pk is None else records.session_by_pk(tx, address.session_pk)
    if current is None and not is_theirs:
        raise UnknownSession("there is no session here any more that could be replaced by a copy; nothing was changed")
    # A session that continues at an address gets that address's origin: replies must not reach its former chat.
    place = earlier.entry if current is None else current.entry
    if current is not None:
        records.end(tx, at, current, reason="session_switch")
    new = new_session_at(place, earlier.entry, new_id=new_id, at=at)
    if earlier.is_current or not is_theirs:
        return sessions.fork_at(tx, address, earlier, new)
    apply_place_settings(tx, earlier, new)
    return reopen(tx, at, address, earlier)


def apply_place_settings(tx: Tx, session: StoredSession, new: NewSession) -> None:
    """Give a reopened session the origin, folder and runtime of its new place."""
    tx.run("set_origin", origin=json_text(new.origin), session_pk=session.pk)
    if new.runtime:
        tx.run("set_runtime", model=session.entry.model, runtime=new.runtime, session_pk=session.pk)
    if new.cwd is not None:
        tx.run("set_cwd", cwd=new.cwd, session_pk=session.pk)
    # It may continue in another chat than its prompt context names.
    tx.run("drop_context", session_pk=session.pk)


def reopen(tx: Tx, at: Instant, address: AddressRow, session: StoredSession) -> SessionEntry:
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
    return records.get_entry(tx, session.entry.session_id)


def start_new(tx: Tx, at: Instant, session_id: str, *, new_id: str) -> SessionEntry:
    """`/new`: begin a session for the conversation, and move the pending messages of this one to it."""
    session = records.get_session(tx, session_id)
    fresh = sessions.reset(tx, at, session.entry.session_key, new_id=new_id, flush=True)
    if fresh is None:
        raise records.unknown_session_error(session_id)
    return _move_pending(tx, at, session.pk, fresh)


def resume(
    tx: Tx, at: Instant, session_id: str, earlier_id: str, *, new_id: str, owners: str | None = None
) -> SessionEntry:
    """`/resume`: continue an earlier session, and move the pending messages of this one to it.

    `UnknownSession` and `NotYours` are raised before anything is changed.
    """
    session = records.get_session(tx, session_id)
    earlier = switch(tx, at, session.entry.session_key, earlier_id, new_id=new_id, owners=owners)
    if earlier is None:
        raise records.unknown_session_error(session_id)
    return _move_pending(tx, at, session.pk, earlier)


def continue_in_fork(tx: Tx, at: Instant, session_id: str, *, new_id: str) -> SessionEntry:
    """`/fork`: continue in a copy of the session, and move its pending messages to it."""
    session = records.get_session(tx, session_id)
    copy = transcripts.fork(tx, at, session_id, new_id=new_id, key=session.entry.session_key)
    return _move_pending(tx, at, session.pk, copy)


def previous_session(tx: Tx, session_id: str) -> str | None:
    """Return the session that was current at the same address before this one; sessions without messages don't count.

    Where this one has expired, and no session took its place yet, return this one.
    """
    session = records.get_session(tx, session_id)
    if session.is_current and session.entry.ended_at is not None and session.had_activity:
        return session_id
    row = tx.find("session_before", address_pk=session.address_pk, session_pk=session.pk)
    return None if row is None else str(row[0])


def _move_pending(tx: Tx, at: Instant, from_pk: int, following: SessionEntry) -> SessionEntry:
    """Move pending messages to the new session, in the same transaction: a gateway may die before the command has ended."""
    new_pk = records.get_session(tx, following.session_id).pk
    if new_pk != from_pk:
        tx.run("move_waiting", session_pk=from_pk, new_pk=new_pk)
        pending = tx.find("count_waiting", session_pk=new_pk)
        if pending is not None and pending[0]:
            # The end of the command's own turn starts the next turn at once; this is for the case that it never comes.
            inbox.mark_ready(tx, at, new_pk, wait=_MAX_GREETING_DELAY)
    return following


# busy  a message waits or a turn runs there
# gone  there is no conversation any more
# here  it is the same conversation
HandoffRefusal: TypeAlias = Literal["busy", "gone", "here"]


class HandoffPlace(msgspec.Struct, frozen=True):
    """A conversation that a session can be handed over to: its current session, and its owner."""

    session: SessionEntry
    ownership: Ownership

    @property
    def is_dm(self) -> bool:
        """Whether it is a direct chat."""
        return self.session.chat_type == "dm"


class HandoffRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The session to hand over, the key of the conversation that gets it, and the notice for its chat."""

    session_id: str
    to: str
    is_owners: bool
    text: str
    new_id: str
    at: Instant


def find_conversation(tx: Tx, addresses: Sequence[SessionAddress]) -> HandoffPlace | None:
    """Return the conversation at the first of these addresses that has one. Locks nothing."""
    for address in addresses:
        row = tx.find("peek_current", digest=address.digest)
        if row is not None:
            session = session_of(row)
            return HandoffPlace(session.entry, session.ownership)
    return None


def hand_over(tx: Tx, request: HandoffRequest) -> SessionEntry | HandoffRefusal:
    """Continue a copy of the session at the other address, end the session there, and enqueue the notice; all or nothing.

    Raise `NotYours` where it may not go on there. A turn that runs there is never cut short: `busy`.
    """
    address = records.find_address(tx, request.to)
    if address is None or address.session_pk is None:
        return "gone"
    session = records.get_session(tx, request.session_id, lock=True)
    if session.pk == address.session_pk:
        return "here"
    is_dm = address.chat_type == "dm"
    if not may_hand_over(session.ownership, address.ownership, is_dm=is_dm, is_owners=request.is_owners):
        raise NotYours
    if tx.find("is_busy", session_pk=address.session_pk) is not None:
        return "busy"
    before = records.session_by_pk(tx, address.session_pk)
    records.end(tx, request.at, before, reason="session_switch")
    place = before.entry
    new = records.new_session_at(place, session.entry, new_id=request.new_id, at=request.at)
    following = sessions.fork_at(tx, address, session, new)
    notice = outbox.NewDelivery(
        delivery_id=f"handoff.{request.new_id}",
        target=target_of(place.origin),
        text=request.text,
        person=address.owner,
    )
    outbox.enqueue(tx, request.at, notice)
    return following


class Resume(Group[Mode]):
    """Ways to continue a conversation in another session: an earlier one, a new one, a copy."""

    find_conversation = reads(find_conversation)
    previous_session = reads(previous_session)

    @verb
    def hand_over(
        store: Store[Any], session_id: str, to: str, text: str, *, is_owners: bool
    ) -> Step[SessionEntry | HandoffRefusal]:
        """Continue a copy of the session as the conversation `to`, and tell its chat `text`; or return the reason for a refusal.

        `is_owners`: see `may_hand_over`. `NotYours` and `UnknownSession` are raised before anything is changed.
        """
        at, new_id = store.now_with_id()
        request = HandoffRequest(
            session_id=session_id,
            to=to,
            is_owners=is_owners,
            text=text,
            new_id=new_id,
            at=at,
        )
        return write(hand_over, request)

    @verb
    def switch(store: Store[Any], key: str, session_id: str) -> Step[SessionEntry | None]:
        """Continue an earlier session in the conversation; it counts as active now. `None`: unknown key.

        Raises `UnknownSession`, or `NotYours` for a session that this conversation may not see; then nothing changed.
        A session that is current in another conversation is forked.
        """
        at, new_id = store.now_with_id()
        return write(switch, at, key, session_id, new_id=new_id)

    @verb
    def start_new(store: Store[Any], session_id: str) -> Step[SessionEntry]:
        """Begin a session for the conversation, and move its pending messages there."""
        at, new_id = store.now_with_id()
        return write(start_new, at, session_id, new_id=new_id)

    @verb
    def resume(store: Store[Any], session_id: str, earlier_id: str, *, owners: str | None = None) -> Step[SessionEntry]:
        """Continue an earlier session, and move the pending messages of this one there.

        Raises `UnknownSession` or `NotYours` before anything is changed. `owners`: an owner asks, and this person is an owner too:
        a copy of a session of theirs is continued.
        """
        at, new_id = store.now_with_id()
        return write(resume, at, session_id, earlier_id, owners=owners, new_id=new_id)

    @verb
    def continue_in_fork(store: Store[Any], session_id: str) -> Step[SessionEntry]:
        """Continue in a copy of the session, and move its pending messages there."""
        at, new_id = store.now_with_id()
        return write(continue_in_fork, at, session_id, new_id=new_id)
