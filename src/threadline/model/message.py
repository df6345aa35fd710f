"""A message is whatever JSON object the caller says, kept to the letter: bytes in, equal JSON out."""

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
# A stored message as JSON: text, or its bytes where an engine gives those faster.
Body: TypeAlias = str | bytes

MAX_DEPTH = 200
MAX_BYTES = 32 * 1024 * 1024
MAX_ROLE_CHARS = 64
# Some 4,200 digits. Beyond 4,300 Python neither writes nor reads a whole number.
MAX_NUMBER_BITS = 14_000
ACTIVE_ROLES = frozenset({"user", "assistant"})
REMOVED = "[removed]"


class EncodedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message ready to be stored: its role and its JSON text."""

    role: str
    body: str


def text_of(content: object) -> str:
    """The text of a message's content: as it is, or that of its blocks, a line each."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") if isinstance(block, dict) else block for block in content)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def encode_message(message: Mapping[str, Any]) -> EncodedMessage:
    """The JSON text of `message`. What JSON can't keep, is too deep or too big raises `InvalidMessage`."""
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
    # Characters are counted first: only where they come near the limit do their bytes matter.
    if len(body) * 4 > MAX_BYTES and len(body.encode()) > MAX_BYTES:
        raise InvalidMessage(
            f"the message is larger than {MAX_BYTES // 1024 // 1024} MB as JSON;"
            " store the attachment elsewhere and refer to it"
        )
    return EncodedMessage(str.__str__(role), body)


def encode_messages(messages: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[EncodedMessage]:
    """One message or several, encoded; all are checked before any is stored."""
    if type(messages) is dict or isinstance(messages, Mapping):
        return [encode_message(messages)]
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"a message is an object with a role, not {type(messages).__name__}; nothing was stored")
    return [encode_message(message) for message in messages]


def decode_body(body: Body) -> Message:
    """The message of a stored JSON text."""
    try:
        decoded: Message = _decode(body)
    except msgspec.DecodeError:
        # Half of a surrogate pair: the fast parser refuses what the standard one takes.
        decoded = json.loads(body)
    return decoded


class LazyMessages(Sequence[Message]):
    """Messages that are read from their stored texts once somebody looks at them: not every agent does."""

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
    """8 bytes that tell whether an idempotency key comes again with other content."""
    # JSON text holds no raw NUL, so it ends each.
    text = "".join([message.body + "\x00" for message in messages])
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def tombstone(body: str) -> EncodedMessage:
    """What stays of a redacted message: its role, and the ids that tie tool calls to their results."""
    message = decode_body(body)
    kept: Message = {"role": message["role"], "content": REMOVED}
    if isinstance(call_id := message.get("tool_call_id"), str):
        kept["tool_call_id"] = call_id
    if isinstance(calls := message.get("tool_calls"), list):
        kept["tool_calls"] = [_emptied_call(call) for call in calls if isinstance(call, dict)]
    return encode_message(kept)


def searchable_text(message: Mapping[str, Any]) -> str:
    """The words of a message that a search finds: its text, text blocks, tool calls; no thoughts."""
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
        # Half of a surrogate pair has no UTF-8; as an escape it survives.
        return json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """What other kinds of text, numbers and mappings (`require_json` lets no more through) are as JSON."""
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
    """Raises `InvalidMessage` unless JSON keeps `value` as it is."""
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
