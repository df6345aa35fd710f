"""What a person says in an editor: blocks of text, links, files and pictures, as one text and the files that go with it. Pure."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote, urlsplit

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.files import MAX_FILE_BYTES
from threadline.model.safe_text import safe_line
from threadline.rpc.acp import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)
from threadline.texts import editors as texts

_FENCES = re.compile("`{3,}")
_NAME_CHARS = 120
_URI_CHARS = 2_000
# What ends a link in Markdown, or makes it another one.
_PLAIN_IN_URI = "!#$%&'*+,-./:;=?@^_|~"


class Enclosed(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a prompt. `name` is a stranger's text, never a path."""

    name: str
    mime: str
    body: bytes


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt: what is said, and what comes with it."""

    text: str
    files: tuple[Enclosed, ...] = ()


def read_prompt(blocks: Sequence[ContentBlock]) -> Heard:
    """A prompt as the agent is given it. `InvalidRequest` for one with nothing in it, or with what can't be taken.

    A link stands where it was put. What is in a file stands behind all that was said, fenced, so that nothing in it passes for
    the person's own words.
    """
    said: list[str] = []
    behind: list[str] = []
    files: list[Enclosed] = []
    for block in blocks:
        match block:
            case TextContent(text=text):
                said.append(text)
            case ImageContent():
                files.append(_picture(block))
            case ResourceLink():
                _mention(said, block.title or block.name, block.uri)
            case EmbeddedResource(resource=resource):
                _mention(said, _name_of(resource.uri, resource.mime_type), resource.uri)
                if resource.text is not None:
                    behind.append(_fenced(resource.uri, resource.text))
                else:
                    files.append(_blob(resource))
            case AudioContent():
                raise InvalidRequest(texts.NO_SOUND)
    text = "\n\n".join(part for part in ("".join(said), *behind) if part)
    if not text.strip() and not files:
        raise InvalidRequest(texts.NOTHING_SAID)
    return Heard(text=text, files=tuple(files))


def _mention(said: list[str], name: str, uri: str) -> None:
    """Names a file where it was named, apart from the words around it."""
    if said and said[-1] and not said[-1][-1].isspace():
        said.append(" ")
    label = re.sub(r"[\[\]`\\]", "", safe_line(name, _NAME_CHARS)) or "file"
    said.append(f"[@{label}]({quote(safe_line(uri, _URI_CHARS), safe=_PLAIN_IN_URI)}) ")


def _fenced(uri: str, text: str) -> str:
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{safe_line(uri, _URI_CHARS)}:\n{fence}\n{text}\n{fence}"


def _picture(block: ImageContent) -> Enclosed:
    name = _name_of(block.uri, block.mime_type, "image")
    return _enclosed(name, block.mime_type, block.data)


def _blob(resource: Resource) -> Enclosed:
    name = _name_of(resource.uri, resource.mime_type)
    return _enclosed(name, resource.mime_type or "application/octet-stream", resource.blob or "")


def _enclosed(name: str, mime: str, encoded: str) -> Enclosed:
    what = safe_line(name, _NAME_CHARS)
    too_large = texts.FILE_TOO_LARGE.format(what=what, megabytes=MAX_FILE_BYTES // 1_000_000)
    if len(encoded) > MAX_FILE_BYTES * 2:
        raise InvalidRequest(too_large)
    try:
        body = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise InvalidRequest(texts.NOT_BASE64.format(what=what)) from cause
    if len(body) > MAX_FILE_BYTES:
        raise InvalidRequest(too_large)
    if not body:
        raise InvalidRequest(texts.FILE_EMPTY.format(what=what))
    return Enclosed(name=name, mime=mime, body=body)


def _name_of(uri: str | None, mime: str | None, otherwise: str = "file") -> str:
    """What a person would call the file at an address: its last part."""
    try:
        last = unquote(urlsplit(uri or "").path).rstrip("/").rpartition("/")[2]
    except ValueError:
        last = ""
    return safe_line(last, _NAME_CHARS) or otherwise + (mimetypes.guess_extension(mime or "") or "")
