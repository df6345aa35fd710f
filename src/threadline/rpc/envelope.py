"""JSON-RPC messages: as values, and as lines."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from threadline.errors import ThreadlineError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
CANCELLED: Final = -32800

NULL: Final = Raw(b"null")
_NO_PARAMS: Final = Raw(b"{}")
_ABSENT: Final = Raw(b"")

_NOT_JSON: Final = "This line is not JSON in UTF-8. Send one JSON object on each line."
_TOO_DEEP: Final = "This message is nested too deeply. Send it with less nesting."
_NOT_ONE: Final = "This is no request, notification or answer. Send one JSON-RPC object on each line, and no batches."
NO_METHOD: Final = "This message has no method. Name one as a string, or send a result or an error with the id."


class RpcError(ThreadlineError):
    """An error answer: received from the other side, or to be sent to it."""

    def __init__(self, code: int, message: str, data: object | None = None) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data


class RequestLine(msgspec.Struct, frozen=True, gc=False):
    """A request: expects one answer with its id."""

    id: Raw
    method: str
    params: Raw


class NotificationLine(msgspec.Struct, frozen=True, gc=False):
    """A notification: is never answered."""

    method: str
    params: Raw


class ResponseLine(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request of ours: its result or its error. With neither, the waiting request decides what it means."""

    id: Raw
    result: Raw | None = None
    error: Raw | None = None


class InvalidLine(msgspec.Struct, frozen=True, gc=False):
    """A line that cannot be acted on, and the error that its sender gets."""

    id: Raw
    code: int
    message: str


Message: TypeAlias = RequestLine | NotificationLine | ResponseLine | InvalidLine


class _Envelope(msgspec.Struct, gc=False):
    id: Raw = _ABSENT
    # Read when the line is known to be whole: of a name that is given twice, only the last counts.
    method: Raw = _ABSENT
    params: Raw = _NO_PARAMS
    result: Raw = _ABSENT
    error: Raw = _ABSENT


class _Body(msgspec.Struct, gc=False):
    code: int = INTERNAL
    message: str = ""
    data: Raw = NULL


class _CallLine(msgspec.Struct, gc=False):
    id: int
    method: str
    params: object
    jsonrpc: Literal["2.0"] = "2.0"


class _SaidLine(msgspec.Struct, gc=False):
    method: str
    params: object
    jsonrpc: Literal["2.0"] = "2.0"


class _ResultLine(msgspec.Struct, gc=False):
    id: Raw
    result: object
    jsonrpc: Literal["2.0"] = "2.0"


class _Failure(msgspec.Struct, gc=False, omit_defaults=True):
    code: int
    message: str
    data: object | None = None


class _FailureLine(msgspec.Struct, gc=False):
    id: Raw
    error: _Failure
    jsonrpc: Literal["2.0"] = "2.0"


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Envelope).decode
_decode_method: Final = msgspec.json.Decoder(str).decode
_check: Final = msgspec.json.Decoder(Raw).decode


def parse(line: bytes) -> Message:
    """Return the message on a line. Never raises: an unreadable line is an `InvalidLine`."""
    try:
        if not line.isascii():
            line.decode()
        return _sorted(_decode(line))
    except msgspec.ValidationError:
        return _no_object(line)
    except msgspec.DecodeError:
        mended = _repaired(line)
        return parse(mended) if mended != line else InvalidLine(NULL, PARSE_ERROR, _NOT_JSON)
    except UnicodeDecodeError:
        return InvalidLine(NULL, PARSE_ERROR, _NOT_JSON)
    except RecursionError:
        return InvalidLine(NULL, PARSE_ERROR, _TOO_DEEP)


def _sorted(envelope: _Envelope) -> Message:
    if envelope.method is not _ABSENT:
        return _asked(envelope)
    if envelope.id is _ABSENT:
        return InvalidLine(NULL, INVALID_REQUEST, NO_METHOD)
    if envelope.error is not _ABSENT and envelope.error != NULL:
        return ResponseLine(envelope.id, error=envelope.error)
    return ResponseLine(envelope.id, None if envelope.result is _ABSENT else envelope.result)


def _asked(envelope: _Envelope) -> Message:
    try:
        method = _decode_method(envelope.method)
    except msgspec.ValidationError:
        return InvalidLine(NULL if envelope.id is _ABSENT else envelope.id, INVALID_REQUEST, NO_METHOD)
    params = _NO_PARAMS if envelope.params == NULL else envelope.params
    return NotificationLine(method, params) if envelope.id is _ABSENT else RequestLine(envelope.id, method, params)


def _no_object(line: bytes) -> InvalidLine:
    try:
        # That it is no object is found at its first byte; whether it is JSON at all, only at its last.
        _check(line)
    except msgspec.DecodeError:
        return InvalidLine(NULL, PARSE_ERROR, _NOT_JSON)
    except RecursionError:
        return InvalidLine(NULL, PARSE_ERROR, _TOO_DEEP)
    return InvalidLine(NULL, INVALID_REQUEST, _NOT_ONE)


# More of them than any editor writes by mistake: looking at each would hold up everything else.
_MAX_ESCAPES: Final = 100_000
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)


def _repaired(line: bytes) -> bytes:
    """Replace each half of a surrogate pair by U+FFFD: editors send one if they cut a text in the middle of an emoji."""
    if line.count(b"\\") > _MAX_ESCAPES:
        return line
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)


def id_key(raw: Raw) -> bytes:
    """Return the same key for every way to write the same id."""
    written = bytes(raw)
    if b"\\" not in written:
        return written
    try:
        return _encode(msgspec.json.decode(written))
    except (msgspec.DecodeError, RecursionError):
        return written


def rpc_error(raw: Raw) -> RpcError:
    """Return the error that an answer carries, as far as it can be read."""
    try:
        body = msgspec.json.decode(raw, type=_Body)
        return RpcError(body.code, body.message, msgspec.json.decode(body.data))
    except (msgspec.DecodeError, RecursionError):
        return RpcError(INTERNAL, "The other side answered with an error that can't be read.")


def call_line(number: int, method: str, params: object) -> bytes:
    """Encode a request of ours. Raises TypeError or ValueError for params that have no JSON."""
    return _line(_CallLine(number, method, params))


def notification_line(method: str, params: object) -> bytes:
    """Encode a notification of ours. Raises TypeError or ValueError for params that have no JSON."""
    return _line(_SaidLine(method, params))


def result_line(to: Raw, result: object) -> bytes:
    """Encode the answer to a request. Raises TypeError or ValueError for a result that has no JSON."""
    return _line(_ResultLine(to, result))


def failure_line(to: Raw, code: int, message: str, data: object | None = None) -> bytes:
    """Encode the error answer to a request. Raises TypeError or ValueError for data that has no JSON."""
    return _line(_FailureLine(to, _Failure(code, message, data)))


def _line(message: msgspec.Struct) -> bytes:
    line = _encode(message)
    # A newline can only come with a Raw, where it is white space.
    return (line.replace(b"\n", b" ") if b"\n" in line else line) + b"\n"
