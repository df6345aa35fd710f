"""Operations on ids that a platform has given up for others: whoever asks for one finds what is known under the other.

An id that was given up may be given to somebody else later. So it leads to its former holder for a day, for what was still on its
way; after that it is nobody's, or another's. Ids are followed in one direction, in the order in which they were given: two who had
the same id one after the other are not one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.address import SessionAddress
from threadline.model.delivery import Target
from threadline.model.ownership import Ownership, ownership_of
from threadline.model.source import SessionSource
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import json_text

What: TypeAlias = Literal["chat", "user"]
# The moves from and to an id: the old one, the new one, and when.
_MovesOf: TypeAlias = Callable[[str], Sequence[Row]]

# How long, in microseconds, something may be on its way under an id that was given up.
LATE_WITHIN = 24 * 3600 * 1_000_000
# An id changes once or twice in its life. Whoever makes up more is not followed further.
_IDS_AT_MOST = 16
_ALWAYS = Instant(1 << 62)


class Elsewhere(msgspec.Struct, frozen=True):
    """A conversation that is still kept under an id which its chat or sender had before."""

    address: SessionAddress
    address_pk: int
    session_pk: int


class Late(msgspec.Struct, frozen=True):
    """What was asked for is an id that was given up just now: its conversation is that of the new one, begun or not."""

    source: SessionSource
    address: SessionAddress


class _Ids(msgspec.Struct, frozen=True):
    """The ids that one chat or person has or had, where their conversation may be, and the one that they have now.

    `is_late`: the one that was asked for was given up just now.
    """

    ids: tuple[str | None, ...]
    now: str | None
    is_late: bool = False


def find_elsewhere(tx: Tx, source: SessionSource, address: SessionAddress, *, at: Instant) -> Elsewhere | Late | None:
    """The conversation of an address that has none, under an id that its chat or sender had before, or has now; locked."""
    if tx.find("has_moves", platform=address.platform, account=address.account) is None:
        # By far most often: no further question is asked for a new conversation.
        return None
    chats, senders = _ids(tx, address, "chat", address.chat, at), _ids(tx, address, "user", address.sender, at)
    is_late = chats.is_late or senders.is_late
    for chat, sender in product(chats.ids, senders.ids):
        other = msgspec.structs.replace(address, chat=chat, sender=sender)
        row = None if other == address else tx.find("find_address", digest=other.digest)
        if row is None or row[5] is None:
            continue
        if is_late:
            return Late(_renamed(tx, source, other, at), other)
        if Ownership(row[3], row[4]) in _ownerships(source, address):
            return Elsewhere(other, row[0], row[5])
    if not is_late:
        return None
    other = msgspec.structs.replace(address, chat=chats.now, sender=senders.now)
    return Late(_renamed(tx, source, other, at), other)


def find_former(
    tx: Tx, source: SessionSource, address: SessionAddress, owned: Ownership, *, at: Instant
) -> SessionAddress | None:
    """Where a conversation belongs that is kept at an address whose ids its people gave up more than a day ago."""
    if tx.find("has_moves", platform=address.platform, account=address.account) is None:
        return None
    chats, senders = _holders(tx, address, "chat", address.chat, at), _holders(tx, address, "user", source.sender, at)
    for chat, sender in product(chats, senders):
        other = msgspec.structs.replace(address, chat=chat, sender=sender if address.sender else None)
        # A direct chat is somebody's alone, whatever they are called.
        is_theirs = owned == ownership_of(_named(source, chat, sender), other) or (
            address.chat_type == "dm" and chat != address.chat
        )
        if is_theirs and other != address:
            return other
    return None


def bring(tx: Tx, old_pk: int, session_pk: int | None, address_pk: int) -> None:
    """The sessions of an address go to another. With `session_pk` that one goes on there; the other address has none."""
    tx.run("unpoint_address", address_pk=old_pk)
    tx.run("rehouse_sessions", address_pk=address_pk, old_pk=old_pk)
    if session_pk is not None:
        tx.run("take_address_over", address_pk=address_pk, old_pk=old_pk, session_pk=session_pk)
    tx.run("drop_unused_address", pk=old_pk)


def forward(tx: Tx, target: Target, *, at: Instant) -> Target:
    """Where what is meant for a chat goes now."""
    moves_of = _moves_of(tx, target.platform, target.account, "chat")
    later = _later_if_late(moves_of, target.chat_id, at)
    return msgspec.structs.replace(target, chat_id=later[-1]) if later else target


def forward_stream(tx: Tx, turn_pk: int, *, at: Instant) -> None:
    """What a turn streams is shown in full where its chat is now."""
    for pk, text in tx.rows("open_streams", turn_pk=turn_pk):
        target = forward(tx, msgspec.json.decode(text, type=Target), at=at)
        tx.run("retarget_delivery", pk=pk, target=json_text(target), lane=target.lane)


def other_names(tx: Tx, person: str) -> list[str]:
    """What a person was or is called under the other ids that their platform has given them.

    A name under which somebody has written long after it was given up is that one's alone.
    """

    def moves_of(name: str) -> Sequence[Row]:
        return tx.rows("names_of_moved", name=name)

    def is_anothers(name: str, given_up: Instant) -> bool:
        return tx.find("name_used_after", name=name, at=given_up + LATE_WITHIN) is not None

    given_up = _given_up(moves_of(person), person)
    if given_up is not None and is_anothers(person, given_up):
        given_up = None
    later = [] if given_up is None else _later(moves_of, person, given_up)
    earlier = _earlier(moves_of, person, _ALWAYS if given_up is None else given_up)
    names = [*reversed(later), *(name for name, until in earlier.items() if not is_anothers(name, until))]
    return [name for name in dict.fromkeys(names) if name != person]


def _ids(tx: Tx, address: SessionAddress, what: What, first: str | None, at: Instant) -> _Ids:
    if first is None:
        return _Ids((None,), None)
    moves_of = _moves_of(tx, address.platform, address.account, what)
    later = _later_if_late(moves_of, first, at)
    until = _given_up(moves_of(first), first) if later else None
    ids = dict.fromkeys((first, *reversed(later), *_earlier(moves_of, first, _ALWAYS if until is None else until)))
    return _Ids(tuple(ids), later[-1] if later else first, bool(later))


def _holders(tx: Tx, address: SessionAddress, what: What, first: str | None, at: Instant) -> list[str | None]:
    """The id itself, and what those are called now who gave it up more than a day ago."""
    if first is None:
        return [None]
    moves_of = _moves_of(tx, address.platform, address.account, what)
    times = [when for old, _, when in moves_of(first) if old == first and when < at - LATE_WITHIN]
    return [first, *(_later(moves_of, first, when)[-1] for when in times)]


def _later_if_late(moves_of: _MovesOf, first: str, at: Instant) -> list[str]:
    """The ids since, where this one was given up less than a day ago; empty for any other."""
    given_up = _given_up(moves_of(first), first)
    return [] if given_up is None or given_up < at - LATE_WITHIN else _later(moves_of, first, given_up)


def _given_up(rows: Sequence[Row], first: str) -> Instant | None:
    """When an id was given up last; `None` if it was given to somebody since."""
    given_up: Instant | None = max((at for old, _, at in rows if old == first), default=None)
    got = max((at for _, new, at in rows if new == first), default=0)
    return given_up if given_up is not None and given_up > got else None


def _later(moves_of: _MovesOf, first: str, since: Instant) -> list[str]:
    """The ids that the holder of `first`, who gave it up at `since`, has had since then, the newest last."""
    found: list[str] = []
    one = first
    while len(found) < _IDS_AT_MOST:
        following = min(((at, new) for old, new, at in moves_of(one) if old == one and at >= since), default=None)
        if following is None:
            break
        since, one = following
        found.append(one)
    return found


def _earlier(moves_of: _MovesOf, first: str, until: Instant) -> dict[str, Instant]:
    """The ids that the holder of `first` at `until` had before, the nearest first, each with the time when it was given up."""
    found: dict[str, Instant] = {}
    waiting = [(first, until)]
    while waiting and len(found) < _IDS_AT_MOST:
        one, until = waiting.pop(0)
        rows = moves_of(one)
        # What was before that was somebody else.
        since = max((at for old, _, at in rows if old == one and at < until), default=0)
        steps = [(old, at) for old, new, at in rows if new == one and since <= at <= until and old not in found]
        found.update(steps)
        waiting += steps
    found.pop(first, None)
    return found


def _moves_of(tx: Tx, platform: str, account: str, what: What) -> _MovesOf:
    return lambda one: tx.rows("moves_of", platform=platform, account=account, what=what, id=one)


def _ownerships(source: SessionSource, address: SessionAddress) -> tuple[Ownership, Ownership]:
    """Whose a conversation at the address may be. Who did not say who they are was known by their direct chat."""
    return ownership_of(source, address), ownership_of(_named(source, source.chat_id, None), address)


def _renamed(tx: Tx, source: SessionSource, other: SessionAddress, at: Instant) -> SessionSource:
    """The source as it would be at the other address. In a direct chat that one does not say who speaks."""
    sender = other.sender or _ids(tx, other, "user", source.sender, at).now
    return _named(source, other.chat or source.chat_id, sender)


def _named(source: SessionSource, chat: str | None, sender: str | None) -> SessionSource:
    if chat != source.chat_id:
        source = msgspec.structs.replace(source, chat_id=chat)
    return source if sender == source.sender else msgspec.structs.replace(source, user_id=sender, user_id_alt=None)
