"""Showing an editor all that was said in a session, commands and notices in their places, before it goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from threadline.acp.conversation import Conversation
from threadline.acp.desk import Desk
from threadline.acp.lines import head_of
from threadline.acp.stored import Enclosure, Large, Replay
from threadline.acp.table import GAP, Table
from threadline.acp.translate import heard, told
from threadline.clock import Instant
from threadline.gateway.composing import read_event
from threadline.model.turn import Waiting
from threadline.model.view import Span, upto
from threadline.ports.agent import File
from threadline.store.editors import Aside, Replayed, ReplayPage
from threadline.store.watching import Seen, TurnSeen

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

    async def replay(self, conversation: Conversation) -> Seen | None:
        """Tells all of it: what was said, then what runs or waits. A turn that runs here goes on where it is."""
        outlet, live = conversation.outlet, conversation.live
        outlet.hold()
        before, known = (live.turn_id, tuple(live.lines)), conversation.keys
        try:
            seen, replayed = await self._standing(conversation)
            # What has arrived since waits to be told behind all this; what is told here, and arrives then, is told no more.
            asides = deque(one for one in replayed.asides if one.key in known or conversation.is_new(one.key))
            await self._past(conversation, replayed.spans, asides, _present_since(seen))
            if seen is not None:
                await self._present(conversation, seen, asides, *before)
            if live.turn_id and (seen is None or seen.turn is None or seen.turn.turn_id != live.turn_id):
                # It ended meanwhile, so that what was said is the whole of it.
                live.upto = _ALL
                outlet.forget(live.turn_id)
        finally:
            outlet.release()
        return seen

    async def _standing(self, conversation: Conversation) -> tuple[Seen | None, Replayed]:
        """Where the conversation stands, and what was said until then: the two are of one moment."""
        source = conversation.source
        agent, _ = await self._desk.agent_at(source)
        seen = await self._desk.look(source)
        replayed = Replayed(())
        for _ in range(_LOOKS):
            replayed = await self._desk.store.replay_of(source, agent=agent)
            before, seen = seen, await self._desk.look(source)
            if _moment(before) == _moment(seen):
                break
        return seen, replayed

    async def _past(
        self, conversation: Conversation, spans: Sequence[Span], asides: deque[Aside], until: Instant
    ) -> None:
        """Tells what is over: the messages, and of `asides` those before `until`, each in its place."""
        replay, after = Replay(head_of(conversation.session_id)), 0
        while asides and asides[0].at < until:
            aside = asides.popleft()
            if aside.after > after:
                await self._messages(conversation, replay, upto(spans, aside.after), after)
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
            page = cast("ReplayPage | None", coming)

    async def _tell_page(self, conversation: Conversation, replay: Replay, text: bytes) -> None:
        # Whoever reads the next has to have begun.
        await asyncio.sleep(0)
        await self._tell_all(conversation, replay, text)
        await self._editor.drain()

    async def _page(self, spans: Sequence[Span], after: int) -> ReplayPage | None:
        return await self._desk.store.replay_page(spans, after=after, limit=PAGE)

    async def _tell_all(self, conversation: Conversation, replay: Replay, text: bytes) -> None:
        for part in replay.lines(text):
            if not isinstance(part, Large):
                await self._tell(conversation, part)
            elif (body := await self._desk.store.replay_body(part.number)) is not None:
                await self._tell_all(conversation, replay, body.encode())
                await self._editor.drain()

    async def _present(
        self, conversation: Conversation, seen: Seen, asides: Iterable[Aside], turn_id: str, lines: Iterable[bytes]
    ) -> None:
        turn = seen.turn
        if turn is not None:
            await self._said(conversation, turn.said)
            for aside in asides:
                self._aside(conversation, aside)
            if turn.turn_id == turn_id:
                conversation.outlet.pass_by(b"".join(lines))
            elif turn.turn_id != conversation.live.turn_id:
                await self._journalled(conversation, turn)
        await self._said(conversation, seen.waiting)

    async def _said(self, conversation: Conversation, waiting: Iterable[Waiting]) -> None:
        for one in waiting:
            if one.lane == "talk":
                if one.event.text:
                    conversation.outlet.pass_by(conversation.line(heard(one.event.text)))
                for file in one.event.attachments:
                    await self._tell(conversation, Enclosure("user", file))

    async def _journalled(self, conversation: Conversation, turn: TurnSeen) -> None:
        """What a turn has said and done that runs elsewhere, or broke off and was not closed yet."""
        for _, event in turn.events:
            shown = told(read_event(event))
            if isinstance(shown, File):
                await self._tell(conversation, Enclosure("assistant", shown.attachment))
            elif shown is not None:
                conversation.outlet.pass_by(conversation.line(shown))
        conversation.replayed(turn.turn_id, turn.upto)

    def _aside(self, conversation: Conversation, aside: Aside) -> None:
        """Tells something else that was told there: a command with its answer, or a word that nobody had asked for."""
        if aside.asked:
            conversation.outlet.pass_by(conversation.line(heard(aside.asked)))
            update = self._table.shown(aside.key, aside.text)
        else:
            update = self._table.shown(aside.key, aside.text, before=GAP if aside.after else "", behind=GAP)
        conversation.outlet.pass_by(conversation.line(update))

    async def _tell(self, conversation: Conversation, part: bytes | Enclosure) -> None:
        if isinstance(part, Enclosure):
            body = await self._desk.fetch(part.file)
            part = conversation.line(part.update(body))
        if part:
            conversation.outlet.pass_by(part)


def _present_since(seen: Seen | None) -> Instant:
    """When what runs was said; where nothing does, all is past."""
    said = () if seen is None or seen.turn is None else seen.turn.said
    return min((one.at for one in said), default=_NEVER)


def _moment(seen: Seen | None) -> tuple[object, ...]:
    if seen is None:
        return ()
    return seen.entry.session_id, seen.mark, seen.seq, None if seen.turn is None else seen.turn.turn_id
