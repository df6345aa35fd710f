"""Whose conversation it is, and who may see it.

A *person* is named by the account they write from: `telegram:7`, `telegram@work:7`. A private session has
that person as its owner; a shared one has none and belongs to its chat.
"""

from __future__ import annotations

import msgspec

from threadline.model.address import SessionAddress, scoped_id
from threadline.model.source import MAIN_ACCOUNT, SessionSource, is_platform_slug

# Marks a person known only by the chat that they write in; no sender id is escaped to this.
_CHAT_STANDS_IN = "%dm:"


class Ownership(msgspec.Struct, frozen=True):
    """Who owns a conversation (`None`: it is shared) and which chat it is held in (`None`: a DM, or unknown)."""

    owner: str | None
    chat: str | None


class Viewer(msgspec.Struct, frozen=True):
    """What one person may see: all that is theirs; with `chat`, what is theirs or shared in that chat."""

    person: str | None
    chat: str | None = None

    def sees(self, session: Ownership) -> bool:
        """Whether a session of that ownership is this viewer's to see."""
        if self.chat is None:
            return session.owner is not None and session.owner == self.person
        if session.chat != self.chat:
            return False
        return session.owner is None or session.owner == self.person


def person_of(source: SessionSource) -> str | None:
    """The person who speaks, or `None` where the platform does not tell and the chat is not theirs alone."""
    if source.sender:
        return scoped_id(source.platform, source.account, source.sender)
    if source.chat_type != "dm":
        return None
    place, _, chat = scoped_id(source.platform, source.account, source.chat_id or "").partition(":")
    return f"{place}:{_CHAT_STANDS_IN}{chat}"


def file_owner_of(source: SessionSource) -> str:
    """In whose name a file is kept that is made for a message: who speaks, or the chat where nobody says who that is."""
    return person_of(source) or person_of(msgspec.structs.replace(source, chat_type="dm")) or ""


def ownership_of(source: SessionSource, address: SessionAddress) -> Ownership:
    """Who owns the conversation at `address`, as `source` opens it."""
    owner = None if address.is_shared else person_of(source)
    if source.chat_type == "dm" or not source.chat_id:
        return Ownership(owner, None)
    return Ownership(owner, scoped_id(source.platform, source.account, source.chat_id))


def viewer_of_source(source: SessionSource) -> Viewer:
    """What the sender of a message may see from where they write: in a group, that group alone."""
    if source.chat_type == "dm":
        return Viewer(person_of(source))
    place = scoped_id(source.platform, source.account, source.chat_id or "")
    return Viewer(person_of(source), place)


def may_resume(here: Ownership, *, is_dm: bool, wanted: Ownership) -> bool:
    """Whether the conversation `here` may go on with the session `wanted`.

    In a DM: any session of the same person. In a group: sessions of that chat alone, and under a shared
    address never a private one.
    """
    if is_dm:
        return here.owner is not None and here.owner == wanted.owner
    return here.chat is not None and here.chat == wanted.chat and here.owner == wanted.owner


def may_copy_between_owners(*, is_dm: bool, wanted: Ownership, owners: str | None) -> bool:
    """Whether a conversation may go on with a copy of a session that somebody else holds: between owners, in a direct chat.

    `owners`: an owner asks, and this is the owner whose session they mean. What nobody owns alone is never copied so.
    """
    return is_dm and owners is not None and wanted.owner == owners


# Ids may hold colons themselves; nobody's hold more than this.
_COLONS_AT_MOST = 8


class ChatPlace(msgspec.Struct, frozen=True):
    """A chat, or a thread in it, as a target may mean it."""

    chat_id: str
    thread_id: str | None = None


class HandoffTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind `/handoff`. No `spots`: the home channel; no `account`: whichever of ours has one."""

    platform: str
    account: str | None
    # In the order in which they are tried: an id may hold the colon that else parts it from its thread.
    spots: tuple[ChatPlace, ...] = ()

    @property
    def account_or_main(self) -> str:
        """The account of ours that a chat is on."""
        return self.account or MAIN_ACCOUNT


def parse_handoff_target(text: str) -> HandoffTarget | None:
    """`platform`, `platform:chat_id` or `platform:chat_id:thread_id`, with `@account` behind the platform; else `None`."""
    place, colon, rest = text.strip().partition(":")
    platform, at, account = place.partition("@")
    if not is_platform_slug(platform) or (at and not account) or (colon and not rest):
        return None
    return HandoffTarget(platform=platform, account=account or None, spots=_spots(rest) if rest else ())


def may_hand_over(conversation: Ownership, to: Ownership, *, is_dm: bool, is_owners: bool) -> bool:
    """Whether a conversation may go on at a place: where it could be resumed, or in a direct chat that is the owner's to use.

    `is_owners`: the owner asks, and the direct chat is one of theirs or a home channel. A private conversation never goes on
    in a group, nor a shared one in a direct chat.
    """
    if may_resume(to, is_dm=is_dm, wanted=conversation):
        return True
    return is_owners and is_dm and conversation.owner is not None


def _spots(rest: str) -> tuple[ChatPlace, ...]:
    parts = rest.split(":")
    found = [ChatPlace(rest)]
    for at in range(len(parts) - 1, max(0, len(parts) - 1 - _COLONS_AT_MOST), -1):
        chat_id, thread_id = ":".join(parts[:at]), ":".join(parts[at:])
        if chat_id and thread_id:
            found.append(ChatPlace(chat_id, thread_id))
    return tuple(found)
