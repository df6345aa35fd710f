"""Translate updates of an agent into events, within limits. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadline.agents.acp.settings import AcpLimits
from threadline.model.safe_text import safe_line, safe_text
from threadline.ports.agent import (
    AskPermission,
    Diff,
    Event,
    NewFile,
    Place,
    Plan,
    PlanStep,
    Text,
    Thought,
    ToolCall,
    ToolResult,
)
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

# What becomes an event, or a file that has to be stored before it can be one.
Translated: TypeAlias = Event | NewFile

_TITLE_CHARS = 200
_NAME_CHARS = 60
_ID_CHARS = 200
_PATH_CHARS = 500
_PLACES = 20
_STEPS = 100
_STEP_CHARS = 500
INPUT_CHARS = 20_000
_RESULT_CHARS = 20_000
_DIFF_CHARS = 200_000
_DIFFS = 50
# What a thing weighs besides its characters: many empty ones are not nothing.
_THING = 100
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


class TurnTooLarge(Exception):
    """The agent sent more in one turn than is kept."""


class KnownCall(msgspec.Struct):
    """A tool call, as far as it is known."""

    call_id: str
    title: str = ""
    name: str = ""
    kind: acp.ToolKind = "other"
    status: acp.ToolStatus = "pending"
    content: Sequence[acp.ToolContent] = ()
    locations: Sequence[acp.ToolLocation] = ()
    input: str = ""
    output: str = ""
    is_announced: bool = False
    is_finished: bool = False
    # Whether it waits to be told, and whether somebody is asked before it runs.
    is_held: bool = False
    is_asked: bool = False
    # What each of its parts weighs.
    weights: dict[str, int] = {}

    @property
    def weight(self) -> int:
        """Return how many characters of the agent's are kept for it."""
        return sum(self.weights.values())

    def learn(self, patch: acp.ToolCallPatch | acp.ToolCallStart) -> None:
        """Apply a patch: fields that are not given stay. The cost depends on the patch alone."""
        for name in ("title", "name", "kind", "status"):
            if (value := getattr(patch, name)) is not None:
                setattr(self, name, value)
                self.weights[name] = len(value)
        if patch.content is not None:
            self.content, self.weights["content"] = patch.content, sum(_THING + _held_in(one) for one in patch.content)
        if patch.locations is not None:
            self.locations = patch.locations
            self.weights["locations"] = sum(_THING + len(one.path) for one in patch.locations)
        for name, text in (("input", _json_of(patch.raw_input)), ("output", _json_of(patch.raw_output))):
            if text:
                setattr(self, name, text)
                self.weights[name] = len(text)

    def release(self) -> None:
        """Drop the content of a finished call; its id stays known, so that later updates are ignored."""
        self.title, self.name, self.input, self.output = "", "", "", ""
        self.content, self.locations, self.weights = (), (), {}

    def event(self) -> ToolCall:
        """Return the call as people and transcripts see it."""
        return ToolCall(
            call_id=self.call_id,
            name=safe_line(self.name, _NAME_CHARS) or self.kind,
            arguments=self.input if len(self.input) <= INPUT_CHARS and self.input else "{}",
            title=safe_line(self.title, _TITLE_CHARS),
            kind=self.kind,
            places=tuple(
                Place(safe_line(one.path, _PATH_CHARS), one.line if _is_line(one.line) else None)
                for one in self.locations[:_PLACES]
            ),
            is_asked=self.is_asked,
        )

    def changes(self) -> tuple[tuple[Diff, ...], bool]:
        """Return its changes to files, within limits, and whether something is left out."""
        diffs = [one for one in self.content if isinstance(one, acp.Diff)]
        left, kept = _DIFF_CHARS, []
        for one in diffs[:_DIFFS]:
            left -= _size(one)
            if left >= 0:
                kept.append(_diff(one))
        return tuple(kept), len(kept) < len(diffs)

    def result(self) -> ToolResult:
        """Return its result; without content, its raw output."""
        diffs = [one for one in self.content if isinstance(one, acp.Diff)][:_DIFFS]
        kept = tuple(_diff(one) for one in diffs if _size(one) <= _DIFF_CHARS)
        left_out = [texts.CUT_DIFF.format(path=safe_line(one.path)) for one in diffs if _size(one) > _DIFF_CHARS]
        said = [text_of(one.content) for one in self.content if isinstance(one, acp.ContentPart)]
        text = "\n".join(part for part in (*said, *left_out) if part) or ("" if kept else _plain(self.output))
        return ToolResult(self.call_id, cut(text, _RESULT_CHARS), is_error=self.status == "failed", diffs=kept)


