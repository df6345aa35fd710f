"""What agents send to clients: updates of a session, and requests for files and terminals."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadline.rpc.acp.agent_methods import ConfigOption, NameValue
from threadline.rpc.acp.content import (
    AcpStruct,
    ContentBlock,
    StrictStruct,
    ToolCallPatch,
    ToolContent,
    ToolKind,
    ToolLocation,
    ToolStatus,
    default_when_invalid,
)

__all__ = [
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AvailableCommand",
    "AvailableCommandsUpdate",
    "BooleanProperty",
    "CommandInput",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "CompleteElicitationNotification",
    "ConfigOptionUpdate",
    "Cost",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "ElicitationForm",
    "ElicitationProperty",
    "ElicitationValue",
    "EnumOption",
    "IntegerProperty",
    "KnownUpdate",
    "ManyItems",
    "ManyProperty",
    "Notice",
    "NumberProperty",
    "Plan",
    "PlanEntry",
    "PlanPriority",
    "PlanStatus",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "SessionInfoUpdate",
    "SessionNotification",
    "StringProperty",
    "TerminalExit",
    "TerminalIdParams",
    "TerminalOutputResponse",
    "ToolCallStart",
    "ToolCallUpdate",
    "UnknownUpdate",
    "Update",
    "UsageUpdate",
    "UserMessageChunk",
    "WriteTextFileRequest",
]

PlanPriority: TypeAlias = Literal["high", "medium", "low"]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]

ElicitationValue: TypeAlias = str | int | float | bool | tuple[str, ...]


class UpdateBase(AcpStruct, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    """What all updates are."""


class Chunk(UpdateBase, frozen=True, kw_only=True):
    """A piece of a message: pieces with one `message_id` are one message, in their order."""

    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(Chunk, frozen=True, kw_only=True, tag="user_message_chunk"):
    """A person said this; only told of what is past."""


class AgentMessageChunk(Chunk, frozen=True, kw_only=True, tag="agent_message_chunk"):
    """The agent says this."""


class AgentThoughtChunk(Chunk, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    """The agent thinks this."""


class ToolCallStart(UpdateBase, frozen=True, kw_only=True, tag="tool_call"):
    """A tool is called. Its id is its own in the whole session."""

    tool_call_id: str
    title: Annotated[str, default_when_invalid("")]
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    content: tuple[ToolContent, ...] = ()
    locations: tuple[ToolLocation, ...] = ()
    raw_input: msgspec.Raw | UnsetType = UNSET
    raw_output: msgspec.Raw | UnsetType = UNSET


class ToolCallUpdate(ToolCallPatch, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """What is new about a tool call."""


class PlanEntry(AcpStruct, frozen=True, kw_only=True):
    """A step of a plan."""

    content: str
    priority: Annotated[PlanPriority, default_when_invalid("medium")]
    status: Annotated[PlanStatus, default_when_invalid("pending")]


class Plan(UpdateBase, frozen=True, kw_only=True, tag="plan"):
    """The whole plan, replacing the one before."""

    entries: Annotated[tuple[PlanEntry, ...], default_when_invalid(())]


class CommandInput(AcpStruct, frozen=True, kw_only=True):
    """What may stand behind a command."""

    hint: str


class AvailableCommand(AcpStruct, frozen=True, kw_only=True):
    """A command, by its name without the slash."""

    name: str
    description: Annotated[str, default_when_invalid("")]
    input: CommandInput | None = None


class AvailableCommandsUpdate(UpdateBase, frozen=True, kw_only=True, tag="available_commands_update"):
    """All the commands there are."""

    available_commands: Annotated[tuple[AvailableCommand, ...], default_when_invalid(())]


class CurrentModeUpdate(UpdateBase, frozen=True, kw_only=True, tag="current_mode_update"):
    """Another mode holds."""

    current_mode_id: str


class ConfigOptionUpdate(UpdateBase, frozen=True, kw_only=True, tag="config_option_update"):
    """All options as they are now."""

    config_options: Annotated[tuple[ConfigOption, ...], default_when_invalid(())]


class SessionInfoUpdate(UpdateBase, frozen=True, kw_only=True, tag="session_info_update"):
    """What is known of the session: UNSET leaves it as it was, None clears it. `updated_at` is ISO 8601."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class Cost(AcpStruct, frozen=True, kw_only=True):
    """Money; the currency is ISO 4217."""

    amount: float
    currency: str


