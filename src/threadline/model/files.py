"""Files that come with messages, as those who sent them see them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.model.inbound import Attachment
from threadline.model.message import Message

MAX_FILE_BYTES = 10_000_000
# What an attachment's handle begins with whose content the store has.
_STORED = "file:"


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the store keeps. `name` is a stranger's text, never a path."""

    file_id: str
    name: str
    mime: str
    size: int

    def attachment(self) -> Attachment:
        """The file as it comes with a message."""
        return Attachment(handle=f"{_STORED}{self.file_id}", name=self.name, mime=self.mime, size=self.size)


def file_id_of(body: bytes) -> str:
    """The id of a file with this content."""
    return hashlib.sha256(body).hexdigest()


def stored_id(handle: str) -> str | None:
    """The id of the stored file that a handle stands for; `None` for one that only its platform can fetch."""
    return handle.removeprefix(_STORED) if handle.startswith(_STORED) else None


def user_message(text: str, attachments: Sequence[Attachment] = ()) -> Message:
    """What somebody said as a transcript keeps it, with the files that came with it."""
    message: Message = {"role": "user", "content": text}
    if attachments:
        message["attachments"] = [msgspec.to_builtins(file) for file in attachments]
    return message


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """The files that came with a stored message. What is no file there is passed over: a transcript may hold anything."""
    found: object = message.get("attachments")
    return tuple(file for one in found if (file := _attachment(one)) is not None) if isinstance(found, list) else ()


def _attachment(kept: Any) -> Attachment | None:
    try:
        return msgspec.convert(kept, Attachment)
    except msgspec.ValidationError:
        return None
