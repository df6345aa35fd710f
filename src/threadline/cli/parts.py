"""What of a message people read: its text, the names of its files, its tool calls, and a word for what is neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.model.files import attachments_of

Kind: TypeAlias = Literal["text", "call", "other"]


class Part(msgspec.Struct, frozen=True):
    """A piece of a message, still in the sender's own characters."""

    kind: Kind
    text: str


def parts_of(message: Mapping[str, Any]) -> list[Part]:
    """The readable parts of a message in their order; of an empty one there are none."""
    files = (Part("other", f"(file: {file.name or 'without a name'})") for file in attachments_of(dict(message)))
    parts = (*_content(message.get("content")), *files, *_calls(message.get("tool_calls")))
    return [part for part in parts if part.text]


def _content(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part("text", content)
    elif isinstance(content, list):
        yield from map(_block, content)
    elif content is not None:
        yield Part("other", f"({type(content).__name__})")


def _block(block: object) -> Part:
    if isinstance(block, str):
        return Part("text", block)
    if not isinstance(block, dict):
        return Part("other", f"({type(block).__name__})")
    text = block.get("text", block.get("content"))
    if isinstance(text, str):
        return Part("text", text)
    kind = block.get("type")
    return Part("other", f"({kind})" if isinstance(kind, str) else "(block)")


def _calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            shown = arguments if isinstance(arguments, str) else ""
            yield Part("call", f"{name if isinstance(name, str) else '?'}({shown})")
