"""Events from platforms, as their codecs read them, and the checks that make them storable.

Strangers and broken servers can send anything. Nothing of it may block admission.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from threadline.model.source import SessionSource

InboundKind: TypeAlias = Literal["message", "edit", "delete", "button"]

# Prefix of the handle of an attachment whose content is in the store.
STORED_HANDLE = "file:"
# Ids are indexed and repeated in many rows; no platform has ids of this length. Chat and thread ids share one index, escaped.
ID_BYTES = 1_000
PLACE_BYTES = 400
# A file handle may be a signed URL.
HANDLE_BYTES = 8_000
TEXT_CHARS = 1_000_000
NAME_CHARS = 1_000
FILES = 100
RAW_BYTES = 64_000
_REASON_CHARS = 300
_LARGEST = 1 << 53
_UTF8_BYTES = 4

# NUL and single surrogates: not every engine can store them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NAMES = ("chat_name", "chat_topic", "user_name", "user_handle")


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that another message answers."""

    message_id: str
    text: str = ""
    is_ours: bool = False


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a message. The platform fetches it by `handle`; `name` is untrusted text, never a path.

    `platform` and `account` tell where to fetch it, also after the conversation moved. The gateway sets them, an adapter
    need not. They are empty for a file in the store.
    """

    handle: str
    name: str = ""
    mime: str = "application/octet-stream"
    size: int | None = None
    platform: str = ""
    account: str = ""


class Inbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a platform.

    `dedupe_key` is unique over all chats of the account. The message, each edit of it, its deletion and each press on one of
    its buttons have different keys. An event with a known key is a repetition and is ignored.
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
    # The platform says that the sender is an admin of this chat. Never set from anything the sender writes.
    sender_is_admin: bool = False
    attachments: tuple[Attachment, ...] = ()
    album_id: str | None = None
    # The value of the pressed button.
    button: str | None = None


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An event that its codec can't read: `raw` is what came, `reason` what is wrong with it.

    It is stored for inspection and acknowledged like any other event, so that it blocks nothing. If `dedupe_key` is empty, a key
    is made from `raw`.
    """

    platform: str
    account: str
    raw: str
    reason: str
    dedupe_key: str = ""


class IdChange(msgspec.Struct, frozen=True, kw_only=True):
    """A platform changed the id of a chat or a person for good: the conversation continues under the new id."""

    platform: str
    account: str
    dedupe_key: str
    what: Literal["chat", "user"]
    old_id: str
    new_id: str


# Every kind of event that the gateway admits.
Arrival: TypeAlias = Inbound | Unreadable | IdChange


def stored_id(handle: str) -> str | None:
    """Return the id of the stored file of a handle; None if only the platform can fetch the file."""
    return handle.removeprefix(STORED_HANDLE) if handle.startswith(STORED_HANDLE) else None


def needs_no_cleaning(event: Inbound) -> bool:
    """Return whether an event needs neither validation nor sanitizing. True for nearly all events, and quick to compute."""
    if event.reply_to is not None or event.attachments or not event.dedupe_key or not _is_valid_unicode(event.text):
        return False
    source = event.source
    ids = (event.dedupe_key, event.message_id, event.album_id, event.button)
    places = (source.chat_id, source.chat_id_alt, source.thread_id, source.user_id, source.user_id_alt)
    names = (source.chat_name, source.chat_topic, source.user_name, source.user_handle)
    # If all of them together are short enough, each one is.
    return _is_short("".join(filter(None, ids + places + names)))


def validation_error(event: Inbound | IdChange) -> str | None:
    """Return why an event can't be stored under its ids, or None if it can."""
    if not event.dedupe_key:
        return "its platform gave it no key to know it again by"
    for name, value, most in _ids(event):
        if value is None:
            continue
        if _UNSTORABLE.search(value):
            return f"its {name} holds what no id can hold"
        if len(value) > most or len(value.encode()) > most:
            return f"its {name} is longer than {most:,} bytes"
    if isinstance(event, IdChange) and not (event.old_id and event.new_id and event.old_id != event.new_id):
        return "it names no two ids"
    return None


