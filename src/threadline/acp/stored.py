"""A stored transcript as an editor is shown it again: the same updates as when it happened. Pure, and fast: people wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.acp.lines import TAIL, encoded, line_of
from threadline.acp.translate import call_ended, call_started, file_block, heard, plan_of, said, thought
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Body, Message, decode_body, text_of
from threadline.ports.agent import Diff, Place, PlanStep, ToolCall, ToolKind
from threadline.rpc.acp import AgentMessageChunk, KnownUpdate, ToolCallStart, UserMessageChunk

Role: TypeAlias = Literal["user", "assistant"]

_USER = b'{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":'
_ASSISTANT = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_TEXT_TAIL = b"}}" + TAIL
_TEXT_BEGINS = b'"content":"'
# With as much around it as there can be, one character is left for a text.
_SHORTEST = len(b'{"role":"assistant","content":"?"}')


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


class _Plain(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A message that is nothing but text, which stays as it is written."""

    role: Role
    content: msgspec.Raw


_read_plain = msgspec.json.Decoder(_Plain).decode
_read_one = msgspec.json.Decoder(_Stored).decode


class Replay:
    """Turns the messages of one session into lines, page by page. It remembers which tools were called."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._called: set[str] = set()

    def lines(self, bodies: Iterable[Body]) -> Iterator[bytes | Enclosure]:
        """A page of messages, as stored, in order: lines ready to be sent, and files that have to be fetched."""
        begun: dict[Role, bytes] = {"user": self._head + _USER, "assistant": self._head + _ASSISTANT}
        ready: list[bytes | msgspec.Raw] = []
        for given in bodies:
            body = given if isinstance(given, bytes) else given.encode()
            if (plain := _plain(body)) is not None:
                ready += (begun[plain.role], plain.content, _TEXT_TAIL)
                continue
            for shown in self._updates(_one(body)):
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


def _plain(body: bytes) -> _Plain | None:
    """A message that is nothing but text, unread: most are such, and need not be taken apart and put together again."""
    if body.find(_TEXT_BEGINS, 0, _SHORTEST) < 0 or len(body) < _SHORTEST or _is_escaped(body):
        return None
    try:
        return _read_plain(body)
    except msgspec.DecodeError:
        return None


def _is_escaped(body: bytes) -> bool:
    """Whether characters are written by number: one may be half of a character, which no peer can read."""
    # The backslash alone is looked for first, because that is many times as fast, and most texts have none.
    return b"\\" in body and b"\\u" in body


def _one(body: Body) -> _Stored:
    try:
        return _read_one(body)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _odd(decode_body(body))


def _odd(message: Message) -> _Stored:
    """A message of any form, as far as it can be read: transcripts may come from elsewhere."""
    calls = message.get("tool_calls")
    return _Stored(
        role=str(message.get("role", "")),
        content=text_of(message.get("content")),
        reasoning=text_of(message.get("reasoning")),
        tool_calls=tuple(_call(call) for call in calls if isinstance(call, Mapping)) if isinstance(calls, list) else (),
        tool_call_id=text_of(message.get("tool_call_id")) or None,
        is_error=message.get("is_error") is True,
        diffs=_converted(message.get("diffs"), tuple[Diff, ...]),
        plan=_converted(message.get("plan"), tuple[PlanStep, ...]),
        attachments=attachments_of(message),
    )


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
