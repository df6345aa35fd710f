"""What arrives from a platform: one event, read by the platform's codec and not yet accepted by anyone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from threadline.model.source import SessionSource

InboundKind: TypeAlias = Literal["message", "edit", "delete", "button"]

# What an attachment's handle begins with whose content the store has.
STORED_HANDLE = "file:"
# Ids are looked up by index and repeated in many rows; no platform has any of this length. Those of a chat and a thread stand
# together in one index, escaped.
ID_BYTES = 1_000
PLACE_BYTES = 400
# What files are fetched by may be an address with a signature.
HANDLE_BYTES = 8_000
TEXT_CHARS = 1_000_000
NAME_CHARS = 1_000
FILES = 100
RAW_BYTES = 64_000
_REASON_CHARS = 300
_LARGEST = 1 << 53
_UTF8_BYTES = 4

# NUL, and halves of surrogate pairs: not every engine keeps them.
_UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NAMES = ("chat_name", "chat_topic", "user_name", "user_handle")


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


class IdChange(msgspec.Struct, frozen=True, kw_only=True):
    """A platform has given a chat, or a person, another id for good: the conversation goes on under the new one."""

    platform: str
    account: str
    dedupe_key: str
    what: Literal["chat", "user"]
    old_id: str
    new_id: str


# All that comes in by the gateway's one door.
Arrival: TypeAlias = Inbound | Unreadable | IdChange


def stored_id(handle: str) -> str | None:
    """The id of the stored file that a handle stands for; `None` for one that only its platform can fetch."""
    return handle.removeprefix(STORED_HANDLE) if handle.startswith(STORED_HANDLE) else None


def needs_no_cleaning(event: Inbound) -> bool:
    """Whether nothing can be wrong with an event, and nothing is to be mended in it. Nearly all are, and this tells at once."""
    if event.reply_to is not None or event.attachments or not event.dedupe_key or not _is_sound(event.text):
        return False
    source = event.source
    ids = (event.dedupe_key, event.message_id, event.album_id, event.button)
    places = (source.chat_id, source.chat_id_alt, source.thread_id, source.user_id, source.user_id_alt)
    names = (source.chat_name, source.chat_topic, source.user_name, source.user_handle)
    # Together they are shorter than any of them may be.
    return _is_short("".join(filter(None, ids + places + names)))


def validation_error(event: Inbound | IdChange) -> str | None:
    """Why an event can't be kept under the ids that it has; `None` for any that can."""
    if not event.dedupe_key:
        return "its platform gave it no key to know it again by"
    for name, value, most in _ids(event):
        if value is None:
            continue
        if _UNKEEPABLE.search(value):
            return f"its {name} holds what no id can hold"
        if len(value) > most or len(value.encode()) > most:
            return f"its {name} is longer than {most:,} bytes"
    if isinstance(event, IdChange) and not (event.old_id and event.new_id and event.old_id != event.new_id):
        return "it names no two ids"
    return None


def size_error(event: Inbound) -> str | None:
    """Why an event is more than one message should be; `None` for any other."""
    if len(event.text) > TEXT_CHARS:
        return f"its text is longer than {TEXT_CHARS:,} characters"
    if len(event.attachments) > FILES:
        return f"more than {FILES} files came with it"
    return None


def sanitized(event: Inbound) -> Inbound:
    """The event with names cut to length and whatever no engine keeps replaced; the same one where nothing is to be done.

    Its files know from then on which account has them.
    """
    changes: dict[str, object] = {}
    if not _is_sound(event.text):
        changes["text"] = _whole(event.text)
    source = _mended_source(event.source)
    if source is not event.source:
        changes["source"] = source
    if event.reply_to is not None and (len(event.reply_to.text) > TEXT_CHARS or not _is_sound(event.reply_to.text)):
        changes["reply_to"] = msgspec.structs.replace(event.reply_to, text=_whole(event.reply_to.text[:TEXT_CHARS]))
    if event.attachments:
        changes["attachments"] = tuple(_mended_file(file, event.source) for file in event.attachments)
    return msgspec.structs.replace(event, **changes) if changes else event


def storable_text(text: str, most: int) -> str:
    """The text as every engine keeps it, at most so many bytes of it."""
    return _UNKEEPABLE.sub(_REPLACEMENT, text[:most]).encode()[:most].decode(errors="ignore")


def sanitized_unreadable(event: Unreadable) -> Unreadable:
    """The event with a key, a text and a reason that can be kept. Two that differ keep different keys."""
    key = event.dedupe_key
    if not key or _UNKEEPABLE.search(key) or len(key.encode()) > ID_BYTES:
        digest = hashlib.blake2b(f"{key}\0{event.raw}".encode("utf-8", "surrogatepass"), digest_size=16)
        key = f"unreadable.{digest.hexdigest()}"
    return msgspec.structs.replace(
        event,
        dedupe_key=key,
        raw=storable_text(event.raw, RAW_BYTES),
        reason=storable_text(event.reason, _REASON_CHARS),
    )


def _is_short(text: str) -> bool:
    """Whether a text has no more bytes than a place's id may have, and each of its signs can be kept anywhere."""
    most = PLACE_BYTES if text.isascii() else PLACE_BYTES // _UTF8_BYTES
    return len(text) <= most and "\0" not in text and _is_sound(text)


def _ids(event: Inbound | IdChange) -> Iterator[tuple[str, str | None, int]]:
    yield "key", event.dedupe_key, ID_BYTES
    if isinstance(event, IdChange):
        yield from (("id", value, PLACE_BYTES) for value in (event.old_id, event.new_id))
        return
    source = event.source
    yield "message id", event.message_id, ID_BYTES
    yield from (("chat id", value, PLACE_BYTES) for value in (source.chat_id, source.chat_id_alt, source.thread_id))
    yield from (("sender id", value, PLACE_BYTES) for value in (source.user_id, source.user_id_alt))
    yield "album id", event.album_id, ID_BYTES
    yield "button", event.button, ID_BYTES
    if event.reply_to is not None:
        yield "quoted message's id", event.reply_to.message_id, ID_BYTES
    yield from (("file's handle", file.handle, HANDLE_BYTES) for file in event.attachments)


def _mended_source(source: SessionSource) -> SessionSource:
    changes = {
        name: _name(value)
        for name in _NAMES
        if (value := getattr(source, name)) and (len(value) > NAME_CHARS or _UNKEEPABLE.search(value))
    }
    return msgspec.structs.replace(source, **changes) if changes else source


def _mended_file(file: Attachment, source: SessionSource) -> Attachment:
    size = file.size if file.size is not None and 0 <= file.size < _LARGEST else None
    platform, account = ("", "") if stored_id(file.handle) is not None else (source.platform, source.account)
    return Attachment(
        handle=file.handle,
        name=_name(file.name),
        mime=_name(file.mime),
        size=size,
        platform=platform,
        account=account,
    )


def _name(text: str) -> str:
    """Names stand in columns of their own, where not even NUL can."""
    return _UNKEEPABLE.sub(_REPLACEMENT, _whole(text[:NAME_CHARS]))


def _is_sound(text: str) -> bool:
    # Most text is: asking the codec is many times cheaper than looking at every sign.
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(text: str) -> str:
    """Pairs of surrogates joined, single ones replaced. NUL stays: text is kept as JSON."""
    return text if _is_sound(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
