"""Replay of the stored history of a session for an editor, in order with commands and notices."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

from threadline.acp.open_session import OpenPrompt, OpenSession, SentTurn
from threadline.acp.platform import GAP, GatewayBridge, OpenSessions
from threadline.acp.translate import (
    TAIL,
    CallIds,
    RunningCalls,
    agent_text,
    agent_thought,
    call_ended,
    call_started,
    encode_json,
    file_block,
    plan_of,
    update_line,
    update_of,
    update_prefix,
    user_text,
)
from threadline.clock import Instant, to_instant
from threadline.gateway.composing import read_event
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Message, decode_body, text_of
from threadline.model.turn import PendingMessage
from threadline.model.view import Span, spans_up_to
from threadline.ports.agent import Diff, Event, File, Place, PlanStep, ToolCall, ToolKind
from threadline.rpc.acp import AgentMessageChunk, KnownUpdate, ToolCallStart, UserMessageChunk
from threadline.store.conversations.editor_sessions import HistoryPage, HistoryPlan, SideMessage
from threadline.store.work.change_feed import ConversationSnapshot

# Messages per page. Other tasks run between two pages.
PAGE = 1000
_LOOKS = 20
# More than the number of events of any turn.
_ALL = 1 << 60
# Later than any stored time.
_NEVER = Instant(1 << 62)
Role: TypeAlias = Literal["user", "assistant"]

_USER = b'{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":'
_ASSISTANT = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_TEXT_TAIL = b"}}" + TAIL
_QUOTE = ord('"')


class HistoryReplay:
    """Sends sessions from their beginning. Updates that arrive meanwhile follow the replay."""

    def __init__(
        self, bridge: GatewayBridge, drain: Callable[[], Awaitable[None]], open_sessions: OpenSessions
    ) -> None:
        self._bridge = bridge
        self._drain = drain
        self._open_sessions = open_sessions

    async def replay(self, session: OpenSession) -> ConversationSnapshot | None:
        """Send the whole session: the history, then the running turn and waiting messages. Return the snapshot that was sent."""
        queue = session.queue
        while not queue.is_empty:
            # An update that waits for a file counts as sent. The replay would send it twice.
            await queue.wait_until_sent()
        session.hold()
        live, lines = session.live, b"".join(session.live.lines)
        try:
            snapshot, replayed = await self._consistent_snapshot(session)
            # At once: what waits to be told now happened before that moment, what comes after is told behind all this.
            journalled = _part(session, snapshot, replayed)
            side_messages = deque(replayed.side_messages)
            call_ids = session.past_call_ids("" if snapshot is None or snapshot.turn is None else snapshot.turn.turn_id)
            replay = HistoryEncoder(update_prefix(session.session_id), call_ids)
            await self._send_finished(session, replay, replayed.spans, side_messages, _present_since(snapshot))
            session.adopt_call_ids(call_ids)
            if snapshot is not None and snapshot.turn is not None:
                await self._said(session, snapshot.turn.user_messages)
                for side_message in side_messages:
                    self._send_side_message(session, side_message)
                if journalled is not None:
                    await self._journalled(session, *journalled)
                elif snapshot.turn.turn_id == live.turn_id:
                    queue.send_out_of_order(lines)
            await self._said(session, () if snapshot is None else snapshot.pending)
        finally:
            session.release()
        return snapshot

    async def _consistent_snapshot(self, session: OpenSession) -> tuple[ConversationSnapshot | None, HistoryPlan]:
        """Where the conversation stands, and what was said until then: the two are of one moment.

        No turn began here around that moment, and nothing was let in: what the one look has is in the other, or came later.
        """
        source = session.source
        agent, _ = await self._bridge.agent_at(source)
        here, snapshot = _begun(session), await self._bridge.snapshot(source)
        replayed = HistoryPlan(())
        for _ in range(_LOOKS):
            replayed = await self._bridge.store.editor_sessions.history_plan(source, agent=agent)
            begun, before = here, snapshot
            here, snapshot = _begun(session), await self._bridge.snapshot(source)
            if _moment(before) == _moment(snapshot) and begun == _begun(session):
                break
        return snapshot, replayed

    async def _send_finished(
        self,
        session: OpenSession,
        replay: HistoryEncoder,
        spans: Sequence[Span],
        side_messages: deque[SideMessage],
        until: Instant,
    ) -> None:
        """Send all finished messages, and the side messages before `until`, each at its place."""
        after = 0
        while side_messages and side_messages[0].at < until:
            side_message = side_messages.popleft()
            if side_message.after > after:
                await self._messages(session, replay, spans_up_to(spans, side_message.after), after)
                after = side_message.after
            self._send_side_message(session, side_message)
        await self._messages(session, replay, spans, after)

    async def _messages(self, session: OpenSession, replay: HistoryEncoder, spans: Sequence[Span], after: int) -> None:
        page = await self._page(spans, after)
        while page is not None:
            # The next page is read meanwhile: the database releases the interpreter lock.
            coming, told = await asyncio.gather(
                self._page(spans, page.last),
                self._tell_page(session, replay, page.text),
                # Whichever fails, the other comes to its end first: nothing is told behind what follows.
                return_exceptions=True,
            )
            for outcome in (told, coming):
                if isinstance(outcome, BaseException):
                    raise outcome
            page = cast("HistoryPage | None", coming)

    async def _tell_page(self, session: OpenSession, replay: HistoryEncoder, text: bytes) -> None:
        # Let the read of the next page start first.
        await asyncio.sleep(0)
        await self._tell_all(session, replay, text)
        await self._drain()

    async def _page(self, spans: Sequence[Span], after: int) -> HistoryPage | None:
        return await self._bridge.store.editor_sessions.history_page(spans, after=after, limit=PAGE)

    async def _tell_all(self, session: OpenSession, replay: HistoryEncoder, text: bytes) -> None:
        for part in replay.lines(text):
            if not isinstance(part, DeferredMessage):
                await self._tell(session, part)
            elif (body := await self._bridge.store.editor_sessions.message_body(part.number)) is not None:
                await self._tell_all(session, replay, body.encode())
                await self._drain()

    async def _said(self, session: OpenSession, waiting: Iterable[PendingMessage]) -> None:
        for one in waiting:
            if one.lane == "talk":
                if one.event.text:
                    session.queue.send_out_of_order(session.line(user_text(one.event.text)))
                for file in one.event.attachments:
                    await self._tell(session, DeferredFile("user", file))

    async def _journalled(self, session: OpenSession, live: SentTurn, events: Iterable[Event]) -> None:
        """Send the journal of a turn that runs in another process, or that was interrupted and is not closed yet."""
        lines: list[bytes] = []
        for event in events:
            shown = update_of(event)
            if isinstance(shown, File):
                lines.append(await self._line(session, DeferredFile("assistant", shown.attachment)))
            elif shown is not None:
                lines.append(session.line(shown))
        session.queue.send_out_of_order(b"".join(lines))
        # Insert in front: the turn may have continued here by now.
        live.lines[:0] = lines

    def _send_side_message(self, session: OpenSession, side_message: SideMessage) -> None:
        """Send a message outside of turns: a command with its reply, or a notice."""
        if side_message.command_text:
            session.queue.send_out_of_order(session.line(user_text(side_message.command_text)))
            update = self._open_sessions.shown(side_message.key, side_message.text)
        else:
            update = self._open_sessions.shown(
                side_message.key, side_message.text, before=GAP if side_message.after else "", behind=GAP
            )
        session.queue.send_out_of_order(session.line(update))

    async def _tell(self, session: OpenSession, part: bytes | DeferredFile) -> None:
        session.queue.send_out_of_order(await self._line(session, part) if isinstance(part, DeferredFile) else part)

    async def _line(self, session: OpenSession, part: DeferredFile) -> bytes:
        return session.line(part.update(await self._bridge.read_file(part.file)))


def _part(
    session: OpenSession, snapshot: ConversationSnapshot | None, replayed: HistoryPlan
) -> tuple[SentTurn, list[Event]] | None:
    """Takes out of what waits to be told all that is told from the store; what of that arrives later is told no more.

    Returns the turn whose journal is to be told, and what stands there; `None` where none is.
    """
    turn = None if snapshot is None else snapshot.turn
    running = "" if turn is None else turn.turn_id
    keys = {side_message.key for side_message in replayed.side_messages}
    for key in keys:
        session.mark_sent(key)
    keys.update(_stored(session.said_meanwhile, snapshot, replayed.side_messages))
    session.queue.drop_stored(keys, but=running)
    if session.live.turn_id == running:
        return None
    # It has ended, so that what was said is the whole of it; its last words may yet arrive.
    session.live.upto = _ALL
    if turn is None:
        return None
    events = session.start_from_store(running, turn.last_place, [read_event(row) for _, row in turn.events])
    return session.live, events


def _stored(
    prompts: Iterable[OpenPrompt], snapshot: ConversationSnapshot | None, side_messages: Sequence[SideMessage]
) -> Iterator[str]:
    """Return the keys of prompts that are sent from the store: accepted prompts, and commands that were answered."""
    turn = None if snapshot is None else snapshot.turn
    waiting = [*(() if snapshot is None else snapshot.pending), *(() if turn is None else turn.user_messages)]
    known = {one.event.dedupe_key for one in waiting}
    for prompt in prompts:
        event = prompt.event
        if event is None:
            continue
        if prompt.is_command:
            since = to_instant(event.sent_at)
            is_stored = any(
                side_message.command_text == event.text and side_message.at >= since for side_message in side_messages
            )
        else:
            is_stored = prompt.is_taken or event.dedupe_key in known
        if is_stored:
            yield event.dedupe_key


def _present_since(snapshot: ConversationSnapshot | None) -> Instant:
    """Return when the running turn's first message arrived, or `_NEVER` if no turn runs."""
    said = () if snapshot is None or snapshot.turn is None else snapshot.turn.user_messages
    return min((one.at for one in said), default=_NEVER)


