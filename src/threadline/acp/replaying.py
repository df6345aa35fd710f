"""Showing an editor all that was said in a session, commands and notices in their places, before it goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

from threadline.acp.conversation import Conversation, LiveTurn, Prompt
from threadline.acp.desk import Desk
from threadline.acp.lines import head_of
from threadline.acp.stored import Enclosure, Large, Replay
from threadline.acp.table import GAP, Table
from threadline.acp.translate import told, user_text
from threadline.clock import Instant, to_instant
from threadline.gateway.composing import read_event
from threadline.model.turn import PendingMessage
from threadline.model.view import Span, spans_up_to
from threadline.ports.agent import Event, File
from threadline.store.conversations.editor_sessions import HistoryPage, HistoryPlan, SideMessage
from threadline.store.work.change_feed import ConversationSnapshot

# So many lines are put together at once: others get their turn in between.
PAGE = 1000
_LOOKS = 20
# More than any turn has to say.
_ALL = 1 << 60
# Later than anything that is stored.
_NEVER = Instant(1 << 62)


class Drains(Protocol):
    """Who sends lines, as fast as they are read."""

    async def drain(self) -> None: ...


class Replayer:
    """Tells sessions from their beginning on. What happens in one meanwhile is told behind that."""

    def __init__(self, desk: Desk, editor: Drains, table: Table) -> None:
        self._desk = desk
        self._editor = editor
        self._table = table

    async def replay(self, conversation: Conversation) -> ConversationSnapshot | None:
        """Tells all of it: what was said, then what runs or waits. A turn that runs here goes on where it is."""
        outlet = conversation.outlet
        while not outlet.is_empty:
            # What waits for a file counts as told already: it would be told twice.
            await outlet.flushed()
        conversation.hold()
        live, lines = conversation.live, b"".join(conversation.live.lines)
        try:
            seen, replayed = await self._standing(conversation)
            # At once: what waits to be told now happened before that moment, what comes after is told behind all this.
            journalled = _part(conversation, seen, replayed)
            asides = deque(replayed.side_messages)
            names = conversation.names_for_past("" if seen is None or seen.turn is None else seen.turn.turn_id)
            replay = Replay(head_of(conversation.session_id), names)
            await self._past(conversation, replay, replayed.spans, asides, _present_since(seen))
            conversation.counted(names)
            if seen is not None and seen.turn is not None:
                await self._said(conversation, seen.turn.user_messages)
                for aside in asides:
                    self._aside(conversation, aside)
                if journalled is not None:
                    await self._journalled(conversation, *journalled)
                elif seen.turn.turn_id == live.turn_id:
                    outlet.pass_by(lines)
            await self._said(conversation, () if seen is None else seen.pending)
        finally:
            conversation.release()
        return seen

    async def _standing(self, conversation: Conversation) -> tuple[ConversationSnapshot | None, HistoryPlan]:
        """Where the conversation stands, and what was said until then: the two are of one moment.

        No turn began here around that moment, and nothing was let in: what the one look has is in the other, or came later.
        """
        source = conversation.source
        agent, _ = await self._desk.agent_at(source)
        here, seen = _begun(conversation), await self._desk.look(source)
        replayed = HistoryPlan(())
        for _ in range(_LOOKS):
            replayed = await self._desk.store.editor_sessions.history_plan(source, agent=agent)
            begun, before = here, seen
            here, seen = _begun(conversation), await self._desk.look(source)
            if _moment(before) == _moment(seen) and begun == _begun(conversation):
                break
        return seen, replayed

    async def _past(
        self,
        conversation: Conversation,
        replay: Replay,
        spans: Sequence[Span],
        asides: deque[SideMessage],
        until: Instant,
    ) -> None:
        """Tells what is over: the messages, and of `asides` those before `until`, each in its place."""
        after = 0
        while asides and asides[0].at < until:
            aside = asides.popleft()
            if aside.after > after:
                await self._messages(conversation, replay, spans_up_to(spans, aside.after), after)
                after = aside.after
            self._aside(conversation, aside)
        await self._messages(conversation, replay, spans, after)

    async def _messages(self, conversation: Conversation, replay: Replay, spans: Sequence[Span], after: int) -> None:
        page = await self._page(spans, after)
        while page is not None:
            # The next one is read meanwhile: the database needs no interpreter for that.
            coming, told = await asyncio.gather(
                self._page(spans, page.last),
                self._tell_page(conversation, replay, page.text),
                # Whichever fails, the other comes to its end first: nothing is told behind what follows.
                return_exceptions=True,
            )
            for outcome in (told, coming):
                if isinstance(outcome, BaseException):
                    raise outcome
            page = cast("HistoryPage | None", coming)

    async def _tell_page(self, conversation: Conversation, replay: Replay, text: bytes) -> None:
        # Whoever reads the next has to have begun.
        await asyncio.sleep(0)
        await self._tell_all(conversation, replay, text)
        await self._editor.drain()

    async def _page(self, spans: Sequence[Span], after: int) -> HistoryPage | None:
        return await self._desk.store.editor_sessions.history_page(spans, after=after, limit=PAGE)

    async def _tell_all(self, conversation: Conversation, replay: Replay, text: bytes) -> None:
        for part in replay.lines(text):
            if not isinstance(part, Large):
                await self._tell(conversation, part)
            elif (body := await self._desk.store.editor_sessions.message_body(part.number)) is not None:
                await self._tell_all(conversation, replay, body.encode())
                await self._editor.drain()

    async def _said(self, conversation: Conversation, waiting: Iterable[PendingMessage]) -> None:
        for one in waiting:
            if one.lane == "talk":
                if one.event.text:
                    conversation.outlet.pass_by(conversation.line(user_text(one.event.text)))
                for file in one.event.attachments:
                    await self._tell(conversation, Enclosure("user", file))

    async def _journalled(self, conversation: Conversation, live: LiveTurn, events: Iterable[Event]) -> None:
        """What a turn has said and done that runs elsewhere, or broke off and was not closed yet."""
        lines: list[bytes] = []
        for event in events:
            shown = told(event)
            if isinstance(shown, File):
                lines.append(await self._line(conversation, Enclosure("assistant", shown.attachment)))
            elif shown is not None:
                lines.append(conversation.line(shown))
        conversation.outlet.pass_by(b"".join(lines))
        # In front: it may go on here by now.
        live.lines[:0] = lines

    def _aside(self, conversation: Conversation, aside: SideMessage) -> None:
        """Tells something else that was told there: a command with its answer, or a word that nobody had asked for."""
        if aside.command_text:
            conversation.outlet.pass_by(conversation.line(user_text(aside.command_text)))
            update = self._table.shown(aside.key, aside.text)
        else:
            update = self._table.shown(aside.key, aside.text, before=GAP if aside.after else "", behind=GAP)
        conversation.outlet.pass_by(conversation.line(update))

    async def _tell(self, conversation: Conversation, part: bytes | Enclosure) -> None:
        conversation.outlet.pass_by(await self._line(conversation, part) if isinstance(part, Enclosure) else part)

    async def _line(self, conversation: Conversation, part: Enclosure) -> bytes:
        return conversation.line(part.update(await self._desk.fetch(part.file)))


def _part(
    conversation: Conversation, seen: ConversationSnapshot | None, replayed: HistoryPlan
) -> tuple[LiveTurn, list[Event]] | None:
    """Takes out of what waits to be told all that is told from the store; what of that arrives later is told no more.

    Returns the turn whose journal is to be told, and what stands there; `None` where none is.
    """
    turn = None if seen is None else seen.turn
    running = "" if turn is None else turn.turn_id
    keys = {aside.key for aside in replayed.side_messages}
    for key in keys:
        conversation.is_new(key)
    keys.update(_stored(conversation.said_meanwhile, seen, replayed.side_messages))
    conversation.outlet.forget_all(keys, but=running)
    if conversation.live.turn_id == running:
        return None
    # It has ended, so that what was said is the whole of it; its last words may yet arrive.
    conversation.live.upto = _ALL
    if turn is None:
        return None
    events = conversation.replayed(running, turn.last_place, [read_event(row) for _, row in turn.events])
    return conversation.live, events


def _stored(
    prompts: Iterable[Prompt], seen: ConversationSnapshot | None, asides: Sequence[SideMessage]
) -> Iterator[str]:
    """The keys of those that are told from the store: what was taken, and commands that were answered."""
    turn = None if seen is None else seen.turn
    waiting = [*(() if seen is None else seen.pending), *(() if turn is None else turn.user_messages)]
    known = {one.event.dedupe_key for one in waiting}
    for prompt in prompts:
        event = prompt.event
        if event is None:
            continue
        if prompt.is_command:
            since = to_instant(event.sent_at)
            is_stored = any(aside.command_text == event.text and aside.at >= since for aside in asides)
        else:
            is_stored = prompt.is_taken or event.dedupe_key in known
        if is_stored:
            yield event.dedupe_key


def _present_since(seen: ConversationSnapshot | None) -> Instant:
    """When what runs was said; where nothing does, all is past."""
    said = () if seen is None or seen.turn is None else seen.turn.user_messages
    return min((one.at for one in said), default=_NEVER)


def _moment(seen: ConversationSnapshot | None) -> tuple[object, ...]:
    if seen is None:
        return ()
    return seen.entry.session_id, seen.view_version_mark, seen.seq, None if seen.turn is None else seen.turn.turn_id


def _begun(conversation: Conversation) -> tuple[object, ...]:
    """What was begun in this process: the last turn, and who was let in."""
    prompt = conversation.prompt
    return conversation.began, prompt, prompt is not None and prompt.is_taken
