"""Who listens in this process, and what they are told. What a running turn says passes in memory; all else is read.

The store is the truth: whatever another gateway or the command line does is found by looking, every two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from threadline.errors import StoreError
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model.access import Role
from threadline.model.client_sources import parse_web_chat_id, web_source
from threadline.model.delivery import Target
from threadline.model.source import SessionSource
from threadline.ports.live import Ending, Growth
from threadline.store.engine.database import Row
from threadline.store.facade import GatewayStore
from threadline.store.work.change_feed import ConversationSnapshot
from threadline.web.conversation_state import LiveTurn, Piece, Shown, live_of, shown_of
from threadline.web.frames import BREATH, frame, read_place
from threadline.web.shapes import Gone
from threadline.web.subscribers import Audience, ListWatch, Reader

log = get_logger(__name__)

_PAUSE_SECONDS = 1.0
# A message, its turn and often the end of that come together: one look for all of them, and nobody sees such a delay.
_TOGETHER_SECONDS = 0.02

# The name of the agent that answers there.
AgentAt: TypeAlias = Callable[[SessionSource], str]

POLL_SECONDS = 2.0
_BREATH_SECONDS = 15.0
# What all tabs with a running turn are handed together: about half of what one process can.
PIECES_A_SECOND = 10_000.0
# The place of a turn's journal in what a glance tells.
_JOURNALLED = 7


class Follower:
    """What the readers of one conversation see, and the readers. All of them are always at the same place."""

    def __init__(
        self,
        store: GatewayStore,
        source: SessionSource,
        agent: Callable[[], str],
        running: Callable[[], LiveTurn | None],
        role: Role,
        moment: Callable[[], float],
    ) -> None:
        """`running` tells the turn that this process runs there, which nobody need read from the store.

        `moment` tells how many seconds lie between two pieces that the readers are handed.
        """
        self.source = source
        self.agent = agent
        self.role = role
        self.readers = Audience(moment)
        self._store = store
        self._running = running
        self._shown: Shown | None = None
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def is_there(self) -> bool:
        """Whether there is such a conversation, as far as it was looked at."""
        return self._shown is not None

    def wake(self) -> None:
        """Something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Looks a moment after it is woken, until it is cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_TOGETHER_SECONDS)
            self._wake.clear()
            try:
                await self.look()
            except StoreError as cause:
                log.warning("web.not_followed", error=str(cause))
                await asyncio.sleep(_PAUSE_SECONDS)
                self._wake.set()

    async def look(self) -> None:
        """Sees where the conversation stands now, and tells the readers what has changed."""
        async with self._looking:
            shown, running = self._shown, self._running()
            live = None if shown is None else shown.live
            seen = await self._store.change_feed.snapshot(
                self.source,
                agent=self.agent(),
                view_version_mark=None if shown is None else shown.mark,
                seq=0 if shown is None else shown.seq,
                turn=None if live is None else live.place,
                live_turn=None if running is None else running.place,
            )
            self.readers.tell(self._follow(seen))

    def join(self, reader: Reader, last_id: str | None) -> None:
        """Tells a reader where things stand, or what it has missed since `last_id`; from then on whatever happens."""
        shown = self._shown
        if shown is None:
            return
        place = read_place(last_id)
        missed = None if place is None else shown.resumed(place)
        self.readers.add(reader, shown.anew() if missed is None else missed)

    def anew(self) -> bytes:
        """Where things stand, for a reader that has lost its place."""
        self.readers.catch_up()
        return b"" if self._shown is None else self._shown.anew()

    def grew(self, growth: Growth, running: LiveTurn, piece: Piece | None) -> None:
        """Tells the readers what a turn of this process has said and done. `piece`: what is new of it to `running`."""
        shown = self._shown
        if shown is None or shown.live is None:
            return
        if shown.live is not running:
            self.readers.tell(shown.grow(growth) or b"")
        elif piece is not None:
            self.readers.tell(shown.pass_on(piece))

    def _follow(self, seen: ConversationSnapshot | None) -> bytes:
        shown = self._shown
        if seen is None:
            self._shown = None
            return b"" if shown is None else frame("gone", _gone(shown))
        running = self._running()
        if shown is not None and seen.is_continuation:
            return shown.follow(seen, live_of(seen, shown, running), self.role)
        self._shown = shown_of(seen, shown, running, self.role)
        return self._shown.anew()


def _gone(shown: Shown) -> Gone:
    return Gone(shown.conversation.id, shown.conversation.session_id)


