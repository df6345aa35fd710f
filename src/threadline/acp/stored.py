"""A stored transcript as an editor is shown it again: the same updates as when it happened. Pure, and fast: people wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.acp.lines import TAIL, encoded, line_of
from threadline.acp.translate import call_ended, call_started, file_block, heard, plan_of, said, thought
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Message, decode_body
from threadline.ports.agent import Diff, Place, PlanStep, ToolCall, ToolKind
from threadline.rpc.acp import AgentMessageChunk, KnownUpdate, ToolCallStart, UserMessageChunk

Role: TypeAlias = Literal["user", "assistant"]

_USER = b'{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":'
_ASSISTANT = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_TEXT_TAIL = b"}}" + TAIL


class Enclosure(msgspec.Struct, frozen=True):
    """A file among the lines: what is in it has to be fetched."""

    role: Role
    file: Attachment

    def update(self, body: bytes | None) -> KnownUpdate:
        """What is told of it; without a body its name."""
        block = file_block(self.file, body)
        return UserMessageChunk(content=block) if self.role == "user" else AgentMessageChunk(content=block)


Shown: TypeAlias = KnownUpdate | Enclosure


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: str = "{}"


class _Call(msgspec.Struct, gc=False):
    id: str
    function: _Function
    title: str = ""
    kind: ToolKind = "other"
    places: tuple[Place, ...] = ()


class _Stored(msgspec.Struct, gc=False):
    """A message in the form in which turns keep it."""

    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str | None = None
    diffs: tuple[Diff, ...] = ()
    is_error: bool = False
    plan: tuple[PlanStep, ...] = ()
    attachments: tuple[Attachment, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but text."""
        return not (self.reasoning or self.tool_calls or self.tool_call_id or self.plan or self.attachments)


_read_one = msgspec.json.Decoder(_Stored).decode


class Replay:
    """Turns the messages of one session into lines, page by page. It remembers which tools were called."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._called: set[str] = set()

    def lines(self, bodies: Sequence[str]) -> Iterator[bytes | Enclosure]:
        """A page of messages, as stored, in order: lines ready to be sent, and files that have to be fetched."""
        user, assistant = self._head + _USER, self._head + _ASSISTANT
        ready: list[bytes] = []
        for message in _page(bodies):
            text = message.content
            if message.is_plain and message.role in ("user", "assistant"):
                if text:
                    ready += (user if message.role == "user" else assistant, encoded(text), _TEXT_TAIL)
                continue
            for shown in self._updates(message):
                if isinstance(shown, Enclosure):
                    yield b"".join(ready)
                    yield shown
                    ready = []
                else:
                    ready.append(line_of(self._head, shown))
        yield b"".join(ready)

    def _updates(self, message: _Stored) -> Iterator[Shown]:
        if message.role == "user":
            if message.content:
                yield heard(message.content)
            yield from (Enclosure("user", file) for file in message.attachments)
        elif message.role == "assistant":
            yield from self._answer(message)
        elif message.role == "tool" and message.tool_call_id is not None:
            if message.tool_call_id not in self._called:
                # An editor may drop news of a call that it was never told of.
                yield ToolCallStart(tool_call_id=message.tool_call_id, title="tool")
            yield call_ended(message.tool_call_id, message.content or "", message.diffs, is_error=message.is_error)

    def _answer(self, message: _Stored) -> Iterator[Shown]:
        if message.reasoning:
            yield thought(message.reasoning)
        if message.content:
            yield said(message.content)
        yield from (Enclosure("assistant", file) for file in message.attachments)
        for call in message.tool_calls:
            self._called.add(call.id)
            function = call.function
            yield call_started(ToolCall(call.id, function.name, function.arguments, call.title, call.kind, call.places))
        if message.plan:
            yield plan_of(message.plan)


def updates_of(message: Message) -> Iterator[KnownUpdate]:
    """What an editor is shown of one message; of its files the names."""
    for shown in Replay(b"")._updates(_odd(message)):  # noqa: SLF001 - the same, one message at a time
        yield shown.update(None) if isinstance(shown, Enclosure) else shown


def _page(bodies: Sequence[str]) -> Iterable[_Stored]:
    try:
        # Each by itself: joined, one text in another script would make the whole page several times as large.
        return [_read_one(body) for body in bodies]
    except (msgspec.DecodeError, UnicodeEncodeError):
        return map(_one, bodies)


def _one(body: str) -> _Stored:
    try:
        return _read_one(body)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _odd(decode_body(body))


def _odd(message: Message) -> _Stored:
    """A message of any form, as far as it can be read: transcripts may come from elsewhere."""
    calls = message.get("tool_calls")
    return _Stored(
        role=str(message.get("role", "")),
        content=_text(message.get("content")),
        reasoning=_text(message.get("reasoning")),
        tool_calls=tuple(_call(call) for call in calls if isinstance(call, Mapping)) if isinstance(calls, list) else (),
        tool_call_id=_text(message.get("tool_call_id")) or None,
        is_error=message.get("is_error") is True,
        diffs=_converted(message.get("diffs"), tuple[Diff, ...]),
        plan=_converted(message.get("plan"), tuple[PlanStep, ...]),
        attachments=attachments_of(message),
    )


def _text(content: object) -> str:
    """The text of a content, which may be in blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [block.get("text", "") if isinstance(block, Mapping) else block for block in content]
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _call(call: Mapping[str, Any]) -> _Call:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else {}
    name, arguments = named.get("name"), named.get("arguments")
    return _Call(
        id=str(call.get("id", "")),
        function=_Function(
            name if isinstance(name, str) else "tool",
            arguments if isinstance(arguments, str) else encoded(arguments).decode(),
        ),
    )


def _converted(value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return ()
