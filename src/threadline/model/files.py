"""Files that go with messages, as those who sent them see them."""

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
# What chats show side by side in one message.
_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "video/mp4"})
# No more than that goes with one message, so that it can be sent, and held in memory meanwhile.
_MESSAGE_BYTES = 2 * MAX_FILE_BYTES


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the store keeps. `name` is a stranger's text, never a path."""

    file_id: str
    name: str
    mime: str
    size: int

    def attachment(self) -> Attachment:
        """The file as it comes with a message."""
        return Attachment(handle=f"{STORED_HANDLE}{self.file_id}", name=self.name, mime=self.mime, size=self.size)


def file_id_of(body: bytes) -> str:
    """The id of a file with this content."""
    return hashlib.sha256(body).hexdigest()


def user_message(text: str, attachments: Sequence[Attachment] = ()) -> Message:
    """What somebody said as a transcript keeps it, with the files that came with it."""
    return with_files({"role": "user", "content": text}, attachments)


def with_files(message: Message, attachments: Sequence[Attachment]) -> Message:
    """The message with the files that go with it; the same one where none do."""
    return message | {"attachments": [msgspec.to_builtins(file) for file in attachments]} if attachments else message


def stored_ids(attachments: Sequence[Attachment]) -> tuple[str, ...]:
    """The ids of those files that the store has."""
    return tuple(filter(None, (stored_id(file.handle) for file in attachments))) if attachments else ()


def file_messages(files: Iterable[Attachment], album: int) -> list[tuple[Attachment, ...]]:
    """Which files go together in one message: pictures that follow one another, at most `album`; any other goes alone."""
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
    """The files that came with a stored message. What is no file there is passed over: a transcript may hold anything."""
    found: object = message.get("attachments")
    return tuple(file for one in found if (file := _attachment(one)) is not None) if isinstance(found, list) else ()


def names_of(files: Iterable[Attachment]) -> str:
    """The names of files as a chat shows them. They are strangers' text: each stands for itself, and is of bounded length."""
    names = (safe_line(file.name, _NAME_CHARS).replace("`", "'") for file in files)
    return ", ".join(f"`{name or 'a file without a name'}`" for name in names)


def _attachment(kept: Any) -> Attachment | None:
    try:
        return msgspec.convert(kept, Attachment)
    except msgspec.ValidationError:
        return None
