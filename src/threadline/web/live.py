"""The subscribers in this process, and what they receive. Events of running turns pass in memory; the rest is read.

The store is the truth: changes by another gateway or the command line are found by polling, every two seconds.
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
from threadline.web.conversation_state import ConversationState, EventRange, RunningTurn, live_of, shown_of
from threadline.web.frames import KEEPALIVE, frame, parse_cursor
from threadline.web.shapes import Gone
from threadline.web.subscribers import ListFeed, Subscriber, SubscriberGroup

log = get_logger(__name__)

_PAUSE_SECONDS = 1.0
# A message, its turn and often the end of that come together: one look for all of them, and nobody sees such a delay.
_TOGETHER_SECONDS = 0.02

# The name of the agent that answers there.
AgentAt: TypeAlias = Callable[[SessionSource], str]

POLL_SECONDS = 2.0
_KEEPALIVE_SECONDS = 15.0
# What all tabs with a running turn are handed together: about half of what one process can.
PIECES_A_SECOND = 10_000.0
# The place of a turn's journal in what a glance tells.
_JOURNALLED = 7


class ConversationFeed:
    """The state of one conversation and its subscribers, which all have the same cursor."""

    def __init__(
        self,
        store: GatewayStore,
        source: SessionSource,
        agent: Callable[[], str],
        running: Callable[[], RunningTurn | None],
        role: Role,
        min_interval: Callable[[], float],
    ) -> None:
        """`running` returns the turn that this process runs there, which need not be read from the store.

        `min_interval` returns the least number of seconds between two chunks for the subscribers.
        """
        self.source = source
        self.agent = agent
        self.role = role
        self.subscribers = SubscriberGroup(min_interval)
        self._store = store
        self._running = running
        self._shown: ConversationState | None = None
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def is_there(self) -> bool:
        """Return whether the conversation existed at the last refresh."""
        return self._shown is not None

    def wake(self) -> None:
        """Request a refresh: something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Refresh shortly after each request, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_TOGETHER_SECONDS)
            self._wake.clear()
            try:
                await self.refresh()
            except StoreError as cause:
                log.warning("web.not_followed", error=str(cause))
                await asyncio.sleep(_PAUSE_SECONDS)
                self._wake.set()

    async def refresh(self) -> None:
        """Read the conversation from the store and send what has changed to the subscribers."""
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
            self.subscribers.broadcast(self._follow(seen))

    def join(self, subscriber: Subscriber, last_id: str | None) -> None:
        """Send a subscriber the snapshot, or the frames since `last_id`; it receives all later frames."""
        shown = self._shown
        if shown is None:
            return
        place = parse_cursor(last_id)
        missed = None if place is None else shown.resume_frames(place)
        self.subscribers.add(subscriber, shown.snapshot_frame() if missed is None else missed)

    def snapshot_frame(self) -> bytes:
        """Return the snapshot for a subscriber that has lost its cursor."""
        self.subscribers.flush()
        return b"" if self._shown is None else self._shown.snapshot_frame()

    def publish(self, growth: Growth, running: RunningTurn, piece: EventRange | None) -> None:
        """Send new events of a turn of this process to the subscribers. `piece`: the range that was new to `running`."""
        shown = self._shown
        if shown is None or shown.live is None:
            return
        if shown.live is not running:
            self.subscribers.broadcast(shown.progress_frame(growth) or b"")
        elif piece is not None:
            self.subscribers.broadcast(shown.piece_frame(piece))

    def _follow(self, seen: ConversationSnapshot | None) -> bytes:
        shown = self._shown
        if seen is None:
            self._shown = None
            return b"" if shown is None else frame("gone", _gone(shown))
        running = self._running()
        if shown is not None and seen.is_continuation:
            return shown.update(seen, live_of(seen, shown, running), self.role)
        self._shown = shown_of(seen, shown, running, self.role)
        return self._shown.snapshot_frame()


def _gone(shown: ConversationState) -> Gone:
    return Gone(shown.conversation.id, shown.conversation.session_id)