class UpdateTranslator:
    """Translates one turn of an agent, update by update. Raises `TurnTooLarge` beyond the limits."""

    def __init__(self, limits: AcpLimits) -> None:
        self._limits = limits
        self.calls: dict[str, KnownCall] = {}
        # The calls that are announced and of which more is to come: told with the next that happens.
        self._held: list[KnownCall] = []
        self._words = 0
        # What was told of tools, and what is kept of those that are not over.
        self._tools = 0
        self._kept = 0
        self._events = 0
        self._updates = 0

    def translate(self, update: acp.Update) -> list[Translated]:
        """Return the events of an update, in order."""
        match update:
            case acp.AgentMessageChunk():
                return self._counted([*self._start_event(), *_said(update.content)])
            case acp.AgentThoughtChunk():
                text = text_of(update.content)
                return self._counted([*self._start_event(), Thought(text)] if text else [])
            case acp.ToolCallStart() | acp.ToolCallUpdate():
                return self.tool(update)
            case acp.Plan():
                return self._counted([*self._start_event(), _plan(update)])
            case _:
                return self._counted([])

    def tool(self, patch: acp.ToolCallStart | acp.ToolCallPatch) -> list[Translated]:
        """Return what is new about a tool call: its start, once, and its result, once."""
        call = self._call(safe_line(patch.tool_call_id, _ID_CHARS))
        if call.is_finished:
            return self._counted([])
        before = call.weight
        call.learn(patch)
        self._kept += call.weight - before
        if not call.is_announced and call.status == "pending" and not call.input:
            # Agents announce a call before they know what it is called with.
            self._hold_back(call)
            return self._counted([])
        return self._counted([*self._start_event(call), *self._conclusion(call)])

    def kind_of(self, patch: acp.ToolCallPatch) -> acp.ToolKind:
        """Return the kind of the call that a question is about."""
        call = self.calls.get(safe_line(patch.tool_call_id, _ID_CHARS))
        return patch.kind or ("other" if call is None else call.kind)

    def ask(self, patch: acp.ToolCallPatch, *, is_put: bool = True) -> tuple[KnownCall, list[Translated]]:
        """Return the call that a question is about, and the events before it. `is_put`: a person is asked, not a rule."""
        self._call(safe_line(patch.tool_call_id, _ID_CHARS)).is_asked = is_put
        told = self.tool(patch)
        call = self.calls[safe_line(patch.tool_call_id, _ID_CHARS)]
        told += self._counted([*self._start_event(call)])
        if call.is_finished:
            # Nothing more is heard of it, but whoever is asked sees what they are asked.
            call = KnownCall(call.call_id)
            call.learn(patch)
        return call, told

    def asked(self, ask: AskPermission) -> None:
        """Count a question. Raises `TurnTooLarge` beyond the limits."""
        self._counted([ask])

    def end(self) -> list[Translated]:
        """Return the events that are left at the end of the turn."""
        return list(self._start_event())

    def _call(self, call_id: str) -> KnownCall:
        call = self.calls.get(call_id)
        if call is None:
            # Each is an event in the end.
            if len(self.calls) >= self._limits.events:
                raise TurnTooLarge
            call = self.calls[call_id] = KnownCall(call_id)
        return call

    def _hold_back(self, call: KnownCall) -> None:
        if not call.is_held:
            call.is_held = True
            self._held.append(call)

    def _conclusion(self, call: KnownCall) -> Iterator[Translated]:
        if call.status in ("completed", "failed"):
            self._kept -= call.weight
            call.is_finished = True
            yield call.result()
            call.release()

    def _start_event(self, *more: KnownCall) -> Iterator[Translated]:
        held, self._held = self._held, []
        for call in (*held, *more):
            if not call.is_announced:
                call.is_announced = True
                yield call.event()

    def _counted(self, told: list[Translated]) -> list[Translated]:
        """Return the events, if the limits allow them. Updates without events count too: they could flood us."""
        self._updates += 1
        for one in told:
            if isinstance(one, Text | Thought):
                self._words += len(one.text)
            else:
                self._events += 1
                self._tools += _weight(one)
        limits = self._limits
        is_too_much = self._words > limits.max_text_chars or self._events > limits.events
        is_too_much = is_too_much or self._tools + self._kept > limits.max_tool_chars
        # Words may come one by one.
        if is_too_much or self._updates > limits.max_text_chars + limits.updates:
            raise TurnTooLarge
        return told