class Hub:
    """The onlooker of the web page: one follower for each conversation that somebody here has open."""

    def __init__(
        self,
        store: GatewayStore,
        agent_at: AgentAt,
        *,
        poll_seconds: float = POLL_SECONDS,
        pieces_a_second: float = PIECES_A_SECOND,
    ) -> None:
        """`pieces_a_second`: the more tabs watch turns, the more of what happens at once each is handed in one piece."""
        self._store = store
        self._agent_at = agent_at
        self._poll_seconds = poll_seconds
        self._pieces_a_second = pieces_a_second
        self._supervisor = Supervisor()
        self._turns: dict[str, LiveTurn] = {}
        self._followers: dict[str, Follower] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lists: dict[str, ListWatch] = {}
        self._glances: dict[str, Row | None] = {}
        # Each tab, with the chat that it follows, if any, and the person whose list it shows.
        self._readers: dict[Reader, tuple[str | None, str]] = {}
        # How many of them have a turn before them that runs here.
        self._watching = 0
        self._is_closed = False

    def start(self) -> None:
        """Begins to look, and to keep quiet streams open."""
        self._supervisor.keep("web.poll", self._keep_looking)
        self._supervisor.keep("web.breath", self._keep_breathing)

    async def close(self) -> None:
        """Ends all streams."""
        self.end_streams()
        await self._supervisor.stop()

    def end_streams(self) -> None:
        """Tells every reader that nothing more comes; new ones are told so at once."""
        self._is_closed = True
        for reader in self._readers:
            reader.close()

    async def open(
        self, user_id: str, role: Role, conversation: str | None, last_id: str | None = None
    ) -> Reader | None:
        """A reader of somebody's list, and of that conversation of theirs; `None` where there is no such conversation."""
        follower = None if conversation is None else await self._follower(user_id, role, conversation)
        if conversation is not None and follower is None:
            return None
        reader = Reader(follower.anew if follower is not None else bytes)
        if self._is_closed:
            reader.close()
        self._readers[reader] = (None if follower is None else follower.source.chat_id, user_id)
        if follower is not None:
            follower.join(reader, last_id)
            self._count_watching()
        self._list_of(user_id).join(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        """Forgets a reader; what nobody follows any more is not looked at any more."""
        reader.close()
        chat, user_id = self._readers.pop(reader, (None, ""))
        follower = None if chat is None else self._followers.get(chat)
        if chat is not None and follower is not None:
            follower.readers.discard(reader)
            if not follower.readers:
                self._forget(chat)
            self._count_watching()
        watch = self._lists.get(user_id)
        if watch is not None:
            watch.leave(reader)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        """A turn begins here, perhaps not for the first time."""
        self._turns[to.chat_id] = LiveTurn(turn_id, attempt)
        self._count_watching()
        self._stir(to.chat_id)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """A turn of this process has said or done more."""
        running = self._turns.get(to.chat_id)
        if running is None or not running.is_same(growth.turn_id, growth.attempt):
            running = self._turns[to.chat_id] = LiveTurn(growth.turn_id, growth.attempt)
            self._count_watching()
        piece = running.add(growth.first, growth.upto, growth.events)
        follower = self._followers.get(to.chat_id)
        if follower is not None:
            follower.grew(growth, running, piece)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:  # noqa: ARG002 - the store tells
        """A turn is not this process's any more."""
        running = self._turns.get(to.chat_id)
        if running is not None and running.turn_id == turn_id:
            del self._turns[to.chat_id]
            self._count_watching()
        self._stir(to.chat_id)

    def arrived(self, to: Target) -> None:
        """Something was stored that the conversation shows."""
        self._stir(to.chat_id)

    def said(self, user_id: str, conversation: str) -> None:
        """Somebody has said or changed something there through this process."""
        self._stir(f"{user_id}.{conversation}")

    def running_at(self, chat_id: str) -> LiveTurn | None:
        """The turn that this process runs there."""
        return self._turns.get(chat_id)

    def _moment(self) -> float:
        """How many seconds lie between two pieces that a tab is handed: nothing to notice while few watch."""
        return self._watching / self._pieces_a_second

    def _count_watching(self) -> None:
        followers = self._followers
        self._watching = sum(len(followers[chat].readers) for chat in self._turns if chat in followers)

    def _stir(self, chat_id: str) -> None:
        follower = self._followers.get(chat_id)
        if follower is not None:
            follower.wake()
        place = parse_web_chat_id(chat_id)
        watch = None if place is None else self._lists.get(place[0])
        if watch is not None:
            watch.wake()

    async def _follower(self, user_id: str, role: Role, conversation: str) -> Follower | None:
        source = web_source(user_id, conversation)
        chat = source.chat_id or ""
        follower = self._followers.get(chat)
        if follower is None:
            follower = Follower(
                self._store, source, lambda: self._agent_at(source), lambda: self._turns.get(chat), role, self._moment
            )
        follower.role = role
        await follower.look()
        if not follower.is_there:
            return None
        # Somebody else may have come while we looked.
        kept = self._followers.setdefault(chat, follower)
        if kept is follower and chat not in self._tasks:
            self._tasks[chat] = self._supervisor.start(f"web.follow.{chat}", follower.run())
        return kept

    def _forget(self, chat: str) -> None:
        del self._followers[chat]
        self._glances.pop(chat, None)
        task = self._tasks.pop(chat, None)
        if task is not None:
            task.cancel()

    def _list_of(self, user_id: str) -> ListWatch:
        watch = self._lists.get(user_id)
        if watch is None:
            watch = self._lists[user_id] = ListWatch(self._store, user_id)
            self._supervisor.start(f"web.list.{user_id}", self._watch_list(user_id, watch))
        return watch

    async def _watch_list(self, user_id: str, watch: ListWatch) -> None:
        await watch.run()
        del self._lists[user_id]

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self._look_around()
            except StoreError as cause:
                log.warning("web.not_looked", error=str(cause))

    async def _look_around(self) -> None:
        followers = dict(self._followers)
        if not followers:
            return
        found = await self._store.change_feed.fingerprints([(one.source, one.agent()) for one in followers.values()])
        for (chat, follower), row in zip(followers.items(), found, strict=True):
            seen = row
            if row is not None and chat in self._turns:
                # Its events come by another way.
                seen = (*row[:_JOURNALLED], *row[_JOURNALLED + 1 :])
            if self._glances.get(chat, ()) != seen:
                self._glances[chat] = seen
                follower.wake()

    async def _keep_breathing(self) -> None:
        while True:
            await asyncio.sleep(_BREATH_SECONDS)
            for reader in self._readers:
                if reader.is_quiet:
                    reader.put(BREATH)
