"""What a turn says and does as updates for an editor, and what an editor sends as text and files. Pure."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.files import MAX_FILE_BYTES
from threadline.model.inbound import Attachment, stored_id
from threadline.model.safe_text import safe_line
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
    AudioContent,
    ContentBlock,
    ContentPart,
    Diff,
    EmbeddedResource,
    ImageContent,
    KnownUpdate,
    Plan,
    PlanEntry,
    PromptUsage,
    Resource,
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
from threadline.texts import editors as texts

# An update, or a file whose content has to be read first.
Told: TypeAlias = KnownUpdate | File
_encode = msgspec.json.Encoder().encode
TAIL = b"}}\n"
_FENCES = re.compile("`{3,}")
_NAME_CHARS = 120
_URI_CHARS = 2_000
# What ends a link in Markdown, or makes it another one.
_PLAIN_IN_URI = "!#$%&'*+,-./:;=?@^_|~"


def update_of(event: Event) -> Told | None:
    """Return the update for an event, or None if editors are not sent it. A file is returned as it is: see `file_block`."""
    match event:
        case Text(text=text):
            return agent_text(text)
        case Thought(text=text):
            return agent_thought(text)
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


def agent_text(text: str) -> AgentMessageChunk:
    """Return the update for a piece of an answer."""
    return AgentMessageChunk(content=TextContent(text=text))


def agent_thought(text: str) -> AgentThoughtChunk:
    """Return the update for a piece of reasoning."""
    return AgentThoughtChunk(content=TextContent(text=text))


def user_text(text: str) -> UserMessageChunk:
    """Return the update for a text of the user."""
    return UserMessageChunk(content=TextContent(text=text))


def call_started(call: ToolCall) -> ToolCallStart:
    """Return the update for a tool call that starts, or that waits for approval."""
    return ToolCallStart(
        tool_call_id=call.call_id,
        title=call.title or call.name,
        name=call.name,
        kind=call.kind,
        status="pending" if call.is_asked else "in_progress",
        locations=_locations(call),
        raw_input=raw_json(call.arguments),
    )


def call_approved(call: ToolCall) -> ToolCallUpdate:
    """Return the update for a tool call that was approved and runs now."""
    return ToolCallUpdate(tool_call_id=call.call_id, status="in_progress")


def question_answered(ask: AskPermission, *, allows: bool) -> ToolCallUpdate:
    """Return the update that ends a question which was shown as a call of its own, because it belongs to no call."""
    return ToolCallUpdate(tool_call_id=ask.ask_id, status="completed" if allows else "failed")


def call_unfinished(call_id: str) -> ToolCallUpdate:
    """Return the update that ends a tool call without a result."""
    return ToolCallUpdate(tool_call_id=call_id, status="failed")


def call_ended(call_id: str, content: str, diffs: Sequence[agent.Diff], *, is_error: bool) -> ToolCallUpdate:
    """Return the update for the result of a tool call."""
    changed = _changed(diffs)
    if content or not changed:
        changed.append(ContentPart(content=TextContent(text=content)))
    return ToolCallUpdate(tool_call_id=call_id, status="failed" if is_error else "completed", content=tuple(changed))


def plan_of(steps: Iterable[agent.PlanStep]) -> Plan:
    """Return the update for the whole plan."""
    entries = (PlanEntry(content=step.text, priority=step.priority, status=step.status) for step in steps)
    return Plan(entries=tuple(entries))


def approval_request(ask: AskPermission) -> ToolCallPatch:
    """Return the call to approve, in full. If the editor was sent the call before, it has the same id."""
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
    """Return the content block for a file: an image itself. For other files, and without content (`body` is None), a link."""
    if body is not None and file.mime.startswith("image/"):
        return ImageContent(data=base64.b64encode(body).decode(), mime_type=file.mime)
    name = file.name or "file"
    return ResourceLink(
        name=name, uri=f"threadline:file/{stored_id(file.handle) or name}", mime_type=file.mime, size=file.size
    )


def usage_of(parts: Sequence[UsageOf]) -> PromptUsage | None:
    """Return the token usage of a turn, or None if none was reported."""
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


def iso_time(moment: datetime) -> str:
    """Return a time in the format of the protocol."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def update_prefix(session_id: str) -> bytes:
    """Return the start of every update line of a session. The update and `TAIL` follow."""
    named = encode_json(session_id)
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":' + named + b',"update":'


def update_line(head: bytes, update: KnownUpdate) -> bytes:
    """Return the line for an update. Lone surrogates, which no peer can read, are replaced."""
    return b"".join((head, encode_json(update), TAIL))


