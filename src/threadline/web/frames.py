"""Server-sent events as bytes, and the places that their ids name. Pure.

An id tells stored positions, so whichever gateway is asked next can go on from there: which view was shown and how far, how
much of the running turn, and when the last notice was.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from threadline.store.rows import json_text

BEGINNING = b"retry: 1000\n\n"
# Says nothing: proxies cut what is silent, and a page knows that its stream still lives.
KEEPALIVE = b":\n\n"

_PLACE = re.compile(
    r"([0-9a-f]{12})\.([0-9]{1,9})\.([0-9]{1,18})(?:\.([A-Za-z0-9]{1,64})\.([0-9]{1,9})\.([0-9]{1,15}))?"
)
_encode = msgspec.json.Encoder().encode


class FeedCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far somebody has read. `told` is the time of the last notice, in microseconds."""

    view_mark: str
    seq: int
    last_notice_at: int = 0
    turn_id: str = ""
    attempt: int = 0
    last_event: int = 0

    def __str__(self) -> str:
        text = f"{self.view_mark}.{self.seq}.{self.last_notice_at}"
        return f"{text}.{self.turn_id}.{self.attempt}.{self.last_event}" if self.turn_id else text


def parse_cursor(text: str | None) -> FeedCursor | None:
    """The place that an id names; `None` for anything else: then all is told anew."""
    found = _PLACE.fullmatch(text or "")
    if found is None:
        return None
    mark, seq, told, turn_id, attempt, upto = found.groups()
    return FeedCursor(
        view_mark=mark,
        seq=int(seq),
        last_notice_at=int(told),
        turn_id=turn_id or "",
        attempt=int(attempt or 0),
        last_event=int(upto or 0),
    )


def encode_json(value: Any) -> bytes:
    """A value as JSON. Halves of surrogate pairs, which some agent may have said, become escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json_text(value).encode()


def frame(event: str, value: Any, place: object = None) -> bytes:
    """One event. Without a place it moves nobody's: who breaks off behind it is told it again."""
    data = encode_json(value)
    if place is None:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(place).encode(), event.encode(), data)