def _moment(snapshot: ConversationSnapshot | None) -> tuple[object, ...]:
    if snapshot is None:
        return ()
    return (
        snapshot.entry.session_id,
        snapshot.view_version_mark,
        snapshot.seq,
        None if snapshot.turn is None else snapshot.turn.turn_id,
    )


def _begun(session: OpenSession) -> tuple[object, ...]:
    """Return the last turn of this process, and the current prompt with whether it was accepted."""
    prompt = session.prompt
    return session.last_turn_id, prompt, prompt is not None and prompt.is_taken


class DeferredFile(msgspec.Struct, frozen=True):
    """A file among the lines. Its content has to be read first."""

    role: Role
    file: Attachment

    def update(self, body: bytes | None) -> KnownUpdate:
        """Return the update for the file. Without content it has only the file's name."""
        block = file_block(self.file, body)
        return UserMessageChunk(content=block) if self.role == "user" else AgentMessageChunk(content=block)


class DeferredMessage(msgspec.Struct, frozen=True):
    """A message that is too large for its page. It has to be read by its number."""

    number: int


Shown: TypeAlias = KnownUpdate | DeferredFile


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
    """A message in the form in which turns store it."""

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
    """A message of a user, with its content undecoded."""

    content: msgspec.Raw
    attachments: msgspec.Raw | UnsetType = UNSET