def _said(block: acp.ContentBlock) -> Iterator[Translated]:
    if isinstance(block, acp.ImageContent | acp.AudioContent):
        if (file := _file(block)) is not None:
            yield file
    elif text := text_of(block):
        yield Text(text)


def _weight(told: Translated) -> int:
    match told:
        case ToolCall():
            said = len(told.name) + len(told.arguments) + len(told.title)
            return said + sum(_THING + len(one.path) for one in told.places)
        case ToolResult():
            return len(told.content) + _weight_of(told.diffs)
        case Plan():
            return sum(_THING + len(one.text) for one in told.steps)
        case AskPermission():
            said = len(told.tool) + len(told.arguments) + len(told.reason)
            return said + _weight_of(told.diffs) + (0 if told.call is None else _weight(told.call))
        case NewFile():
            return len(told.body)
        case _:
            return 0


def _weight_of(diffs: tuple[Diff, ...]) -> int:
    return sum(_THING + len(one.path) + len(one.new) + len(one.old or "") for one in diffs)


def cut(text: str, most: int) -> str:
    """Return `text`, made safe; of a longer one its beginning, and how much is missing."""
    return (
        safe_text(text)
        if len(text) <= most
        else safe_text(text[:most]) + texts.CUT_RESULT.format(count=len(text) - most)
    )


def text_of(block: acp.ContentBlock) -> str:
    """Return the text of a block; of a link its target."""
    match block:
        case acp.TextContent():
            return block.text
        case acp.ResourceLink():
            return f"{safe_line(block.title or block.name)} ({safe_line(block.uri, 500)})"
        case acp.EmbeddedResource(resource=acp.Resource(text=str(text))):
            return text
        case _:
            return ""


def _file(block: acp.ImageContent | acp.AudioContent) -> NewFile | None:
    mime = safe_line(block.mime_type, 100)
    try:
        body = base64.b64decode(block.data, validate=False)
    except (binascii.Error, ValueError):
        return None
    kind = "picture" if isinstance(block, acp.ImageContent) else "sound"
    return NewFile(body=body, name=f"{kind}.{_ENDINGS.get(mime, 'bin')}", mime=mime) if body else None


def _plan(update: acp.Plan) -> Plan:
    return Plan(
        tuple(
            PlanStep(text=safe_line(one.content, _STEP_CHARS), status=one.status, priority=one.priority)
            for one in update.entries[:_STEPS]
        )
    )


def _json_of(raw: msgspec.Raw | UnsetType) -> str:
    """Return JSON as text, or nothing if it is empty."""
    text = "" if raw is UNSET else bytes(raw).decode("utf-8", "replace")
    return "" if text in ("null", "{}", '""') else text


def _plain(output: str) -> str:
    """Return an output that is a single string as it is; any other as JSON."""
    try:
        value: object = msgspec.json.decode(output or '""')
    except msgspec.DecodeError:
        return output
    return value if isinstance(value, str) else output


def _diff(one: acp.Diff) -> Diff:
    return Diff(path=safe_line(one.path, _PATH_CHARS), new=one.new_text, old=one.old_text)


def _size(one: acp.ToolContent) -> int:
    match one:
        case acp.Diff():
            return len(one.new_text) + len(one.old_text or "")
        case acp.ContentPart():
            return len(text_of(one.content))
        case _:
            return 0


def _held_in(one: acp.ToolContent) -> int:
    match one:
        case acp.ContentPart(content=acp.ImageContent() | acp.AudioContent() as block):
            return len(block.data)
        case acp.ContentPart(content=acp.EmbeddedResource(resource=resource)):
            return len(resource.text or "") + len(resource.blob or "")
        case acp.Diff():
            return len(one.path) + _size(one)
        case _:
            return _size(one)


def _is_line(line: int | None) -> bool:
    return line is not None and 0 <= line < 2**31
