"""What all messages of the protocol have in common.

Names on the wire are camel case. What has its default is not written; what we don't know is not read, `_meta` included.
A value that fails to fit is not the end of a message: see `mending`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value on the wire. Where it is read, an optional field that does not fit counts as not given, and an item of a
    list that does not fit is left out: peers run ahead of us, and their news must not cost us the rest."""


class Firm(Shape, frozen=True, kw_only=True):
    """A value of which nothing may be lost in silence, since someone asked for it: only null counts as not given."""


def otherwise(value: object) -> msgspec.Meta:
    """Marks a field that is always written, but may be missing or unfit where it is read: it counts as `value` then."""
    return msgspec.Meta(extra={"otherwise": value})


def as_raw(text: str) -> msgspec.Raw:
    """This JSON text as a value on one line. A text that is no JSON goes as a string, so that a line is never torn."""
    said = text.encode("utf-8", "replace")
    try:
        value: Any = msgspec.json.decode(said)
    except (msgspec.DecodeError, RecursionError):
        value = said.decode()
    return msgspec.Raw(msgspec.json.encode(value))
