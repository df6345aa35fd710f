"""Platforms: how messages come in and answers go out.

An adapter is transport alone. It knows no sessions, no agents and no permissions: deduplication, order, splitting, throttling,
retries and access are the gateway's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

from threadline.errors import ThreadlineError
from threadline.model.delivery import Button as Button  # noqa: PLC0414 - adapters find it beside Outgoing
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival

LengthUnit: TypeAlias = Literal["chars", "utf16", "bytes"]
Verdict: TypeAlias = Literal["accepted", "duplicate", "refused", "ignored", "parked"]
# Returns once the event is stored, or surely not wanted: only then is the platform told that it arrived. What can't be read, and
# that an id has changed, comes in by the same door.
Accept: TypeAlias = Callable[[Arrival], Awaitable[Verdict]]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do. What is not declared is never asked of it."""

    max_length: int = 4096
    length_unit: LengthUnit = "chars"
    edit: bool = False
    typing: bool = False
    threads: bool = False
    buttons: bool = False
    files: bool = False
    # Sending again with the same key shows one message.
    idempotent_send: bool = False
    # Seconds between two edits of a streamed message.
    edit_interval: float = 1.0
    # People send one thought in several messages there: a turn waits a moment for more.
    bursts: bool = True


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it is to be shown: markdown, already short enough for the platform, without previews of its links."""

    text: str
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()


class PlatformError(ThreadlineError):
    """A platform did not do what was asked of it."""


class Transient(PlatformError):
    """It did not arrive, for certain; trying again later may help."""


class RateLimited(Transient):
    """Too much at once: the platform says when to try again."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the platform asks us to wait {retry_after:g} s")
        self.retry_after = retry_after


class Ambiguous(PlatformError):
    """The connection died after the request had left: it may have arrived."""


class TooLong(PlatformError):
    """The text is longer than the platform takes."""


class BadMarkup(PlatformError):
    """The platform can't read the markup; the same text sent plain will do."""


class NotModified(PlatformError):
    """The message says that already."""


class Gone(PlatformError):
    """The chat or the message is gone for good."""


class Unauthorized(PlatformError):
    """The platform does not know our key any more. Nothing will work until it is given a new one."""


class Platform(Protocol):
    """One account on one platform.

    `run` connects, hands every event to `accept` and tells the platform that it arrived only after `accept` returned; it sets
    `ready` once messages can come in and go out, reconnects by itself, and ends only when it is cancelled, at end of input,
    or with `Unauthorized`. An event that it can't read it hands on as `Unreadable`.

    `send`, `edit` and `typing` may be called from `ready` on, from several tasks, and raise `PlatformError`s only. `send` returns
    the platform's id of the message. `close` lets sends in flight finish, within five seconds.
    """

    @property
    def name(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, accept: Accept, ready: asyncio.Event) -> None: ...

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str: ...

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None: ...

    async def typing(self, to: Target) -> None: ...

    async def close(self) -> None: ...
