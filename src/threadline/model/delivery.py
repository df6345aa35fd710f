"""Deliveries: the target of a message we send, its state, and when to retry."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.source import MAIN_ACCOUNT, ChatType, SessionSource

# pending  stored, waits for earlier deliveries to the same chat
# open     a streamed message of a running turn: its platform id is stored, its text is not final
# sending  a gateway sends it and holds its lease
# sent     the platform confirmed it
# unknown  the connection broke after the request was sent; retried once, with a mark
# parked   given up; an operator can see it and retry it
# dropped  an operator dropped it, or its turn ended without it
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
        """Return the key of the chat or thread: deliveries with the same key are sent in order.

        The parts are escaped, so two chats never have the same key.
        """
        parts = (self.platform, self.account, self.chat_id, self.thread_id or "")
        return "/".join(part.replace("%", "%25").replace("/", "%2f") for part in parts)


class Button(msgspec.Struct, frozen=True):
    """A button under a message; a press comes back as an `Inbound` of kind `button` with this value."""

    label: str
    value: str


def target_of(source: SessionSource) -> Target:
    """Return the target of an answer to a message from `source`."""
    return Target(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id or source.sender or "",
        chat_type=source.chat_type,
        thread_id=source.thread_id,
    )


class RetryAt(msgspec.Struct, frozen=True):
    """Decision: retry at this time."""

    at: Instant


class Park(msgspec.Struct, frozen=True):
    """Decision: give up until an operator retries."""

    reason: str


def after_failure(
    *, attempts: int, first_at: Instant, now: Instant, wait: timedelta | None, reason: str
) -> RetryAt | Park:
    """Return what to do with a delivery that certainly did not arrive: retry with back-off, or park after ten minutes.

    `wait` is the pause that the platform asked for. It is kept even if it is longer than our own.
    """
    own = min(_FIRST_WAIT * 2 ** min(attempts, 10), _LONGEST_WAIT)
    at = Instant(now + max(own, wait or own) // timedelta(microseconds=1))
    if at - first_at > MAX_RETRY_TIME // timedelta(microseconds=1):
        return Park(reason)
    return RetryAt(at)