def encode_json(value: object) -> bytes:
    """Return a value as JSON on one line. Lone surrogates are replaced."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value


class CallIds:
    """Gives each call of a session a name that no other has: the agent's own to the first, its number with it to the next ones.

    Counted along the conversation a call has the same name each time that all is told, and the one that it had when it ran.
    """

    def __init__(self, *, mark: str = "", avoid: Container[str] = ()) -> None:
        """`mark` is part of each id, for a session whose earlier ids are unknown. `avoid` holds ids that are used elsewhere."""
        self._mark = f"~{mark}" if mark else ""
        self._avoid = avoid
        self._counts: dict[str, int] = {}
        self.given: set[str] = set()

    def assign(self, call_id: str) -> str:
        """Return an unused id for a call that starts."""
        count = self._counts.get(call_id, 0) + 1
        while (name := self._name(call_id, count)) in self.given or name in self._avoid:
            count += 1
        self._counts[call_id] = count
        self.given.add(name)
        return name

    def _name(self, call_id: str, count: int) -> str:
        return f"{call_id}{self._mark}" if count == 1 else f"{call_id}{self._mark}~{count}"


class RunningCalls:
    """The calls of a turn or a transcript. An agent's call id stands for the last call that started with it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        # Ids of calls without a result, by the agent's ids.
        self.open: dict[str, str] = {}
        # The assigned ids, in order.
        self.given: list[str] = []

    def start(self, call_id: str, names: CallIds) -> str:
        """Return the editor's id for a call that starts. A running call that is reported again keeps its id."""
        if call_id not in self.open:
            self._give(call_id, names)
        name = self.open[call_id] = self._names[call_id]
        return name

    def end(self, call_id: str) -> str | None:
        """Return the editor's id for a call that has a result, or None if it never started."""
        self.open.pop(call_id, None)
        return self._names.get(call_id)

    def named(self, event: Event, names: CallIds, turn_id: str) -> Event:
        """Return the event with the editor's ids for its calls."""
        match event:
            case ToolCall(call_id=call_id):
                return _called(event, self.start(call_id, names))
            case ToolResult(call_id=call_id):
                name = self.end(call_id) or self._give(call_id, names)
                return event if name == call_id else msgspec.structs.replace(event, call_id=name)
            case AskPermission(call=None):
                # No call's: an agent may use the same id for both. It is told once, so that it need not be found again.
                return msgspec.structs.replace(event, ask_id=names.assign(f"ask~{turn_id}~{event.ask_id}"))
            case AskPermission(call=ToolCall() as call):
                return msgspec.structs.replace(event, call=_called(call, self.start(call.call_id, names)))
        return event

    def _give(self, call_id: str, names: CallIds) -> str:
        name = self._names[call_id] = names.assign(call_id)
        self.given.append(name)
        return name


def _called(call: ToolCall, name: str) -> ToolCall:
    return call if name == call.call_id else msgspec.structs.replace(call, call_id=name)


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a prompt. `name` is untrusted text, never a path."""

    name: str
    mime: str
    body: bytes


class PromptContent(msgspec.Struct, frozen=True, kw_only=True):
    """The text and the files of a prompt."""

    text: str
    files: tuple[PromptFile, ...] = ()


def read_prompt(blocks: Sequence[ContentBlock]) -> PromptContent:
    """A prompt as the agent is given it. `InvalidRequest` for one with nothing in it, or with what can't be taken.

    A link stands where it was put. What is in a file stands behind all that was said, fenced, so that nothing in it passes for
    the person's own words.
    """
    said: list[str] = []
    behind: list[str] = []
    files: list[PromptFile] = []
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
    return PromptContent(text=text, files=tuple(files))


def _mention(said: list[str], name: str, uri: str) -> None:
    """Add a link to a file at this place, separated from the text around it."""
    if said and said[-1] and not said[-1][-1].isspace():
        said.append(" ")
    label = re.sub(r"[\[\]`\\]", "", safe_line(name, _NAME_CHARS)) or "file"
    said.append(f"[@{label}]({quote(safe_line(uri, _URI_CHARS), safe=_PLAIN_IN_URI)}) ")


def _fenced(uri: str, text: str) -> str:
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{safe_line(uri, _URI_CHARS)}:\n{fence}\n{text}\n{fence}"


def _picture(block: ImageContent) -> PromptFile:
    name = _name_of(block.uri, block.mime_type, "image")
    return _enclosed(name, block.mime_type, block.data)


def _blob(resource: Resource) -> PromptFile:
    name = _name_of(resource.uri, resource.mime_type)
    return _enclosed(name, resource.mime_type or "application/octet-stream", resource.blob or "")


def _enclosed(name: str, mime: str, encoded: str) -> PromptFile:
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
    return PromptFile(name=name, mime=mime, body=body)


def _name_of(uri: str | None, mime: str | None, otherwise: str = "file") -> str:
    """Return the last part of an address as a file name."""
    try:
        last = unquote(urlsplit(uri or "").path).rstrip("/").rpartition("/")[2]
    except ValueError:
        last = ""
    return safe_line(last, _NAME_CHARS) or otherwise + (mimetypes.guess_extension(mime or "") or "")
