"""What leaves: where it goes, what became of it, and what to do next."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.source import MAIN_ACCOUNT, ChatType, SessionSource

# pending  stored, waits for its turn in the chat
# open     a streamed message of a running turn: its platform id is kept, its text is not final
# sending  a gateway is at it; a lease says which
# sent     the platform gave a receipt
# unknown  the connection died after the request left; sent again once, and marked
# parked   given up for now: listed, and sent when somebody says `retry`
# dropped  somebody said `drop`, or its turn ended without it
DeliveryState: TypeAlias = Literal["pending", "open", "sending", "sent", "unknown", "parked", "dropped"]

MAX_RETRY_TIME = timedelta(minutes=10)
_FIRST_WAIT = timedelta(seconds=1)
_LONGEST_WAIT = timedelta(minutes=1)


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chat, or a thread in it, on one of our accounts."""

    platform: str
    chat_id: str
    account: str = MAIN_ACCOUNT
    chat_type: ChatType = "dm"
    thread_id: str | None = None

    @property
    def ordering_key(self) -> str:
        """What is delivered in order: all that goes to one chat. Parts are escaped, so two chats never share a lane."""
        parts = (self.platform, self.account, self.chat_id, self.thread_id or "")
        return "/".join(part.replace("%", "%25").replace("/", "%2f") for part in parts)


class Button(msgspec.Struct, frozen=True):
    """A button under a message; a press comes back as an `Inbound` of kind `button` with this value."""

    label: str
    value: str


def target_of(source: SessionSource) -> Target:
    """Where an answer to a message from `source` goes."""
    return Target(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id or source.sender or "",
        chat_type=source.chat_type,
        thread_id=source.thread_id,
    )


class RetryAt(msgspec.Struct, frozen=True):
    """Try again then."""

    at: Instant


class Park(msgspec.Struct, frozen=True):
    """Give up until somebody asks for it again."""

    reason: str


def after_failure(
    *, attempts: int, first_at: Instant, now: Instant, wait: timedelta | None, reason: str
) -> RetryAt | Park:
    """What becomes of a delivery that certainly did not arrive: tried again with growing pauses, held ten minutes at most.

    `wait` is what the platform asked for; it is honoured even where it is longer than our own pause.
    """
    own = min(_FIRST_WAIT * 2 ** min(attempts, 10), _LONGEST_WAIT)
    at = Instant(now + max(own, wait or own) // timedelta(microseconds=1))
    if at - first_at > MAX_RETRY_TIME // timedelta(microseconds=1):
        return Park(reason)
    return RetryAt(at)
