"""Files of messages: stored files, attachments of transcript messages, and how files are grouped for sending."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from threadline.model.inbound import STORED_HANDLE, Attachment, stored_id
from threadline.model.message import Message
from threadline.model.safe_text import safe_line

MAX_FILE_BYTES = 10_000_000
_NAME_CHARS = 120
# Types that chats show together in one message.
_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "video/mp4"})
# The largest sum of files in one message: they are held in memory while they are sent.
_MESSAGE_BYTES = 2 * MAX_FILE_BYTES


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the store. `name` is untrusted text, never a path."""

    file_id: str
    name: str
    mime: str
    size: int

    def attachment(self) -> Attachment:
        """Return the file as an attachment of a message."""
        return Attachment(handle=f"{STORED_HANDLE}{self.file_id}", name=self.name, mime=self.mime, size=self.size)


def file_id_of(body: bytes) -> str:
    """Return the id of a file with this content."""
    return hashlib.sha256(body).hexdigest()


def user_message(text: str, attachments: Sequence[Attachment] = ()) -> Message:
    """Return a user's message in transcript form, with its files."""
    return with_files({"role": "user", "content": text}, attachments)


def with_files(message: Message, attachments: Sequence[Attachment]) -> Message:
    """Return the message with these files; the same object if there are none."""
    return message | {"attachments": [msgspec.to_builtins(file) for file in attachments]} if attachments else message


def stored_ids(attachments: Sequence[Attachment]) -> tuple[str, ...]:
    """Return the ids of those files that are in the store."""
    return tuple(filter(None, (stored_id(file.handle) for file in attachments))) if attachments else ()


def file_messages(files: Iterable[Attachment], album: int) -> list[tuple[Attachment, ...]]:
    """Group files into messages: up to `album` consecutive pictures together, any other file alone."""
    groups: list[tuple[Attachment, ...]] = []
    for file in files:
        last = groups[-1] if groups else ()
        size = sum(one.size or 0 for one in (*last, file))
        if 0 < len(last) < album and size <= _MESSAGE_BYTES and {last[-1].mime, file.mime} <= _PICTURES:
            groups[-1] = (*last, file)
        else:
            groups.append((file,))
    return groups


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """Return the files of a stored message. Entries that are not files are skipped: a transcript may hold anything."""
    found: object = message.get("attachments")
    return tuple(file for one in found if (file := _attachment(one)) is not None) if isinstance(found, list) else ()


def names_of(files: Iterable[Attachment]) -> str:
    """Return the names of files for display in a chat. They are untrusted text, so each is cleaned and cut to length."""
    names = (safe_line(file.name, _NAME_CHARS).replace("`", "'") for file in files)
    return ", ".join(f"`{name or 'a file without a name'}`" for name in names)


def _attachment(kept: Any) -> Attachment | None:
    try:
        return msgspec.convert(kept, Attachment)
    except msgspec.ValidationError:
        return None
