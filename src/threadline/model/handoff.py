"""Where a conversation can go on: what a target names, and whether it may."""

from __future__ import annotations

import msgspec

from threadline.model.ownership import Ownership, may_resume
from threadline.model.source import MAIN_ACCOUNT, is_platform_slug

# Ids may hold colons themselves; nobody's hold more than this.
_COLONS_AT_MOST = 8


class Spot(msgspec.Struct, frozen=True):
    """A chat, or a thread in it, as a target may mean it."""

    chat_id: str
    thread_id: str | None = None


class HandoffTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind `/handoff`. No `spots`: the home channel; no `account`: whichever of ours has one."""

    platform: str
    account: str | None
    # In the order in which they are tried: an id may hold the colon that else parts it from its thread.
    spots: tuple[Spot, ...] = ()

    @property
    def account_or_main(self) -> str:
        """The account of ours that a chat is on."""
        return self.account or MAIN_ACCOUNT


def read_target(text: str) -> HandoffTarget | None:
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


def _spots(rest: str) -> tuple[Spot, ...]:
    parts = rest.split(":")
    found = [Spot(rest)]
    for at in range(len(parts) - 1, max(0, len(parts) - 1 - _COLONS_AT_MOST), -1):
        chat_id, thread_id = ":".join(parts[:at]), ":".join(parts[at:])
        if chat_id and thread_id:
            found.append(Spot(chat_id, thread_id))
    return tuple(found)
