"""What the scripted chat and its clients say to each other: one JSON object a line. Pure.

The client says `hello` first and is told `welcome` or `refused`. The chat tells events, in order, until each is acknowledged, in
any order; the client calls `send`, `edit`, `typing` and `fetch`, and each call is answered once, with `done` or `failed`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.delivery import Target
from threadline.model.inbound import Attachment, IdChange, Inbound, InboundKind, Quote, Unreadable
from threadline.model.source import ChatType, SessionSource
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Gone,
    NotDeclared,
    NotModified,
    Outgoing,
    PlatformError,
    RateLimited,
    TooLong,
    Transient,
    Unauthorized,
)

LONGEST_LINE = 32 * 1024 * 1024


class Hello(msgspec.Struct, frozen=True, tag="hello", tag_field="say"):
    """A client is there for one account."""

    account: str


class Ack(msgspec.Struct, frozen=True, tag="ack", tag_field="say"):
    """This event arrived and need not be told again."""

    number: int


class Send(msgspec.Struct, frozen=True, tag="send", tag_field="say"):
    """Show a message."""

    call: int
    to: Target
    message: Outgoing
    key: str


class Edit(msgspec.Struct, frozen=True, tag="edit", tag_field="say"):
    """Let a message say something else."""

    call: int
    to: Target
    message: Outgoing
    message_id: str


class Typing(msgspec.Struct, frozen=True, tag="typing", tag_field="say"):
    """Show that an answer is being written."""

    call: int
    to: Target


class Fetch(msgspec.Struct, frozen=True, tag="fetch", tag_field="say"):
    """Give out a file that came with a message."""

    call: int
    handle: str
    at_most: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome", tag_field="say"):
    """The client may begin."""


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="say"):
    """The client is not known here."""


class Told(msgspec.Struct, frozen=True, tag="event", tag_field="say"):
    """An event. Its body is read apart, so that one that can't be read harms no other."""

    number: int
    body: msgspec.Raw


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="say", omit_defaults=True):
    """A call was carried out; of a send this is the message's id, of a fetch what is in the file."""

    call: int
    message_id: str = ""
    body: bytes = b""


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="say"):
    """A call was not carried out, or nobody knows."""

    call: int
    error: str
    reason: str
    retry_after: float = 0.0


Showing: TypeAlias = Send | Edit | Typing
Call: TypeAlias = Showing | Fetch
FromClient: TypeAlias = Hello | Ack | Call
FromChat: TypeAlias = Welcome | Refused | Told | Done | Failed


class Happening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event's body says, in the chat's own words."""

    kind: str
    key: str
    message: str
    chat: str
    at: datetime
    user: str
    chat_type: ChatType = "dm"
    thread: str | None = None
    name: str | None = None
    text: str = ""
    mention: bool = False
    reply_to: Quote | None = None
    forward: bool = False
    bot: bool = False
    admin: bool = False
    files: tuple[Attachment, ...] = ()
    album: str | None = None
    value: str | None = None


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """What an event's body says of a chat or a person that has another id from now on."""

    key: str
    what: Literal["chat", "user"]
    old: str
    new: str
    kind: Literal["moved"] = "moved"


class Ignored(msgspec.Struct, frozen=True):
    """An event that is none of ours: somebody joined, a poll was opened."""

    kind: str


class _Kind(msgspec.Struct, frozen=True):
    kind: str


class _Where(_Kind, frozen=True):
    chat: str = ""


_KINDS = frozenset(get_args(InboundKind))
_ERRORS: dict[str, type[PlatformError]] = {
    kind.__name__: kind
    for kind in (Ambiguous, BadMarkup, Gone, NotDeclared, NotModified, TooLong, Transient, Unauthorized)
}
_encoder = msgspec.json.Encoder()
_kind = msgspec.json.Decoder(_Kind)
_where = msgspec.json.Decoder(_Where)
_happening = msgspec.json.Decoder(Happening)
_moving = msgspec.json.Decoder(Moving)
_from_client: msgspec.json.Decoder[FromClient] = msgspec.json.Decoder(FromClient)
_from_chat: msgspec.json.Decoder[FromChat] = msgspec.json.Decoder(FromChat)


