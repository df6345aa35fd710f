"""What happens in a session, as its client is told."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadline.rpc.acp.content import ContentBlock
from threadline.rpc.acp.options import ConfigOption
from threadline.rpc.acp.shape import Shape, otherwise
from threadline.rpc.acp.tools import ToolCallPatch, ToolContent, ToolKind, ToolLocation, ToolStatus

PlanPriority: TypeAlias = Literal["high", "medium", "low"]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Updating(Shape, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    """What all updates are."""


class Chunk(Updating, frozen=True, kw_only=True):
    """A piece of a message: pieces with one `message_id` are one message, in their order."""

    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(Chunk, frozen=True, kw_only=True, tag="user_message_chunk"):
    """A person said this; only told of what is past."""


class AgentMessageChunk(Chunk, frozen=True, kw_only=True, tag="agent_message_chunk"):
    """The agent says this."""


class AgentThoughtChunk(Chunk, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    """The agent thinks this."""


class ToolCallStart(Updating, frozen=True, kw_only=True, tag="tool_call"):
    """A tool is called. Its id is its own in the whole session."""

    tool_call_id: str
    title: Annotated[str, otherwise("")]
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    content: tuple[ToolContent, ...] = ()
    locations: tuple[ToolLocation, ...] = ()
    raw_input: msgspec.Raw | UnsetType = UNSET
    raw_output: msgspec.Raw | UnsetType = UNSET


class ToolCallUpdate(ToolCallPatch, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """What is new about a tool call."""


class PlanEntry(Shape, frozen=True, kw_only=True):
    """A step of a plan."""

    content: str
    priority: Annotated[PlanPriority, otherwise("medium")]
    status: Annotated[PlanStatus, otherwise("pending")]


class Plan(Updating, frozen=True, kw_only=True, tag="plan"):
    """The whole plan, replacing the one before."""

    entries: Annotated[tuple[PlanEntry, ...], otherwise(())]


class CommandInput(Shape, frozen=True, kw_only=True):
    """What may stand behind a command."""

    hint: str


class AvailableCommand(Shape, frozen=True, kw_only=True):
    """A command, by its name without the slash."""

    name: str
    description: Annotated[str, otherwise("")]
    input: CommandInput | None = None


class AvailableCommandsUpdate(Updating, frozen=True, kw_only=True, tag="available_commands_update"):
    """All the commands there are."""

    available_commands: Annotated[tuple[AvailableCommand, ...], otherwise(())]


class CurrentModeUpdate(Updating, frozen=True, kw_only=True, tag="current_mode_update"):
    """Another mode holds."""

    current_mode_id: str


class ConfigOptionUpdate(Updating, frozen=True, kw_only=True, tag="config_option_update"):
    """All options as they are now."""

    config_options: Annotated[tuple[ConfigOption, ...], otherwise(())]


class SessionInfoUpdate(Updating, frozen=True, kw_only=True, tag="session_info_update"):
    """What is known of the session: UNSET leaves it as it was, None clears it. `updated_at` is ISO 8601."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class Cost(Shape, frozen=True, kw_only=True):
    """Money; the currency is ISO 4217."""

    amount: float
    currency: str


class UsageUpdate(Updating, frozen=True, kw_only=True, tag="usage_update"):
    """How full the model's context is, and what the session has cost."""

    used: int
    size: int
    cost: Cost | None = None


class Notice(Updating, frozen=True, kw_only=True, tag="notice"):
    """Something people should know now; no part of the session. Only for clients that say that they show notices.

    `severity` is `info`, `warning`, `error`, or the peer's own."""

    severity: Annotated[str, otherwise("info")]
    title: str
    description: str | None = None


class CompactionUpdate(Updating, frozen=True, kw_only=True, tag="compaction_update"):
    """The context is made shorter. Only for clients that say that they show it.

    `status` is `in_progress`, `completed`, `failed`, `cancelled`, or the peer's own. UNSET leaves as it was, None clears."""

    compaction_id: str
    status: str
    summary: tuple[ContentBlock, ...] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class CompactionSummaryChunk(Updating, frozen=True, kw_only=True, tag="compaction_summary_chunk"):
    """A piece of what the shortened part is summed up as."""

    compaction_id: str
    content: ContentBlock


class UnknownUpdate(Updating, frozen=True, kw_only=True, tag=""):
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


class SessionNotification(Shape, frozen=True, kw_only=True):
    """One update of one session."""

    session_id: str
    update: Update
