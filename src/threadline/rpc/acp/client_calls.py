"""What agents ask of clients besides permission: files, terminals, and words from people."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from threadline.rpc.acp.calls import Pair
from threadline.rpc.acp.shape import Firm, Shape, otherwise

ElicitationValue: TypeAlias = str | int | float | bool | tuple[str, ...]


class ReadTextFileRequest(Firm, frozen=True, kw_only=True):
    """A file's text, or `limit` lines of it from `line` on, which counts from 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(Firm, frozen=True, kw_only=True):
    """What is in it."""

    content: str


class WriteTextFileRequest(Firm, frozen=True, kw_only=True):
    """Make the file hold this."""

    session_id: str
    path: str
    content: str


class CreateTerminalRequest(Firm, frozen=True, kw_only=True):
    """Start a command; no more than `output_byte_limit` of its latest output is kept."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[Pair, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(Firm, frozen=True, kw_only=True):
    """It runs."""

    terminal_id: str


class OneTerminal(Firm, frozen=True, kw_only=True):
    """Params that name a terminal and no more."""

    session_id: str
    terminal_id: str


class TerminalExit(Shape, frozen=True, kw_only=True):
    """How a command ended: by itself, or by a signal."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(Firm, frozen=True, kw_only=True):
    """What it wrote so far; without `exit_status` it still runs."""

    output: str
    truncated: bool
    exit_status: TerminalExit | None = None


class EnumOption(Shape, frozen=True, kw_only=True):
    """A value to choose, with words for it."""

    const: str
    title: str
    description: str | None = None


class Asked(Shape, frozen=True, kw_only=True, tag_field="type"):
    """What every field of a form may have."""

    title: str | None = None
    description: str | None = None


class StringProperty(Asked, frozen=True, kw_only=True, tag="string"):
    """Text; with `enum` or `one_of` one of these."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = None
    enum: tuple[str, ...] | None = None
    one_of: tuple[EnumOption, ...] | None = None


class NumberProperty(Asked, frozen=True, kw_only=True, tag="number"):
    """A number."""

    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None


class IntegerProperty(Asked, frozen=True, kw_only=True, tag="integer"):
    """A whole number."""

    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None


class BooleanProperty(Asked, frozen=True, kw_only=True, tag="boolean"):
    """Yes or no."""

    default: bool | None = None


class ManyItems(Shape, frozen=True, kw_only=True):
    """The values to choose from: bare (`type`, `enum`), or with words for them (`any_of`)."""

    type: str | None = None
    enum: tuple[str, ...] | None = None
    any_of: tuple[EnumOption, ...] | None = None


class ManyProperty(Asked, frozen=True, kw_only=True, tag="array"):
    """Several of many."""

    items: ManyItems
    min_items: int | None = None
    max_items: int | None = None
    default: tuple[str, ...] | None = None


ElicitationProperty: TypeAlias = StringProperty | NumberProperty | IntegerProperty | BooleanProperty | ManyProperty


class ElicitationForm(Firm, frozen=True, kw_only=True):
    """The fields that a person is to fill in."""

    type: Annotated[Literal["object"], otherwise("object")]
    title: str | None = None
    description: str | None = None
    properties: dict[str, ElicitationProperty] = msgspec.field(default_factory=dict)
    required: tuple[str, ...] | None = None


class CreateElicitationRequest(Firm, frozen=True, kw_only=True):
    """Ask a person: by a form (`requested_schema`), or by sending them to an address (`url`, `elicitation_id`).

    It belongs to a session and perhaps a tool call of it, or to a request of the client's (`request_id`)."""

    message: str
    mode: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None
    requested_schema: ElicitationForm | None = None
    elicitation_id: str | None = None
    url: str | None = None


class CreateElicitationResponse(Firm, frozen=True, kw_only=True):
    """`action` is `accept`, with what was filled in, or `decline`, or `cancel`."""

    action: str
    content: dict[str, ElicitationValue] | None = None


class CompleteElicitationNotification(Firm, frozen=True, kw_only=True):
    """What a person was sent away for is done."""

    elicitation_id: str
