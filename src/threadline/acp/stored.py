"""A stored transcript as an editor is shown it again: the same updates as when it happened. Pure, and fast: people wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadline.acp.calls import Calls, Names
from threadline.acp.lines import TAIL, encoded, line_of
from threadline.acp.translate import call_ended, call_started, file_block, plan_of, said, thought, user_text
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Message, decode_body, text_of
from threadline.ports.agent import Diff, Place, PlanStep, ToolCall, ToolKind
from threadline.rpc.acp import AgentMessageChunk, KnownUpdate, ToolCallStart, UserMessageChunk

Role: TypeAlias = Literal["user", "assistant"]

_USER = b'{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":'
_ASSISTANT = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_TEXT_TAIL = b"}}" + TAIL
_QUOTE = ord('"')


class Enclosure(msgspec.Struct, frozen=True):
    """A file among the lines: what is in it has to be fetched."""

    role: Role
    file: Attachment

    def update(self, body: bytes | None) -> KnownUpdate:
        """What is told of it; without a body its name."""
        block = file_block(self.file, body)
        return UserMessageChunk(content=block) if self.role == "user" else AgentMessageChunk(content=block)


class Large(msgspec.Struct, frozen=True):
    """A message that is not among the others, because of its size: it has to be fetched by its number."""

    number: int


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


class _Asked(msgspec.Struct, gc=False, tag_field="role", tag="user"):
    """What a person said, unread; and whether there was more than words."""

    content: msgspec.Raw
    attachments: msgspec.Raw | UnsetType = UNSET


class _Answered(msgspec.Struct, gc=False, tag_field="role", tag="assistant"):
    """What the agent said, unread; and whether it did more than that."""

    content: msgspec.Raw
    reasoning: msgspec.Raw | UnsetType = UNSET
    tool_calls: msgspec.Raw | UnsetType = UNSET
    attachments: msgspec.Raw | UnsetType = UNSET
    plan: msgspec.Raw | UnsetType = UNSET

    def is_plain(self) -> bool:
        """Whether it did nothing but talk."""
        return self.tool_calls is UNSET and self.reasoning is UNSET and self.attachments is UNSET and self.plan is UNSET


class _Returned(msgspec.Struct, gc=False, tag_field="role", tag="tool"):
    """What a tool gave back, unread."""


Unread: TypeAlias = _Asked | _Answered | _Returned | int

_reader = msgspec.json.Decoder(Unread)
_read_one = msgspec.json.Decoder(_Stored).decode


class Replay:
    """Turns the messages of one session into lines, page by page. It remembers which tools were called."""

    def __init__(self, head: bytes, names: Names | None = None) -> None:
        """`names` are for the calls in them."""
        self._head = head
        self._names = Names() if names is None else names
        self._calls = Calls()

    def lines(self, page: bytes) -> Iterator[bytes | Enclosure | Large]:
        """Messages as stored, a line each, in order: lines ready to be sent, and what has to be fetched."""
        user, assistant = self._head + _USER, self._head + _ASSISTANT
        ready: list[bytes | msgspec.Raw] = []
        apart: list[bytes] = []
        for place, message in enumerate(_unread(page)):
            # Most are nothing but words, which stay as they are written: they need not be taken apart and put together again.
            begun, said = user, None
            if type(message) is _Asked:
                if message.attachments is UNSET:
                    said = message.content
            elif type(message) is _Answered and message.is_plain():
                begun, said = assistant, message.content
            # A look at how it begins needs no copy of the rest: it is a text, and there is something in it.
            if said is not None and (beginning := memoryview(said))[0] == _QUOTE != beginning[1]:
                ready += (begun, said, _TEXT_TAIL)
                continue
            apart = apart or page.split(b"\n")
            for shown in self._shown(apart[place]):
                if isinstance(shown, Enclosure | Large):
                    yield b"".join(ready)
                    yield shown
                    ready = []
                else:
                    ready.append(line_of(self._head, shown))
        yield b"".join(ready)

    def _shown(self, line: bytes) -> Iterator[Shown | Large]:
        if line.isdigit():
            yield Large(int(line))
        else:
            yield from self._updates(_one(line))

    def _updates(self, message: _Stored) -> Iterator[Shown]:
        if message.role == "user":
            if message.content:
                yield user_text(message.content)
            yield from (Enclosure("user", file) for file in message.attachments)
        elif message.role == "assistant":
            yield from self._answer(message)
        elif message.role == "tool" and message.tool_call_id is not None:
            name = self._calls.end(message.tool_call_id)
            if name is None:
                # An editor may drop news of a call that it was never told of.
                name = self._names.give(message.tool_call_id)
                yield ToolCallStart(tool_call_id=name, title="tool")
            yield call_ended(name, message.content or "", message.diffs, is_error=message.is_error)

    def _answer(self, message: _Stored) -> Iterator[Shown]:
        if message.reasoning:
            yield thought(message.reasoning)
        if message.content:
            yield said(message.content)
        yield from (Enclosure("assistant", file) for file in message.attachments)
        for call in message.tool_calls:
            name, function = self._calls.start(call.id, self._names), call.function
            yield call_started(ToolCall(name, function.name, function.arguments, call.title, call.kind, call.places))
        if message.plan:
            yield plan_of(message.plan)


def updates_of(messages: Iterable[Message], names: Names) -> Iterator[KnownUpdate]:
    """What an editor is shown of a few messages; of their files the names."""
    replay = Replay(b"", names)
    for message in messages:
        for shown in replay._updates(_odd(message)):  # noqa: SLF001 - the same, one message at a time
            yield shown.update(None) if isinstance(shown, Enclosure) else shown


def _unread(page: bytes) -> Sequence[Unread | None]:
    """The messages of a page with their words unread; `None` for those that can't be told so, and have to be read."""
    try:
        if not _is_escaped(page):
            return _reader.decode_lines(page)
    except msgspec.DecodeError:
        pass
    return [_glanced_at(line) for line in page.split(b"\n")]


def _glanced_at(line: bytes) -> Unread | None:
    try:
        return None if _is_escaped(line) else _reader.decode(line)
    except msgspec.DecodeError:
        return None


def _is_escaped(text: bytes) -> bool:
    """Whether characters are written by number: one may be half of a character, which no peer can read."""
    # The backslash alone is looked for first, because that is many times as fast, and most texts have none.
    return b"\\" in text and b"\\u" in text


def _one(body: bytes) -> _Stored:
    try:
        return _read_one(body)
    except msgspec.DecodeError:
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