class _Answered(msgspec.Struct, gc=False, tag_field="role", tag="assistant"):
    """A message of the agent, with its parts undecoded."""

    content: msgspec.Raw
    reasoning: msgspec.Raw | UnsetType = UNSET
    tool_calls: msgspec.Raw | UnsetType = UNSET
    attachments: msgspec.Raw | UnsetType = UNSET
    plan: msgspec.Raw | UnsetType = UNSET

    def is_plain(self) -> bool:
        """Return whether the message has text only."""
        return self.tool_calls is UNSET and self.reasoning is UNSET and self.attachments is UNSET and self.plan is UNSET


class _Returned(msgspec.Struct, gc=False, tag_field="role", tag="tool"):
    """A result of a tool, undecoded."""


Unread: TypeAlias = _Asked | _Answered | _Returned | int

_reader = msgspec.json.Decoder(Unread)
_read_one = msgspec.json.Decoder(_Stored).decode


class HistoryEncoder:
    """Encodes the stored messages of one session as lines, page by page. It remembers the tool calls."""

    def __init__(self, head: bytes, call_ids: CallIds | None = None) -> None:
        """`call_ids` are the ids for the calls in the messages."""
        self._head = head
        self._names = CallIds() if call_ids is None else call_ids
        self._calls = RunningCalls()

    def lines(self, page: bytes) -> Iterator[bytes | DeferredFile | DeferredMessage]:
        """Return lines that are ready to be sent, and files and messages to read first. `page` has one stored message per line."""
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
                if isinstance(shown, DeferredFile | DeferredMessage):
                    yield b"".join(ready)
                    yield shown
                    ready = []
                else:
                    ready.append(update_line(self._head, shown))
        yield b"".join(ready)

    def _shown(self, line: bytes) -> Iterator[Shown | DeferredMessage]:
        if line.isdigit():
            yield DeferredMessage(int(line))
        else:
            yield from self._updates(_one(line))

    def _updates(self, message: _Stored) -> Iterator[Shown]:
        if message.role == "user":
            if message.content:
                yield user_text(message.content)
            yield from (DeferredFile("user", file) for file in message.attachments)
        elif message.role == "assistant":
            yield from self._answer(message)
        elif message.role == "tool" and message.tool_call_id is not None:
            name = self._calls.end(message.tool_call_id)
            if name is None:
                # An editor may ignore a result without a call.
                name = self._names.assign(message.tool_call_id)
                yield ToolCallStart(tool_call_id=name, title="tool")
            yield call_ended(name, message.content or "", message.diffs, is_error=message.is_error)

    def _answer(self, message: _Stored) -> Iterator[Shown]:
        if message.reasoning:
            yield agent_thought(message.reasoning)
        if message.content:
            yield agent_text(message.content)
        yield from (DeferredFile("assistant", file) for file in message.attachments)
        for call in message.tool_calls:
            name, function = self._calls.start(call.id, self._names), call.function
            yield call_started(ToolCall(name, function.name, function.arguments, call.title, call.kind, call.places))
        if message.plan:
            yield plan_of(message.plan)


def updates_of(messages: Iterable[Message], call_ids: CallIds) -> Iterator[KnownUpdate]:
    """Return the updates for a few messages. Files are shown by name."""
    replay = HistoryEncoder(b"", call_ids)
    for message in messages:
        for shown in replay._updates(_lenient(message)):  # noqa: SLF001 - the same, one message at a time
            yield shown.update(None) if isinstance(shown, DeferredFile) else shown


def _unread(page: bytes) -> Sequence[Unread | None]:
    """Return the messages of a page with undecoded content, or None for each message that has to be decoded in full."""
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
    """Return whether the text has `\\u` escapes: one may be half of a character, which no peer can read."""
    # The backslash alone is looked for first, because that is many times as fast, and most texts have none.
    return b"\\" in text and b"\\u" in text


def _one(body: bytes) -> _Stored:
    try:
        return _read_one(body)
    except msgspec.DecodeError:
        return _lenient(decode_body(body))


def _lenient(message: Message) -> _Stored:
    """Return a message of any form as far as it can be read. Transcripts may come from other programs."""
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
            arguments if isinstance(arguments, str) else encode_json(arguments).decode(),
        ),
    )


def _converted(value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return ()
