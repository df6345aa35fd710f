"""Showing an editor all that was said in a session, before it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from threadline.acp.conversation import Conversation
from threadline.acp.desk import Desk
from threadline.acp.lines import head_of
from threadline.acp.stored import Enclosure, Large, Replay
from threadline.acp.translate import heard, told
from threadline.gateway.composing import read_event
from threadline.model.turn import Waiting
from threadline.model.view import Span
from threadline.ports.agent import File
from threadline.store.editors import ReplayPage
from threadline.store.watching import Seen, TurnSeen

# So many lines are put together at once: others get their turn in between.
PAGE = 1000
_LOOKS = 20
# More than any turn has to say.
_ALL = 1 << 60


class Drains(Protocol):
    """Who sends lines, as fast as they are read."""

    async def drain(self) -> None: ...


class Replayer:
    """Tells sessions from their beginning on. What happens in one meanwhile is told behind that."""

    def __init__(self, desk: Desk, editor: Drains) -> None:
        self._desk = desk
        self._editor = editor

    async def replay(self, conversation: Conversation) -> Seen | None:
        """Tells all of it: what was said, then what runs or waits. A turn that runs here goes on where it is."""
        outlet, live = conversation.outlet, conversation.live
        outlet.hold()
        before = live.turn_id, tuple(live.lines)
        try:
            seen, spans = await self._standing(conversation)
            await self._past(conversation, spans)
            if seen is not None:
                await self._present(conversation, seen, *before)
            if live.turn_id and (seen is None or seen.turn is None or seen.turn.turn_id != live.turn_id):
                # It ended meanwhile, so that what was said is the whole of it.
                live.upto = _ALL
                outlet.forget(live.turn_id)
        finally:
            outlet.release()
        return seen

    async def _standing(self, conversation: Conversation) -> tuple[Seen | None, Sequence[Span]]:
        """Where the conversation stands, and what was said until then: the two are of one moment."""
        source = conversation.source
        agent, _ = await self._desk.agent_at(source)
        seen = await self._desk.look(source)
        spans: Sequence[Span] = ()
        for _ in range(_LOOKS):
            spans = await self._desk.store.replay_of(source, agent=agent)
            before, seen = seen, await self._desk.look(source)
            if _moment(before) == _moment(seen):
                break
        return seen, spans

    async def _past(self, conversation: Conversation, spans: Sequence[Span]) -> None:
        replay, page = Replay(head_of(conversation.session_id)), await self._page(spans, 0)
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

    async def _present(self, conversation: Conversation, seen: Seen, turn_id: str, lines: Iterable[bytes]) -> None:
        turn = seen.turn
        if turn is not None:
            await self._said(conversation, turn.said)
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

    async def _tell(self, conversation: Conversation, part: bytes | Enclosure) -> None:
        if isinstance(part, Enclosure):
            body = await self._desk.fetch(part.file)
            part = conversation.line(part.update(body))
        if part:
            conversation.outlet.pass_by(part)


def _moment(seen: Seen | None) -> tuple[object, ...]:
    if seen is None:
        return ()
    return seen.entry.session_id, seen.mark, seen.seq, None if seen.turn is None else seen.turn.turn_id
