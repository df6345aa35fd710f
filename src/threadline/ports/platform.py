"""Platforms: how messages come in and answers go out.

An adapter is transport alone. It knows no sessions, no agents and no permissions: deduplication, order, splitting, throttling,
retries and access are the gateway's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from threadline.errors import ThreadlineError
from threadline.model.delivery import Button as Button  # noqa: PLC0414 - adapters find it beside Outgoing
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Attachment
from threadline.model.source import ChatType

LengthUnit: TypeAlias = Literal["chars", "utf16", "bytes"]
Verdict: TypeAlias = Literal["accepted", "duplicate", "refused", "ignored", "parked"]
# Returns once the event is stored, or surely not wanted: only then is the platform told that it arrived. What can't be read, and
# that an id has changed, comes in by the same door. `ConversationBusy`, on attended platforms alone, and `UnknownSession`, where a
# message begins no conversation: nothing was taken.
Accept: TypeAlias = Callable[[Arrival], Awaitable[Verdict]]


def length(text: str, unit: LengthUnit = "chars") -> int:
    """How long `text` is in a platform's own unit. Halves of surrogate pairs count like everything else."""
    if unit == "chars":
        return len(text)
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do. What is not declared is never asked of it."""

    max_length: int = 4096
    length_unit: LengthUnit = "chars"
    edit: bool = False
    typing: bool = False
    threads: bool = False
    buttons: bool = False
    # Takes files with a message. Whether it also gives out those that came in, `Fetches` tells.
    files: bool = False
    # So many pictures go with one message; every other file goes with one of its own.
    album: int = 1
    # Sending again with the same key shows one message.
    idempotent_send: bool = False
    # Seconds between two edits of a streamed message.
    edit_interval: float = 1.0
    # The same where several people read; `None`: no other than elsewhere.
    edit_interval_in_groups: float | None = None
    # People send one thought in several messages there: a turn waits a moment for more.
    bursts: bool = True
    # People wait there while they are answered, and see a turn as it happens (`ShowsTurns`): what it says is kept before it is
    # shown and not sent besides, and one that breaks off is closed, never run again. What they say while something else goes on in
    # the conversation does not come in: there is nobody to wait for a second answer.
    attended: bool = False
    # Whoever speaks where there is no conversation yet begins one. Where not, conversations are opened by other means, and what is
    # said in one that is gone does not come in: an empty one under its name would not be the one that was meant.
    begins_by_message: bool = True

    def edit_pause(self, chat_type: ChatType) -> float:
        """Seconds between two edits of a streamed message in a chat of that type."""
        shared = self.edit_interval_in_groups
        return self.edit_interval if chat_type == "dm" or shared is None else shared


class OutgoingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with a message. `name` is a stranger's text, never a path."""

    name: str
    mime: str
    body: bytes


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it is to be shown: markdown, already short enough for the platform, without previews of its links.

    `is_plain`: there is no markup in it, whatever it looks like. A message with files may have no text.
    """

    text: str
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()
    files: tuple[OutgoingFile, ...] = ()
    is_plain: bool = False


class PlatformError(ThreadlineError):
    """A platform did not do what was asked of it."""


class Transient(PlatformError):
    """It did not arrive, for certain; trying again later may help."""


class Contested(Transient):
    """Somebody else listens with our key and takes what is meant for us, and it is no gateway of ours. `run` ends with it."""


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


class NotDeclared(PlatformError):
    """The platform can't do this, and its capabilities say so."""


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
    or with `Unauthorized` or `Contested`. An event that it can't read it hands on as `Unreadable`.

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


class OfferedCommand(msgspec.Struct, frozen=True):
    """A command that people can type, without its slash."""

    name: str
    help: str


@runtime_checkable
class OffersCommands(Protocol):
    """A platform that shows people which commands there are."""

    def offer(self, commands: Sequence[OfferedCommand]) -> None:
        """Takes the commands, before it is opened or run and again whenever they change. It returns at once."""
        ...


@runtime_checkable
class Fetches(Protocol):
    """A platform that keeps the files that came with messages, and gives them out."""

    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        """What is in a file. `Gone` where it can't be had any more, `TooLong` where it is more than so many bytes."""
        ...


class Probed(msgspec.Struct, frozen=True):
    """Who we are on a platform, such as `@my_bot (id 42)`, and what its owner should know about that."""

    who: str
    remarks: tuple[str, ...] = ()


@runtime_checkable
class Probes(Protocol):
    """A platform that can be tried out: it tells who we are there without listening, and shows nothing to anybody."""

    async def probe(self) -> Probed:
        """Asks the platform, also before it is opened or run. Raises as `send` does; `close` follows."""
        ...


@runtime_checkable
class ListensAlone(Protocol):
    """A platform that gives its messages to one listener: a second one would be turned away, or take them from the first.

    `open` connects so far that messages can go out; any number of gateways may be so far. `run` is called while this gateway
    alone may listen and cancelled when it no longer may, any number of times.
    """

    @property
    def listens_as(self) -> str:
        """What only one gateway may listen as. It is stored and shown: never a key."""
        ...

    async def open(self) -> None:
        """Raises as `send` does."""
        ...


def refuse_undeclared(can: Capabilities, message: Outgoing, to: Target | None = None) -> None:
    """Raises `NotDeclared` where a message, or where it goes, needs what the platform has not declared."""
    if to is not None and to.thread_id is not None and not can.threads:
        raise NotDeclared("there are no threads there")
    if message.buttons and not can.buttons:
        raise NotDeclared("buttons can't be shown there")
    if message.files and not can.files:
        raise NotDeclared("files can't be sent there")
    if len(message.files) > can.album:
        raise NotDeclared(f"no more than {can.album} files go with one message there")
