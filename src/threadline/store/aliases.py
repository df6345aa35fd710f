"""Operations on ids that a platform has given up for others: whoever asks for one finds what is known under the other."""

from __future__ import annotations

from itertools import product
from typing import Literal, TypeAlias

import msgspec

from threadline.model.address import SessionAddress
from threadline.model.delivery import Target
from threadline.store.database import Tx
from threadline.store.rows import json_text

What: TypeAlias = Literal["chat", "user"]

# An id changes once or twice in its life. Whoever makes up more is not followed further.
_IDS_AT_MOST = 16


class Elsewhere(msgspec.Struct, frozen=True):
    """A conversation that goes on under another id than the one that was asked for."""

    address: SessionAddress
    address_pk: int
    session_pk: int
    # What was asked for is an id that was given up: the conversation stays where it is.
    is_late: bool


class _Ids(msgspec.Struct, frozen=True):
    """All ids that one chat or one person has or had, the one that was asked for first; and whether that one was given up."""

    ids: tuple[str | None, ...]
    is_given_up: bool = False


def find_elsewhere(tx: Tx, address: SessionAddress) -> Elsewhere | None:
    """The conversation of an address that has none, under an id that its chat or sender had before, or has now; locked."""
    if tx.find("has_moves", platform=address.platform, account=address.account) is None:
        # By far most often: no further question is asked for a new conversation.
        return None
    chats, senders = _ids(tx, address, "chat", address.chat), _ids(tx, address, "user", address.sender)
    for chat, sender in product(chats.ids, senders.ids):
        other = msgspec.structs.replace(address, chat=chat, sender=sender)
        row = None if other == address else tx.find("find_address", digest=other.digest)
        if row is not None and row[5] is not None:
            return Elsewhere(other, row[0], row[5], chats.is_given_up or senders.is_given_up)
    return None


def bring(tx: Tx, found: Elsewhere, address_pk: int) -> None:
    """The conversation goes on at another address, which has none: its earlier sessions go along."""
    tx.run("unpoint_address", address_pk=found.address_pk)
    tx.run("rehouse_sessions", address_pk=address_pk, old_pk=found.address_pk)
    tx.run("take_address_over", address_pk=address_pk, old_pk=found.address_pk, session_pk=found.session_pk)
    tx.run("drop_unused_address", pk=found.address_pk)


def forward(tx: Tx, target: Target) -> Target:
    """Where what is meant for a chat goes now."""
    chat = target.chat_id
    for _ in range(_IDS_AT_MOST):
        rows = tx.rows("moves_of", platform=target.platform, account=target.account, what="chat", id=chat)
        following = next((new_id for old_id, new_id in rows if old_id == chat), None)
        if following is None or following == target.chat_id:
            break
        chat = following
    return target if chat == target.chat_id else msgspec.structs.replace(target, chat_id=chat)


def forward_stream(tx: Tx, turn_pk: int) -> None:
    """What a turn streams is shown in full where its chat is now."""
    for pk, text in tx.rows("open_streams", turn_pk=turn_pk):
        target = forward(tx, msgspec.json.decode(text, type=Target))
        tx.run("retarget_delivery", pk=pk, target=json_text(target), lane=target.lane)


def other_names(tx: Tx, person: str) -> list[str]:
    """What a person was or is called under the other ids that their platform has given them, the nearest first."""
    found: dict[str, None] = {person: None}
    waiting = [person]
    while waiting and len(found) < _IDS_AT_MOST:
        names = [name for row in tx.rows("names_of_moved", name=waiting.pop(0)) for name in row if name not in found]
        found.update(dict.fromkeys(names))
        waiting += names
    return list(found)[1:]


def _ids(tx: Tx, address: SessionAddress, what: What, first: str | None) -> _Ids:
    if first is None:
        return _Ids((None,))
    place = {"platform": address.platform, "account": address.account}
    found: dict[str, None] = {first: None}
    is_given_up = False
    waiting = [first]
    while waiting and len(found) < _IDS_AT_MOST:
        rows = tx.rows("moves_of", what=what, id=waiting.pop(0), **place)
        is_given_up = is_given_up or any(old_id == first for old_id, _ in rows)
        others = [one for row in rows for one in row if one not in found]
        found.update(dict.fromkeys(others))
        waiting += others
    return _Ids(tuple(found), is_given_up)
