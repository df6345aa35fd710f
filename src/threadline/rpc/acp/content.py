"""What all messages of the protocol have in common.

Names on the wire are camel case. What has its default is not written; what we don't know is not read, `_meta` included.
A value that fails to fit is not the end of a message: see `decode`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "AcpStruct",
    "Annotations",
    "AudioContent",
    "Cancelled",
    "ContentBlock",
    "ContentPart",
    "Diff",
    "EmbeddedResource",
    "ImageContent",
    "PermissionKind",
    "PermissionOption",
    "PermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "Resource",
    "ResourceLink",
    "Selected",
    "StrictStruct",
    "TerminalRef",
    "TextContent",
    "ToolCallPatch",
    "ToolContent",
    "ToolKind",
    "ToolLocation",
    "ToolStatus",
    "raw_json",
]

Role: TypeAlias = Literal["assistant", "user"]

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AcpStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value on the wire.

    When it is read, an optional field that does not fit counts as not given, and an item of a list that does not fit is left out:
    peers run ahead of us, and their additions must not cost us the rest.
    """


class StrictStruct(AcpStruct, frozen=True, kw_only=True):
    """A value in which nothing may be dropped silently, since it was requested: only null counts as not given."""


def default_when_invalid(value: object) -> msgspec.Meta:
    """Mark a field that is always written, but may be missing or invalid when it is read: it is then `value`."""
    return msgspec.Meta(extra={"otherwise": value})


def raw_json(text: str) -> msgspec.Raw:
    """Return this JSON text as a value on one line. A text that is not JSON becomes a string, so that a line is never torn."""
    said = text.encode("utf-8", "replace")
    try:
        value: Any = msgspec.json.decode(said)
    except (msgspec.DecodeError, RecursionError):
        value = said.decode()
    return msgspec.Raw(msgspec.json.encode(value))


class Annotations(AcpStruct, frozen=True, kw_only=True):
    """For whom a block is meant, how much it matters, and how old it is."""

    audience: tuple[Role, ...] | None = None
    last_modified: str | None = None
    priority: float | None = None


class Block(AcpStruct, frozen=True, kw_only=True, tag_field="type"):
    """What every block may carry."""

    annotations: Annotations | None = None


class TextContent(Block, frozen=True, kw_only=True, tag="text"):
    """Text, as Markdown."""

    text: str


class ImageContent(Block, frozen=True, kw_only=True, tag="image"):
    """A picture; `data` is base64."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(Block, frozen=True, kw_only=True, tag="audio"):
    """Sound; `data` is base64."""

    data: str
    mime_type: str


class ResourceLink(Block, frozen=True, kw_only=True, tag="resource_link"):
    """A file that the agent may fetch for itself."""

    name: str
    uri: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Resource(AcpStruct, frozen=True, kw_only=True):
    """A file in full: it has either `text` or, as base64, a `blob`."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError("A resource has either `text` or `blob`.")


class EmbeddedResource(Block, frozen=True, kw_only=True, tag="resource"):
    """A file that came along."""

    resource: Resource


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


class ContentPart(AcpStruct, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """What a tool gave back, as any other content."""

    content: ContentBlock


class Diff(AcpStruct, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """How a tool changed a file; without `old_text` it is new."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalRef(AcpStruct, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A terminal of the client's, whose output it shows by itself."""

    terminal_id: str


ToolContent: TypeAlias = ContentPart | Diff | TerminalRef


class ToolLocation(AcpStruct, frozen=True, kw_only=True):
    """Where in which file a tool is at work."""

    path: str
    line: int | None = None


class ToolCallPatch(AcpStruct, frozen=True, kw_only=True):
    """What is new about a tool call: what is not given stays as it was, a list replaces the one before.

    `raw_input` and `raw_output` are any JSON, on one line: `as_raw` makes them.
    """

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: tuple[ToolContent, ...] | None = None
    locations: tuple[ToolLocation, ...] | None = None
    raw_input: msgspec.Raw | UnsetType = UNSET
    raw_output: msgspec.Raw | UnsetType = UNSET


class PermissionOption(AcpStruct, frozen=True, kw_only=True):
    """One answer of those to choose from. `kind` is a `PermissionKind`; one that we don't know stays as it came."""

    option_id: str
    name: str
    kind: Annotated[str, default_when_invalid("")]


class Selected(StrictStruct, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    """A person chose this option."""

    option_id: str


class Cancelled(StrictStruct, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before anyone chose."""


PermissionOutcome: TypeAlias = Selected | Cancelled


class RequestPermissionRequest(AcpStruct, frozen=True, kw_only=True):
    """May this tool run? To be answered by a person, or by a rule that a person made."""

    session_id: str
    tool_call: ToolCallPatch
    options: Annotated[tuple[PermissionOption, ...], default_when_invalid(())]


class RequestPermissionResponse(StrictStruct, frozen=True, kw_only=True):
    """What was decided."""

    outcome: PermissionOutcome
