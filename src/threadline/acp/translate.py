"""What a turn says and does, as the editor is told. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from threadline.model.inbound import Attachment, stored_id
from threadline.ports import agent
from threadline.ports.agent import (
    AskPermission,
    ContextWindow,
    Event,
    File,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    UsageOf,
)
from threadline.rpc.acp import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    ContentPart,
    Diff,
    ImageContent,
    KnownUpdate,
    Plan,
    PlanEntry,
    PromptUsage,
    ResourceLink,
    TextContent,
    ToolCallPatch,
    ToolCallStart,
    ToolCallUpdate,
    ToolContent,
    ToolLocation,
    UsageUpdate,
    UserMessageChunk,
    raw_json,
)

# What stands for a file until somebody has fetched what is in it.
Told: TypeAlias = KnownUpdate | File


def told(event: Event) -> Told | None:
    """What an editor is told of an event; `None`: nothing. Of a file it is told once that was fetched: see `file_block`."""
    match event:
        case Text(text=text):
            return said(text)
        case Thought(text=text):
            return thought(text)
        case ToolCall():
            return call_started(event)
        case ToolResult():
            return call_ended(event.call_id, event.content, event.diffs, is_error=event.is_error)
        case agent.Plan(steps=steps):
            return plan_of(steps)
        case File():
            return event
        case ContextWindow(used=used, size=size) if size > 0:
            return UsageUpdate(used=max(0, used), size=size)
    return None


def said(text: str) -> AgentMessageChunk:
    """A piece of an answer."""
    return AgentMessageChunk(content=TextContent(text=text))


def thought(text: str) -> AgentThoughtChunk:
    """A piece of reasoning."""
    return AgentThoughtChunk(content=TextContent(text=text))


def heard(text: str) -> UserMessageChunk:
    """What a person said."""
    return UserMessageChunk(content=TextContent(text=text))


def call_started(call: ToolCall) -> ToolCallStart:
    """A tool that runs from now on, or once somebody has allowed it."""
    return ToolCallStart(
        tool_call_id=call.call_id,
        title=call.title or call.name,
        name=call.name,
        kind=call.kind,
        status="pending" if call.is_asked else "in_progress",
        locations=_locations(call),
        raw_input=raw_json(call.arguments),
    )


def call_allowed(call: ToolCall) -> ToolCallUpdate:
    """A tool that somebody was asked about, and that runs from now on."""
    return ToolCallUpdate(tool_call_id=call.call_id, status="in_progress")


def question_answered(ask: AskPermission, *, allows: bool) -> ToolCallUpdate:
    """A question that was shown as a call of its own, because there is none that it is about: it is over."""
    return ToolCallUpdate(tool_call_id=ask.ask_id, status="completed" if allows else "failed")


def call_left(call_id: str) -> ToolCallUpdate:
    """A tool that nothing more will be heard of."""
    return ToolCallUpdate(tool_call_id=call_id, status="failed")


def call_ended(call_id: str, content: str, diffs: Sequence[agent.Diff], *, is_error: bool) -> ToolCallUpdate:
    """What came of a tool."""
    changed = _changed(diffs)
    if content or not changed:
        changed.append(ContentPart(content=TextContent(text=content)))
    return ToolCallUpdate(tool_call_id=call_id, status="failed" if is_error else "completed", content=tuple(changed))


def plan_of(steps: Iterable[agent.PlanStep]) -> Plan:
    """The whole plan."""
    entries = (PlanEntry(content=step.text, priority=step.priority, status=step.status) for step in steps)
    return Plan(entries=tuple(entries))


def asked_for(ask: AskPermission) -> ToolCallPatch:
    """The call that a person is asked about, in full: the one that they were told of, where there is one."""
    reason = [ContentPart(content=TextContent(text=ask.reason))] if ask.reason.strip() else []
    content = (*_changed(ask.diffs), *reason) or None
    call = ask.call
    if call is None:
        return ToolCallPatch(
            tool_call_id=ask.ask_id,
            title=ask.tool,
            name=ask.tool,
            status="pending",
            content=content,
            raw_input=raw_json(ask.arguments),
        )
    return ToolCallPatch(
        tool_call_id=call.call_id,
        title=call.title or call.name,
        name=call.name,
        kind=call.kind,
        status="pending",
        content=content,
        locations=_locations(call) or None,
        raw_input=raw_json(call.arguments),
    )


def _changed(diffs: Sequence[agent.Diff]) -> list[ToolContent]:
    return [Diff(path=diff.path, new_text=diff.new, old_text=diff.old) for diff in diffs]


def _locations(call: ToolCall) -> tuple[ToolLocation, ...]:
    return tuple(ToolLocation(path=place.path, line=place.line) for place in call.places)


def file_block(file: Attachment, body: bytes | None) -> ContentBlock:
    """A file as an editor shows it: a picture itself, of anything else, or where it can't be had (`None`), the name."""
    if body is not None and file.mime.startswith("image/"):
        return ImageContent(data=base64.b64encode(body).decode(), mime_type=file.mime)
    name = file.name or "file"
    return ResourceLink(
        name=name, uri=f"threadline:file/{stored_id(file.handle) or name}", mime_type=file.mime, size=file.size
    )


def usage_of(parts: Sequence[UsageOf]) -> PromptUsage | None:
    """What a turn cost in tokens; `None` where nobody said."""
    if not parts:
        return None
    fresh, out = sum(part.input_tokens for part in parts), sum(part.output_tokens for part in parts)
    read = sum(part.cache_read_tokens for part in parts)
    written = sum(part.cache_write_tokens for part in parts)
    return PromptUsage(
        total_tokens=fresh + out + read + written,
        input_tokens=fresh,
        output_tokens=out,
        thought_tokens=sum(part.reasoning_tokens for part in parts) or None,
        cached_read_tokens=read or None,
        cached_write_tokens=written or None,
    )


def iso(moment: datetime) -> str:
    """A moment as the protocol writes it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
