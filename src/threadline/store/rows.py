"""Rows to values: stored sessions, JSON columns, pages and their cursors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from threadline.clock import from_instant
from threadline.errors import InvalidCursor, InvalidRequest
from threadline.model.inbound import Inbound
from threadline.model.ownership import Ownership
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.engine.database import Row

# Above every row number.
NO_LIMIT = 1 << 62

_decode_json = msgspec.json.Decoder().decode
_decode_source = msgspec.json.Decoder(SessionSource).decode


class StoredSession(msgspec.Struct, frozen=True):
    """A session as operations need it: the public entry and the numbers behind it."""

    entry: SessionEntry
    pk: int
    address_pk: int
    chat: str | None
    view_version: int
    redo: tuple[int, ...]
    redo_seq: int
    last_seq: int
    had_activity: bool
    is_current: bool
    listed_at: int

    @property
    def ownership(self) -> Ownership:
        """Its owner, and the chat where it is current."""
        return Ownership(self.entry.owner, self.chat)


def entry_of(row: Row) -> SessionEntry:
    """Return the public entry of a row of the `entry` fragment."""
    (key, session_id, created, updated, active, origin, platform, chat_type, display_name, title, *usage) = row[:18]
    (reset_reason, reset_had_activity, flushed_seq, last_seq, model, cwd, runtime) = row[18:25]
    (parent, ended, end_reason, message_count, owner) = row[25:30]
    return SessionEntry(
        session_key=key,
        session_id=session_id,
        created_at=from_instant(created),
        updated_at=from_instant(updated),
        active_at=from_instant(active),
        origin=source_of(origin),
        platform=platform,
        chat_type=chat_type,
        display_name=display_name,
        title=title,
        input_tokens=usage[0],
        output_tokens=usage[1],
        cache_read_tokens=usage[2],
        cache_write_tokens=usage[3],
        reasoning_tokens=usage[4],
        last_prompt_tokens=usage[5],
        cost_micros=usage[6],
        cost_status=usage[7],
        was_auto_reset=reset_reason is not None,
        auto_reset_reason=reset_reason,
        reset_had_activity=bool(reset_had_activity),
        memory_flushed=flushed_seq != 0 and max(flushed_seq, 0) == last_seq,
        model=model,
        cwd=cwd,
        runtime=json_value(runtime),
        parent_session_id=parent,
        ended_at=None if ended is None else from_instant(ended),
        end_reason=end_reason,
        message_count=message_count,
        owner=owner,
        is_shared=owner is None and chat_type != "dm",
    )


def session_of(row: Row) -> StoredSession:
    """Return the stored session of a row of the `entry` fragment."""
    pk, address_pk, chat, version, redo, redo_seq, had_activity, current_pk, listed_at = row[30:]
    return StoredSession(
        entry=entry_of(row),
        pk=pk,
        address_pk=address_pk,
        chat=chat,
        view_version=version,
        redo=() if redo == "[]" else tuple(_decode_json(redo)),
        redo_seq=redo_seq,
        last_seq=row[21],
        had_activity=bool(had_activity),
        is_current=current_pk == pk,
        listed_at=listed_at,
    )


# The same few sources are read again and again: that of a session with each of its turns.
@lru_cache(maxsize=1024)
def source_of(text: str) -> SessionSource:
    """Return the source of a stored JSON text."""
    try:
        return _decode_source(text)
    except msgspec.DecodeError:
        return SessionSource.from_dict(json.loads(text))


def json_text(value: Any) -> str:
    """Return JSON text for a column; half surrogates and NUL survive as escapes."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":"))


def json_value(text: str) -> Any:
    """Return the value of a JSON column."""
    if text == "{}":
        return {}
    try:
        return _decode_json(text)
    except msgspec.DecodeError:
        return json.loads(text)


T = TypeVar("T")
MAX_PAGE = 1_000
END = 2**62


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a longer list. It iterates like one; `cursor` asks for the next part, `None` at the end."""

    items: list[T]
    cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]


def check_limit(limit: int) -> None:
    """Raise `InvalidRequest` unless a page has at least one item and at most a thousand."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PAGE}, not {limit}")


def encode_cursor(kind: str, *numbers: int) -> str:
    """Return an opaque place in a listing."""
    text = ".".join([kind, *(str(number) for number in numbers)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str, count: int) -> tuple[int, ...]:
    """Return the place that `encode_cursor` named, or raise `InvalidCursor`."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        cursor_kind, *parts = text.split(".")
        numbers = tuple(int(part) for part in parts)
    except (ValueError, binascii.Error) as cause:
        raise InvalidCursor from cause
    if cursor_kind != kind or len(numbers) != count or any(abs(number) > END for number in numbers):
        raise InvalidCursor
    return numbers


def json_reader(kind: type[T]) -> Callable[[str], T]:
    """Return a function that reads JSON columns written by `json_text`, escaped half surrogates included."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: str) -> T:
        try:
            return decode(text)
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(text), kind)

    return read


decode_event = json_reader(Inbound)
