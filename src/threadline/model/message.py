"""Messages: any JSON object with a role, stored without change, and the references that name stored messages."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeAlias, overload

import msgspec

from threadline.errors import InvalidMessage, UnknownMessage

Message: TypeAlias = dict[str, Any]
# A stored message as JSON: text, or bytes where an engine returns those faster.
Body: TypeAlias = str | bytes

MAX_DEPTH = 200
MAX_BYTES = 32 * 1024 * 1024
MAX_ROLE_CHARS = 64
# About 4,200 digits. Python neither writes nor reads integers of more than 4,300.
MAX_NUMBER_BITS = 14_000
ACTIVE_ROLES = frozenset({"user", "assistant"})
REMOVED = "[removed]"


class EncodedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message ready to be stored: its role and its JSON text."""

    role: str
    body: str


def text_of(content: object) -> str:
    """Return the text of a message's content. Text blocks are joined, one per line."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") if isinstance(block, dict) else block for block in content)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def encode_message(message: Mapping[str, Any]) -> EncodedMessage:
    """Return the JSON text of `message`. Raises `InvalidMessage` if it is no JSON, too deep or too large."""
    if type(message) is not dict and not isinstance(message, Mapping):
        raise InvalidMessage(f"a message is an object with a role, not {type(message).__name__}; nothing was stored")
    role = message.get("role")
    if not isinstance(role, str) or not role or len(role) > MAX_ROLE_CHARS or not role.isprintable():
        raise InvalidMessage(
            "a message needs a role, such as 'user' or 'assistant': short, printable text; nothing was stored"
        )
    for name, value in message.items():
        if type(name) is not str or type(value) is not str:
            require_json(message, 1)
            break
    body = _dump(message)
    # Counting characters is cheap; bytes are counted only near the limit.
    if len(body) * 4 > MAX_BYTES and len(body.encode()) > MAX_BYTES:
        raise InvalidMessage(
            f"the message is larger than {MAX_BYTES // 1024 // 1024} MB as JSON;"
            " store the attachment elsewhere and refer to it"
        )
    return EncodedMessage(str.__str__(role), body)


def encode_messages(messages: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[EncodedMessage]:
    """Encode one message or several. If one is invalid, none is returned."""
    if type(messages) is dict or isinstance(messages, Mapping):
        return [encode_message(messages)]
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"a message is an object with a role, not {type(messages).__name__}; nothing was stored")
    return [encode_message(message) for message in messages]


def decode_body(body: Body) -> Message:
    """Return the message of a stored JSON text."""
    try:
        decoded: Message = _decode(body)
    except msgspec.DecodeError:
        # A single surrogate: msgspec refuses it, the standard parser reads it.
        decoded = json.loads(body)
    return decoded


class LazyMessages(Sequence[Message]):
    """A sequence of messages that is decoded on first access: not every agent reads its history."""

    __slots__ = ("_bodies", "_read")

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._bodies = bodies
        self._read: tuple[Message, ...] | None = None

    def __len__(self) -> int:
        return len(self._bodies)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | Sequence[Message]:
        if isinstance(place, slice) and self._read is None:
            return LazyMessages(self._bodies[place])
        return self._messages()[place]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._messages() == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # messages can be changed

    def __repr__(self) -> str:
        return repr(self._messages())

    def _messages(self) -> tuple[Message, ...]:
        if self._read is None:
            self._read = tuple(decode_body(body) for body in self._bodies)
        return self._read


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def content_digest(messages: Sequence[EncodedMessage]) -> bytes:
    """Return 8 bytes that tell whether an idempotency key is repeated with other content."""
    # JSON text holds no raw NUL, so NUL can separate the messages.
    text = "".join([message.body + "\x00" for message in messages])
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def tombstone(body: str) -> EncodedMessage:
    """Return what remains of a redacted message: its role, and the ids that connect tool calls with their results."""
    message = decode_body(body)
    kept: Message = {"role": message["role"], "content": REMOVED}
    if isinstance(call_id := message.get("tool_call_id"), str):
        kept["tool_call_id"] = call_id
    if isinstance(calls := message.get("tool_calls"), list):
        kept["tool_calls"] = [_emptied_call(call) for call in calls if isinstance(call, dict)]
    return encode_message(kept)


def searchable_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message that search indexes: text, text blocks and tool calls, but no thoughts."""
    return "\n".join(_texts(message))


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, str):
                yield block
            elif isinstance(block, dict) and isinstance(text := block.get("text", block.get("content")), str):
                yield text
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        for name in ("name", "arguments"):
            if isinstance(function, dict) and isinstance(function.get(name), str):
                yield function[name]


def _emptied_call(call: Message) -> Message:
    kept: Message = {name: call[name] for name in ("id", "type") if isinstance(call.get(name), str)}
    function = call.get("function")
    if isinstance(function, dict):
        name = function.get("name")
        kept["function"] = {"name": name if isinstance(name, str) else "", "arguments": "{}"}
    return kept


def _dump(message: Mapping[str, Any]) -> str:
    try:
        return _encode(message).decode()
    except UnicodeEncodeError:
        # A single surrogate can't be encoded as UTF-8; the standard module writes it as an escape.
        return json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """Convert subclasses of text and numbers, and mappings, to plain JSON values. `require_json` has refused the rest."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} passed as JSON")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def require_json(value: object, depth: int = 1) -> None:
    """Raise `InvalidMessage` unless JSON can hold `value` without loss."""
    if value is None or isinstance(value, (str, bool)):
        return
    if isinstance(value, (int, float)):
        _require_number(value)
    elif depth > MAX_DEPTH:
        raise InvalidMessage(f"the message is nested more than {MAX_DEPTH} levels deep; nothing was stored")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise InvalidMessage(f"the field {name!r} has a name that is not text; nothing was stored")
            require_json(inner, depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            require_json(inner, depth + 1)
    else:
        raise InvalidMessage(f"{type(value).__name__} values have no place in JSON; nothing was stored")


def _require_number(value: float) -> None:
    if isinstance(value, int):
        if value.bit_length() > MAX_NUMBER_BITS:
            raise InvalidMessage("the message holds a number of thousands of digits; nothing was stored")
    elif not math.isfinite(value):
        raise InvalidMessage(f"{value} has no place in JSON; nothing was stored")


class MessageRef(msgspec.Struct, frozen=True, order=True):
    """The permanent name of a message: the session that logged it, and its position in that log."""

    session_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.session_id}:{self.seq}"

    @classmethod
    def parse(cls, text: str | MessageRef) -> Self | MessageRef:
        """Return the reference that `str` wrote. Raises `UnknownMessage` for other text."""
        if isinstance(text, MessageRef):
            return text
        session_id, colon, seq = text.rpartition(":")
        if not colon or not session_id or not (seq.isascii() and seq.isdigit()) or len(seq) > 8:
            raise UnknownMessage(f"{text[:120]!r} is no message id; those look like SESSION_ID:12")
        return cls(session_id, int(seq))


class TranscriptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a transcript. `author` is set if several people write in the session."""

    ref: MessageRef
    role: str
    at: datetime
    author: str | None = None
    redacted: bool = False
    message: Message


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The result of an append: `count` messages from `first_seq` on. `duplicate`: they were stored before, nothing was added."""

    session_id: str
    first_seq: int
    count: int
    duplicate: bool = False

    @property
    def refs(self) -> list[MessageRef]:
        """Return the references of the messages."""
        return [MessageRef(self.session_id, self.first_seq + i) for i in range(self.count)]
