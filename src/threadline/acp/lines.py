"""Updates of a session as the lines that tell them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from threadline.rpc.acp.client_methods import KnownUpdate

_encode = msgspec.json.Encoder().encode
TAIL = b"}}\n"


def head_of(session_id: str) -> bytes:
    """What every line about a session begins with; the update and `TAIL` follow."""
    named = encoded(session_id)
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":' + named + b',"update":'


def line_of(head: bytes, update: KnownUpdate) -> bytes:
    """The line that tells an update. What no peer can read in it, halves of characters, is replaced."""
    return b"".join((head, encoded(update), TAIL))


def encoded(value: object) -> bytes:
    """A value as JSON on one line, whatever its texts hold."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value
