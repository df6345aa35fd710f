"""Messages with what the store knows of them."""

from __future__ import annotations

from datetime import datetime
from typing import Self

import msgspec

from threadline.errors import UnknownMessage
from threadline.model.message import Message


class MessageRef(msgspec.Struct, frozen=True, order=True):
    """A message's lasting name: the session in whose log it stands, and its place there."""

    session_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.session_id}:{self.seq}"

    @classmethod
    def parse(cls, text: str | MessageRef) -> Self | MessageRef:
        """The name that `str` gave, or `UnknownMessage`."""
        if isinstance(text, MessageRef):
            return text
        session_id, colon, seq = text.rpartition(":")
        if not colon or not session_id or not (seq.isascii() and seq.isdigit()) or len(seq) > 8:
            raise UnknownMessage(f"{text[:120]!r} is no message id; those look like SESSION_ID:12")
        return cls(session_id, int(seq))


class TranscriptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a transcript. `author` is set where several people write in one session."""

    ref: MessageRef
    role: str
    at: datetime
    author: str | None = None
    redacted: bool = False
    message: Message


class Appended(msgspec.Struct, frozen=True, gc=False):
    """What an append did: `count` messages from `first_seq` on. `duplicate`: they were there already, nothing was added."""

    session_id: str
    first_seq: int
    count: int
    duplicate: bool = False

    @property
    def refs(self) -> list[MessageRef]:
        """The names of the messages."""
        return [MessageRef(self.session_id, self.first_seq + i) for i in range(self.count)]