def write(frame: FromClient | FromChat) -> bytes:
    """The frame as a line."""
    return _encoder.encode(frame) + b"\n"


def read_from_client(line: bytes) -> FromClient:
    """What a client said; `msgspec.DecodeError` where that is nothing known."""
    return _from_client.decode(line)


def read_from_chat(line: bytes) -> FromChat:
    """What the chat said; `msgspec.DecodeError` where that is nothing known."""
    return _from_chat.decode(line)


def write_event(happening: Happening | Moving) -> bytes:
    """The body of an event."""
    return _encoder.encode(happening)


def read_event(body: bytes, *, platform: str, account: str) -> Inbound | IdChange | Unreadable | Ignored:
    """What an event means. One that makes no sense is `Unreadable`, known again by what it says: it may not even have a key."""
    try:
        kind = _kind.decode(body).kind
        if kind == "moved":
            return _moved(_moving.decode(body), platform, account)
        return _inbound(_happening.decode(body), platform, account) if kind in _KINDS else Ignored(kind)
    except (msgspec.DecodeError, InvalidRequest, UnicodeDecodeError) as cause:
        raw = body.decode(errors="replace")
        return Unreadable(platform=platform, account=account, raw=raw, reason=f"it can't be read: {cause}")


def chat_of(body: bytes) -> str | None:
    """The chat in which an event has its place; `None` for one that must stay where it is among those of all chats.

    That is a chat or a person with another id: what was said before is said under the old id, what comes after under the new.
    """
    try:
        where = _where.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return None if where.kind == "moved" else where.chat


def sendable(message: Outgoing) -> Outgoing:
    """The message without halves of surrogate pairs, which no JSON can carry: pairs are joined, single ones replaced."""
    mended = message.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return message if mended == message.text else msgspec.structs.replace(message, text=mended)


def write_error(call: int, error: PlatformError) -> Failed:
    """The error as the chat tells it."""
    wait = error.retry_after if isinstance(error, RateLimited) else 0.0
    return Failed(call, type(error).__name__, str(error), wait)


def read_error(failed: Failed) -> PlatformError:
    """The error that the chat told of. One that we have never heard of is a `PlatformError` like any other."""
    if failed.error == RateLimited.__name__:
        return RateLimited(failed.retry_after)
    return _ERRORS.get(failed.error, PlatformError)(failed.reason)


def parse_address(address: str) -> Path | tuple[str, int]:
    """Where a chat is: `unix:PATH` or `HOST:PORT`. Anything else is `InvalidRequest`."""
    if address.startswith("unix:") and len(address) > len("unix:"):
        return Path(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidRequest(f"{address!r} is no address of a chat: use unix:PATH or HOST:PORT")
    return host.strip("[]"), int(port)


def _inbound(told: Happening, platform: str, account: str) -> Inbound:
    return Inbound(
        dedupe_key=told.key,
        message_id=told.message,
        source=_source(told, platform, account),
        sent_at=_aware(told.at),
        kind=msgspec.convert(told.kind, InboundKind),
        text=told.text,
        reply_to=told.reply_to,
        mentions_us=told.mention,
        is_forward=told.forward,
        from_bot=told.bot,
        sender_is_admin=told.admin,
        attachments=told.files,
        album_id=told.album,
        button=told.value,
    )


def _moved(told: Moving, platform: str, account: str) -> IdChange:
    return IdChange(
        platform=platform, account=account, dedupe_key=told.key, what=told.what, old_id=told.old, new_id=told.new
    )


def _source(told: Happening, platform: str, account: str) -> SessionSource:
    return SessionSource(
        platform=platform,
        account=account,
        chat_id=told.chat,
        chat_type=told.chat_type,
        thread_id=told.thread,
        user_id=told.user,
        user_name=told.name,
    )


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidRequest(f"{moment.isoformat()} has no time zone")
    return moment
