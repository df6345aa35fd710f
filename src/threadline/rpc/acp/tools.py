"""What tools do, and the question whether they may."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadline.rpc.acp.content import ContentBlock
from threadline.rpc.acp.shape import Firm, Shape, otherwise

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class ContentPart(Shape, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """What a tool gave back, as any other content."""

    content: ContentBlock


class Diff(Shape, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """How a tool changed a file; without `old_text` it is new."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalRef(Shape, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A terminal of the client's, whose output it shows by itself."""

    terminal_id: str


ToolContent: TypeAlias = ContentPart | Diff | TerminalRef


class ToolLocation(Shape, frozen=True, kw_only=True):
    """Where in which file a tool is at work."""

    path: str
    line: int | None = None


class ToolCallPatch(Shape, frozen=True, kw_only=True):
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


class PermissionOption(Shape, frozen=True, kw_only=True):
    """One answer of those to choose from. `kind` is a `PermissionKind`; one that we don't know stays as it came."""

    option_id: str
    name: str
    kind: Annotated[str, otherwise("")]


class Selected(Firm, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    """A person chose this option."""

    option_id: str


class Cancelled(Firm, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before anyone chose."""


PermissionOutcome: TypeAlias = Selected | Cancelled


class RequestPermissionRequest(Shape, frozen=True, kw_only=True):
    """May this tool run? To be answered by a person, or by a rule that a person made."""

    session_id: str
    tool_call: ToolCallPatch
    options: Annotated[tuple[PermissionOption, ...], otherwise(())]


class RequestPermissionResponse(Firm, frozen=True, kw_only=True):
    """What was decided."""

    outcome: PermissionOutcome
