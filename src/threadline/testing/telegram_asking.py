"""How a call of the Bot API is read: parameters from the query, a form, JSON or a multipart body, all of them as texts."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from threadline.testing.loopback_http import HttpRequest
from threadline.testing.telegram_values import BadRequest

T = TypeVar("T")


class Upload(msgspec.Struct, frozen=True):
    """A file that came with a request."""

    name: str
    mime: str
    body: bytes


class Asked:
    """The parameters of one call. What is missing or can't be read is a `BadRequest` in Telegram's words."""

    def __init__(self, texts: dict[str, str], uploads: dict[str, Upload]) -> None:
        self.texts = texts
        self.uploads = uploads

    def text(self, name: str) -> str:
        """A text; empty where there is none."""
        return self.texts.get(name, "")

    def number(self, name: str) -> int | None:
        """A whole number, if one is given."""
        value = self.texts.get(name, "")
        if not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise BadRequest(f"field {name!r} must be a valid Number") from None

    def needed_number(self, name: str) -> int:
        """A whole number that has to be there."""
        if (value := self.number(name)) is None:
            raise BadRequest(f"parameter {name!r} is required")
        return value

    def flag(self, name: str) -> bool:
        """Whether something is asked for."""
        return self.texts.get(name, "").lower() in ("true", "1", "yes")

    def decoded(self, name: str, kind: type[T], what: str) -> T | None:
        """A value that comes as JSON, if one is given. `what` is what Telegram calls it."""
        value = self.texts.get(name, "")
        if not value:
            return None
        try:
            # Numbers may come as texts.
            return msgspec.json.decode(value, type=kind, strict=False)
        except msgspec.DecodeError:
            raise BadRequest(f"can't parse {what} JSON object") from None


def read_call(request: HttpRequest) -> Asked:
    """The parameters of a request. The body's win over those of the query."""
    texts = dict(parse_qsl(request.query, keep_blank_values=True))
    uploads: dict[str, Upload] = {}
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        texts |= _from_json(request.body)
    elif kind.startswith("multipart/form-data"):
        for name, part in _parts(kind, request.body):
            if isinstance(part, Upload):
                uploads[name] = part
            else:
                texts[name] = part
    elif kind.startswith("application/x-www-form-urlencoded"):
        texts |= parse_qsl(_as_text(request.body), keep_blank_values=True)
    return Asked(texts, uploads)


def _from_json(body: bytes) -> dict[str, str]:
    if not body:
        return {}
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise BadRequest("can't parse JSON object") from None
    return {name: _written(value) for name, value in fields.items() if value is not None}


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _parts(kind: str, body: bytes) -> Iterator[tuple[str, str | Upload]]:
    boundary = _header(kind).get_param("boundary", header="content-type")
    marker = b"--" + str(boundary).encode()
    # A boundary stands at the start of a line; the first line has no end of a line before it.
    for part in (b"\r\n" + body).split(b"\r\n" + marker)[1:]:
        head, found, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if found:
            yield _part(head, content)


def _part(head: bytes, content: bytes) -> tuple[str, str | Upload]:
    headers = dict(_split_header(line) for line in head.decode("utf-8", "replace").split("\r\n"))
    disposition = _header(headers.get("content-disposition", ""))
    name = str(disposition.get_param("name", "", header="content-type"))
    file_name = disposition.get_param("filename", header="content-type")
    if file_name is None:
        return name, _as_text(content)
    return name, Upload(str(file_name), headers.get("content-type", "application/octet-stream"), content)


def _split_header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _header(value: str) -> Message:
    message = Message()
    message["content-type"] = value
    return message


def _as_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise BadRequest("strings must be encoded in UTF-8") from None
