"""What arrives from a platform: one event, read by the platform's codec and not yet accepted by anyone."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from threadline.model.source import SessionSource

InboundKind: TypeAlias = Literal["message", "edit", "delete", "button"]


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that another one answers."""

    message_id: str
    text: str = ""
    is_ours: bool = False


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that came with a message. `handle` is what the platform fetches it by; `name` is a stranger's text, never a path.

    `platform` and `account` tell who has it, wherever a conversation goes on: the gateway sets them, an adapter need not. They
    are empty for a file that the store has.
    """

    handle: str
    name: str = ""
    mime: str = "application/octet-stream"
    size: int | None = None
    platform: str = ""
    account: str = ""


class Inbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a platform.

    `dedupe_key` is unique over all chats of the account, and another one for the message, each edit of it, its deletion and
    a press on one of its buttons. The same key again is the same event, however often a platform repeats it.
    """

    dedupe_key: str
    message_id: str
    source: SessionSource
    sent_at: datetime
    kind: InboundKind = "message"
    text: str = ""
    reply_to: Quote | None = None
    mentions_us: bool = False
    is_forward: bool = False
    from_bot: bool = False
    # The platform says that the sender runs this chat. It is the platform's word, never the sender's.
    sender_is_admin: bool = False
    attachments: tuple[Attachment, ...] = ()
    album_id: str | None = None
    # What a pressed button stands for.
    button: str | None = None


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An event that makes no sense to its codec: `raw` is what came, `reason` what is wrong with it.

    It is kept for whoever looks into it, and acknowledged like any other, so that it blocks nothing. An empty `dedupe_key` stands
    for one made of `raw`.
    """

    platform: str
    account: str
    raw: str
    reason: str
    dedupe_key: str = ""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A platform has given a chat, or a person, another id for good: the conversation goes on under the new one."""

    platform: str
    account: str
    dedupe_key: str
    what: Literal["chat", "user"]
    old_id: str
    new_id: str


# All that comes in by the gateway's one door.
Arrival: TypeAlias = Inbound | Unreadable | Moved