def size_error(event: Inbound) -> str | None:
    """Return why an event is too large for one message, or None if it is not."""
    if len(event.text) > TEXT_CHARS:
        return f"its text is longer than {TEXT_CHARS:,} characters"
    if len(event.attachments) > FILES:
        return f"more than {FILES} files came with it"
    return None


def sanitized(event: Inbound) -> Inbound:
    """Return the event with names cut to length and unstorable characters replaced; the same object if nothing changes.

    Sets platform and account of its files.
    """
    changes: dict[str, object] = {}
    if not _is_valid_unicode(event.text):
        changes["text"] = _with_valid_unicode(event.text)
    source = _sanitized_source(event.source)
    if source is not event.source:
        changes["source"] = source
    if event.reply_to is not None and (
        len(event.reply_to.text) > TEXT_CHARS or not _is_valid_unicode(event.reply_to.text)
    ):
        changes["reply_to"] = msgspec.structs.replace(
            event.reply_to, text=_with_valid_unicode(event.reply_to.text[:TEXT_CHARS])
        )
    if event.attachments:
        changes["attachments"] = tuple(_sanitized_file(file, event.source) for file in event.attachments)
    return msgspec.structs.replace(event, **changes) if changes else event


def storable_text(text: str, most: int) -> str:
    """Return at most `most` bytes of the text, in a form that every engine can store."""
    return _UNSTORABLE.sub(_REPLACEMENT, text[:most]).encode()[:most].decode(errors="ignore")


def sanitized_unreadable(event: Unreadable) -> Unreadable:
    """Return the event with a key, a text and a reason that can be stored. Different events keep different keys."""
    key = event.dedupe_key
    if not key or _UNSTORABLE.search(key) or len(key.encode()) > ID_BYTES:
        digest = hashlib.blake2b(f"{key}\0{event.raw}".encode("utf-8", "surrogatepass"), digest_size=16)
        key = f"unreadable.{digest.hexdigest()}"
    return msgspec.structs.replace(
        event,
        dedupe_key=key,
        raw=storable_text(event.raw, RAW_BYTES),
        reason=storable_text(event.reason, _REASON_CHARS),
    )


def _is_short(text: str) -> bool:
    """Return whether a text is short enough for a chat id and has no unstorable character."""
    most = PLACE_BYTES if text.isascii() else PLACE_BYTES // _UTF8_BYTES
    return len(text) <= most and "\0" not in text and _is_valid_unicode(text)


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


def _sanitized_source(source: SessionSource) -> SessionSource:
    changes = {
        name: _storable_name(value)
        for name in _NAMES
        if (value := getattr(source, name)) and (len(value) > NAME_CHARS or _UNSTORABLE.search(value))
    }
    return msgspec.structs.replace(source, **changes) if changes else source


def _sanitized_file(file: Attachment, source: SessionSource) -> Attachment:
    size = file.size if file.size is not None and 0 <= file.size < _LARGEST else None
    platform, account = ("", "") if stored_id(file.handle) is not None else (source.platform, source.account)
    return Attachment(
        handle=file.handle,
        name=_storable_name(file.name),
        mime=_storable_name(file.mime),
        size=size,
        platform=platform,
        account=account,
    )


def _storable_name(text: str) -> str:
    """Return a name without NUL: names have columns of their own, which can't hold it."""
    return _UNSTORABLE.sub(_REPLACEMENT, _with_valid_unicode(text[:NAME_CHARS]))


def _is_valid_unicode(text: str) -> bool:
    # Most text is ASCII; otherwise encoding is many times faster than checking every character.
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_valid_unicode(text: str) -> str:
    """Return the text with surrogate pairs joined and single surrogates replaced. NUL stays: text is stored as JSON."""
    return text if _is_valid_unicode(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
