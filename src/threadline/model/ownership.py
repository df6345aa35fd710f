"""Who owns a conversation, and who may see it, resume it or hand it over to another chat.

A *person* is named by the account they write from: `telegram:7`, `telegram@work:7`. A private session has
that person as its owner. A shared one has no owner and belongs to its chat.
"""

from __future__ import annotations

import msgspec

from threadline.model.address import SessionAddress, qualified_id
from threadline.model.source import MAIN_ACCOUNT, SessionSource, is_platform_slug

# Marks a person who is known only by their direct chat. No escaped sender id can equal it.
_CHAT_STANDS_IN = "%dm:"
# Ids may contain colons, but no platform's ids contain more than this.
_MAX_COLONS = 8


class Ownership(msgspec.Struct, frozen=True):
    """The owner of a conversation (`None`: shared) and its chat (`None`: a DM, or unknown)."""

    owner: str | None
    chat: str | None


class Viewer(msgspec.Struct, frozen=True):
    """What one person may see: all their own sessions; with `chat`, their own and the shared ones of that chat."""

    person: str | None
    chat: str | None = None

    def sees(self, session: Ownership) -> bool:
        """Return whether this viewer may see a session of that ownership."""
        if self.chat is None:
            return session.owner is not None and session.owner == self.person
        if session.chat != self.chat:
            return False
        return session.owner is None or session.owner == self.person


def person_of(source: SessionSource) -> str | None:
    """Return the person who writes. None if the platform does not say, outside of direct chats."""
    if source.sender:
        return qualified_id(source.platform, source.account, source.sender)
    if source.chat_type != "dm":
        return None
    place, _, chat = qualified_id(source.platform, source.account, source.chat_id or "").partition(":")
    return f"{place}:{_CHAT_STANDS_IN}{chat}"


def file_owner_of(source: SessionSource) -> str:
    """Return who owns a file created for a message: the person who wrote it or, if unknown, the chat."""
    return person_of(source) or person_of(msgspec.structs.replace(source, chat_type="dm")) or ""


def ownership_of(source: SessionSource, address: SessionAddress) -> Ownership:
    """Return the ownership of the conversation at `address` that a message from `source` opens."""
    owner = None if address.is_shared else person_of(source)
    if source.chat_type == "dm" or not source.chat_id:
        return Ownership(owner, None)
    return Ownership(owner, qualified_id(source.platform, source.account, source.chat_id))


def viewer_of_source(source: SessionSource) -> Viewer:
    """Return what the sender of a message may see from this chat: in a group, only sessions of that group."""
    if source.chat_type == "dm":
        return Viewer(person_of(source))
    place = qualified_id(source.platform, source.account, source.chat_id or "")
    return Viewer(person_of(source), place)


def may_resume(here: Ownership, *, is_dm: bool, wanted: Ownership) -> bool:
    """Return whether the conversation `here` may continue with the session `wanted`.

    In a DM: any session of the same person. In a group: only sessions of that chat, and under a shared address
    never a private one.
    """
    if is_dm:
        return here.owner is not None and here.owner == wanted.owner
    return here.chat is not None and here.chat == wanted.chat and here.owner == wanted.owner


def may_copy_between_owners(*, is_dm: bool, wanted: Ownership, owners: str | None) -> bool:
    """Return whether a conversation may continue with a copy of another owner's session. Only owners may, in a direct chat.

    `owners`: the owner whose session it is, if an owner asks. Shared sessions are never copied this way.
    """
    return is_dm and owners is not None and wanted.owner == owners


class ChatPlace(msgspec.Struct, frozen=True):
    """A chat, or a thread in it: one possible reading of a handoff target."""

    chat_id: str
    thread_id: str | None = None


class HandoffTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of `/handoff`. Without `spots`: the home channel. Without `account`: the account that has one."""

    platform: str
    account: str | None
    # Tried in this order: a colon may be part of an id, or separate chat and thread.
    spots: tuple[ChatPlace, ...] = ()

    @property
    def account_or_main(self) -> str:
        """Return the account, or the main account if none was named."""
        return self.account or MAIN_ACCOUNT


def parse_handoff_target(text: str) -> HandoffTarget | None:
    """Parse `platform`, `platform:chat_id` or `platform:chat_id:thread_id`, each with an optional `@account` after the platform.

    Returns None for other text.
    """
    place, colon, rest = text.strip().partition(":")
    platform, at, account = place.partition("@")
    if not is_platform_slug(platform) or (at and not account) or (colon and not rest):
        return None
    return HandoffTarget(platform=platform, account=account or None, spots=_spots(rest) if rest else ())


def may_hand_over(conversation: Ownership, to: Ownership, *, is_dm: bool, is_owners: bool) -> bool:
    """Return whether a conversation may continue in another chat: one where it could be resumed, or an owner's direct chat.

    `is_owners`: the owner asks, and the direct chat is theirs or a home channel. A private conversation never continues in a
    group, nor a shared one in a direct chat.
    """
    if may_resume(to, is_dm=is_dm, wanted=conversation):
        return True
    return is_owners and is_dm and conversation.owner is not None


def _spots(rest: str) -> tuple[ChatPlace, ...]:
    parts = rest.split(":")
    found = [ChatPlace(rest)]
    for at in range(len(parts) - 1, max(0, len(parts) - 1 - _MAX_COLONS), -1):
        chat_id, thread_id = ":".join(parts[:at]), ":".join(parts[at:])
        if chat_id and thread_id:
            found.append(ChatPlace(chat_id, thread_id))
    return tuple(found)