class UsageUpdate(UpdateBase, frozen=True, kw_only=True, tag="usage_update"):
    """How full the model's context is, and what the session has cost."""

    used: int
    size: int
    cost: Cost | None = None


class Notice(UpdateBase, frozen=True, kw_only=True, tag="notice"):
    """Something people should know now; no part of the session. Only for clients that say that they show notices.

    `severity` is `info`, `warning`, `error`, or the peer's own."""

    severity: Annotated[str, default_when_invalid("info")]
    title: str
    description: str | None = None


class CompactionUpdate(UpdateBase, frozen=True, kw_only=True, tag="compaction_update"):
    """The context is made shorter. Only for clients that say that they show it.

    `status` is `in_progress`, `completed`, `failed`, `cancelled`, or the peer's own. UNSET leaves as it was, None clears."""

    compaction_id: str
    status: str
    summary: tuple[ContentBlock, ...] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class CompactionSummaryChunk(UpdateBase, frozen=True, kw_only=True, tag="compaction_summary_chunk"):
    """A piece of what the shortened part is summed up as."""

    compaction_id: str
    content: ContentBlock


class UnknownUpdate(UpdateBase, frozen=True, kw_only=True, tag=""):
    """An update that we don't know, or can't make sense of; `name` is what the peer calls it. Never sent."""

    name: str


KnownUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
)
Update: TypeAlias = KnownUpdate | UnknownUpdate


class SessionNotification(AcpStruct, frozen=True, kw_only=True):
    """One update of one session."""

    session_id: str
    update: Update


class ReadTextFileRequest(StrictStruct, frozen=True, kw_only=True):
    """A file's text, or `limit` lines of it from `line` on, which counts from 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(StrictStruct, frozen=True, kw_only=True):
    """What is in it."""

    content: str


class WriteTextFileRequest(StrictStruct, frozen=True, kw_only=True):
    """Make the file hold this."""

    session_id: str
    path: str
    content: str


class CreateTerminalRequest(StrictStruct, frozen=True, kw_only=True):
    """Start a command; no more than `output_byte_limit` of its latest output is kept."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[NameValue, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(StrictStruct, frozen=True, kw_only=True):
    """It runs."""

    terminal_id: str


class TerminalIdParams(StrictStruct, frozen=True, kw_only=True):
    """Params that name a terminal and no more."""

    session_id: str
    terminal_id: str


class TerminalExit(AcpStruct, frozen=True, kw_only=True):
    """How a command ended: by itself, or by a signal."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(StrictStruct, frozen=True, kw_only=True):
    """What it wrote so far; without `exit_status` it still runs."""

    output: str
    truncated: bool
    exit_status: TerminalExit | None = None


class EnumOption(AcpStruct, frozen=True, kw_only=True):
    """A value to choose, with words for it."""

    const: str
    title: str
    description: str | None = None


class Asked(AcpStruct, frozen=True, kw_only=True, tag_field="type"):
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


class ManyItems(AcpStruct, frozen=True, kw_only=True):
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


class ElicitationForm(StrictStruct, frozen=True, kw_only=True):
    """The fields that a person is to fill in."""

    type: Annotated[Literal["object"], default_when_invalid("object")]
    title: str | None = None
    description: str | None = None
    properties: dict[str, ElicitationProperty] = msgspec.field(default_factory=dict)
    required: tuple[str, ...] | None = None


class CreateElicitationRequest(StrictStruct, frozen=True, kw_only=True):
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


class CreateElicitationResponse(StrictStruct, frozen=True, kw_only=True):
    """`action` is `accept`, with what was filled in, or `decline`, or `cancel`."""

    action: str
    content: dict[str, ElicitationValue] | None = None


class CompleteElicitationNotification(StrictStruct, frozen=True, kw_only=True):
    """What a person was sent away for is done."""

    elicitation_id: str