class LiveHub:
    """One feed for each conversation that is open in a tab. Receives what happens there and publishes it."""

    def __init__(
        self,
        store: GatewayStore,
        agent_at: AgentAt,
        *,
        poll_seconds: float = POLL_SECONDS,
        pieces_a_second: float = PIECES_A_SECOND,
    ) -> None:
        """`pieces_a_second` limits the chunks sent to all tabs: the more tabs watch turns, the more events go into one."""
        self._store = store
        self._agent_at = agent_at
        self._poll_seconds = poll_seconds
        self._pieces_a_second = pieces_a_second
        self._supervisor = Supervisor()
        self._turns: dict[str, RunningTurn] = {}
        self._feeds: dict[str, ConversationFeed] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lists: dict[str, ListFeed] = {}
        self._glances: dict[str, Row | None] = {}
        # Each tab, with the chat that it follows, if any, and the person whose list it shows.
        self._subscribers: dict[Subscriber, tuple[str | None, str]] = {}
        # How many of them have a turn before them that runs here.
        self._watching = 0
        self._is_closed = False

    def start(self) -> None:
        """Start polling and sending keep-alives."""
        self._supervisor.keep("web.poll", self._keep_looking)
        self._supervisor.keep("web.breath", self._keepalive)

    async def close(self) -> None:
        """End all streams and stop polling."""
        self.end_streams()
        await self._supervisor.stop()

    def end_streams(self) -> None:
        """Close every subscriber; new ones are closed at once."""
        self._is_closed = True
        for subscriber in self._subscribers:
            subscriber.close()

    async def subscribe(
        self, user_id: str, role: Role, conversation: str | None, last_id: str | None = None
    ) -> Subscriber | None:
        """Subscribe to a user's list and to one of their conversations. Return `None` if that does not exist."""
        feed = None if conversation is None else await self._feed_of(user_id, role, conversation)
        if conversation is not None and feed is None:
            return None
        subscriber = Subscriber(feed.snapshot_frame if feed is not None else bytes)
        if self._is_closed:
            subscriber.close()
        self._subscribers[subscriber] = (None if feed is None else feed.source.chat_id, user_id)
        if feed is not None:
            feed.join(subscriber, last_id)
            self._count_watching()
        self._list_of(user_id).join(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Remove a subscriber, and the feed that has no subscriber any more."""
        subscriber.close()
        chat, user_id = self._subscribers.pop(subscriber, (None, ""))
        feed = None if chat is None else self._feeds.get(chat)
        if chat is not None and feed is not None:
            feed.subscribers.remove(subscriber)
            if not feed.subscribers:
                self._forget(chat)
            self._count_watching()
        list_feed = self._lists.get(user_id)
        if list_feed is not None:
            list_feed.leave(subscriber)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        """Take note of a turn that starts in this process, perhaps again."""
        self._turns[to.chat_id] = RunningTurn(turn_id, attempt)
        self._count_watching()
        self._wake(to.chat_id)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Publish more events of a turn of this process."""
        running = self._turns.get(to.chat_id)
        if running is None or not running.is_same_run(growth.turn_id, growth.attempt):
            running = self._turns[to.chat_id] = RunningTurn(growth.turn_id, growth.attempt)
            self._count_watching()
        piece = running.add(growth.first, growth.upto, growth.events)
        feed = self._feeds.get(to.chat_id)
        if feed is not None:
            feed.publish(growth, running, piece)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:  # noqa: ARG002 - the store tells
        """Drop a turn that this process does not run any more."""
        running = self._turns.get(to.chat_id)
        if running is not None and running.turn_id == turn_id:
            del self._turns[to.chat_id]
            self._count_watching()
        self._wake(to.chat_id)

    def arrived(self, to: Target) -> None:
        """Refresh the conversation: something was stored that it shows."""
        self._wake(to.chat_id)

    def changed(self, user_id: str, conversation: str) -> None:
        """Refresh the conversation: a user has changed something there through this process."""
        self._wake(f"{user_id}.{conversation}")

    def running_turn(self, chat_id: str) -> RunningTurn | None:
        """Return the turn that this process runs in the chat."""
        return self._turns.get(chat_id)

    def _min_interval(self) -> float:
        """Return the least number of seconds between two chunks for a tab: close to 0 while few tabs watch."""
        return self._watching / self._pieces_a_second

    def _count_watching(self) -> None:
        feeds = self._feeds
        self._watching = sum(len(feeds[chat].subscribers) for chat in self._turns if chat in feeds)

    def _wake(self, chat_id: str) -> None:
        feed = self._feeds.get(chat_id)
        if feed is not None:
            feed.wake()
        place = parse_web_chat_id(chat_id)
        list_feed = None if place is None else self._lists.get(place[0])
        if list_feed is not None:
            list_feed.wake()

    async def _feed_of(self, user_id: str, role: Role, conversation: str) -> ConversationFeed | None:
        source = web_source(user_id, conversation)
        chat = source.chat_id or ""
        feed = self._feeds.get(chat)
        if feed is None:
            feed = ConversationFeed(
                self._store,
                source,
                lambda: self._agent_at(source),
                lambda: self._turns.get(chat),
                role,
                self._min_interval,
            )
        feed.role = role
        await feed.refresh()
        if not feed.is_there:
            return None
        # Somebody else may have come while we looked.
        kept = self._feeds.setdefault(chat, feed)
        if kept is feed and chat not in self._tasks:
            self._tasks[chat] = self._supervisor.start(f"web.follow.{chat}", feed.run())
        return kept

    def _forget(self, chat: str) -> None:
        del self._feeds[chat]
        self._glances.pop(chat, None)
        task = self._tasks.pop(chat, None)
        if task is not None:
            task.cancel()

    def _list_of(self, user_id: str) -> ListFeed:
        list_feed = self._lists.get(user_id)
        if list_feed is None:
            list_feed = self._lists[user_id] = ListFeed(self._store, user_id)
            self._supervisor.start(f"web.list.{user_id}", self._run_list(user_id, list_feed))
        return list_feed

    async def _run_list(self, user_id: str, list_feed: ListFeed) -> None:
        await list_feed.run()
        del self._lists[user_id]

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self._poll()
            except StoreError as cause:
                log.warning("web.not_looked", error=str(cause))

    async def _poll(self) -> None:
        feeds = dict(self._feeds)
        if not feeds:
            return
        found = await self._store.change_feed.fingerprints([(feed.source, feed.agent()) for feed in feeds.values()])
        for (chat, feed), row in zip(feeds.items(), found, strict=True):
            seen = row
            if row is not None and chat in self._turns:
                # Its events come by another way.
                seen = (*row[:_JOURNALLED], *row[_JOURNALLED + 1 :])
            if self._glances.get(chat, ()) != seen:
                self._glances[chat] = seen
                feed.wake()

    async def _keepalive(self) -> None:
        while True:
            await asyncio.sleep(_KEEPALIVE_SECONDS)
            for subscriber in self._subscribers:
                if subscriber.is_empty:
                    subscriber.send(KEEPALIVE)
