"""The subscribers of the page: one tab, the tabs of a conversation, and the tabs that show a list of conversations."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from threadline.errors import StoreError
from threadline.gateway.supervisor import woken
from threadline.log import get_logger
from threadline.model.client_sources import WEB
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import person_of_user
from threadline.web import mapping
from threadline.web.frames import frame
from threadline.web.shapes import Conversation, Gone

log = get_logger(__name__)

# What may wait for one subscriber. Who is further behind than this is told anew where things stand, in one piece.
MAX_BYTES = 262_144
MAX_FRAMES = 1_000
# What is handed on at once: a connection that takes no more holds no more than this.
AT_ONCE = 65_536

# Only what changed lately can be at the top.
_NEWEST = 20
_POLL_SECONDS = 5.0
# Several things mostly happen together.
_PAUSE_SECONDS = 0.3
# Who goes from one conversation to another breaks off and comes back at once.
_AWAY_SECONDS = 5.0


class Subscriber:
    """The queue of frames for one tab. Feeds fill it and its connection empties it."""

    def __init__(self, snapshot_frame: Callable[[], bytes]) -> None:
        """`snapshot_frame` returns the current state, for a subscriber that has lost its place."""
        self._snapshot_frame = snapshot_frame
        # A list: it holds next to nothing mostly, and an empty deque takes as much as a dozen frames.
        self._frames: list[bytes] = []
        self._size = 0
        self._lost_place = False
        self._is_closed = False
        # There is one only while somebody waits.
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the queue is empty."""
        return not self._frames and not self._lost_place

    def send(self, frame: bytes) -> None:
        """Queue a frame. If the queue is full, drop all of it and send the snapshot instead."""
        if self._lost_place or self._is_closed:
            return
        if self._frames and (self._size + len(frame) > MAX_BYTES or len(self._frames) >= MAX_FRAMES):
            self._frames.clear()
            self._size = 0
            self._lost_place = True
        else:
            self._frames.append(frame)
            self._size += len(frame)
        self._wake_waiter()

    def close(self) -> None:
        """Close the queue: `receive` returns `None`."""
        self._is_closed = True
        self._wake_waiter()

    async def receive(self) -> bytes | None:
        """Return the queued frames, or wait for the next; `None` at the end. Only one task may wait."""
        while not self._frames and not self._lost_place and not self._is_closed:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._is_closed:
            return None
        if self._lost_place:
            # Behind until it has that: whatever `snapshot_frame` makes others be told before is in it.
            told = self._snapshot_frame()
            self._lost_place = False
            return told
        return self._taken()

    def _taken(self) -> bytes:
        frames = self._frames
        count, size = 1, len(frames[0])
        while count < len(frames) and size + len(frames[count]) <= AT_ONCE:
            size += len(frames[count])
            count += 1
        # One alone is not copied: all tabs of a conversation hold the same.
        taken = b"".join(frames[:count])
        del frames[:count]
        self._size -= size
        return taken

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SubscriberGroup:
    """The subscribers of one conversation. All receive the same frames in the same order.

    A frame that follows the last chunk too soon waits for the interval to pass, and is sent with all that came meanwhile:
    a chunk costs about the same however long it is. A frame that comes after a pause never waits.
    """

    def __init__(self, min_interval: Callable[[], float]) -> None:
        """`min_interval` returns the least number of seconds between two chunks."""
        self._min_interval = min_interval
        self._subscribers: set[Subscriber] = set()
        self._frames: list[bytes] = []
        self._size = 0
        self._told_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber, told: bytes) -> None:
        """Add a subscriber. `told` brings it to the state of the others, so theirs is flushed first."""
        self.flush()
        subscriber.send(told)
        self._subscribers.add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a subscriber."""
        self._subscribers.discard(subscriber)

    def broadcast(self, told: bytes) -> None:
        """Send frames to all subscribers, at the latest when the interval since the last chunk has passed."""
        if not told or not self._subscribers:
            return
        self._frames.append(told)
        self._size += len(told)
        loop = asyncio.get_running_loop()
        left = self._told_at + self._min_interval() - loop.time()
        if left <= 0 or self._size >= AT_ONCE:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_later(left, self.flush)

    def flush(self) -> None:
        """Send the waiting frames now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._frames:
            return
        piece = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._told_at = asyncio.get_running_loop().time()
        for subscriber in self._subscribers:
            subscriber.send(piece)


class ListFeed:
    """The newest conversations of one user, and the tabs that show the list."""

    def __init__(self, store: GatewayStore, user_id: str) -> None:
        self.subscribers: set[Subscriber] = set()
        # Those that were told nothing yet. What they have of the list they read before they came: it may have changed since.
        self._fresh: set[Subscriber] = set()
        self._store = store
        self._person = person_of_user(user_id)
        self._rows: dict[str, Conversation] = {}
        self._wake = asyncio.Event()
        self._joined = asyncio.Event()

    def join(self, subscriber: Subscriber) -> None:
        """Add a tab. It receives the newest rows, then changes, and the rows deleted since the last tab left."""
        self.subscribers.add(subscriber)
        self._fresh.add(subscriber)
        self._joined.set()
        self.wake()

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a tab."""
        self.subscribers.discard(subscriber)
        self._fresh.discard(subscriber)

    def wake(self) -> None:
        """Request a refresh: something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Refresh regularly and on request, until no tab is left."""
        await self._look()
        while self.subscribers or await self._is_joined_again():
            await woken(self._wake, _POLL_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)
            self._wake.clear()
            if self.subscribers:
                # What nobody hears stays to be told.
                await self._look()

    async def _is_joined_again(self) -> bool:
        self._joined.clear()
        await woken(self._joined, _AWAY_SECONDS)
        return bool(self.subscribers)

    async def _look(self) -> None:
        fresh = set(self._fresh)
        try:
            page = await self._store.change_feed.list_page(self._person, WEB, limit=_NEWEST)
        except StoreError as cause:
            log.warning("web.not_listed", error=str(cause))
            return
        # Who came meanwhile may have read something newer: they are told after the next look.
        self._fresh -= fresh
        rows = {row.session_id: row for row in map(mapping.conversation, page)}
        before, self._rows = self._rows, rows
        changed = list_changes(before, rows, is_all=page.cursor is None)
        whole = list_changes(before, rows, is_all=page.cursor is None, is_whole=True) if fresh else []
        for subscriber in self.subscribers - self._fresh:
            for told in whole if subscriber in fresh else changed:
                subscriber.send(told)


def list_changes(
    before: dict[str, Conversation], rows: dict[str, Conversation], *, is_all: bool, is_whole: bool = False
) -> list[bytes]:
    """Return the frames between two states of the list. `is_all`: the list has no further rows.

    `is_whole` includes unchanged rows, for a tab whose state is not known.
    """
    told = [frame("conversation", row) for key, row in rows.items() if is_whole or before.get(key) != row]
    oldest = None if is_all else min((row.updated_at for row in rows.values()), default=None)
    for key, row in before.items():
        # What has only sunk below what was looked at is still there.
        if key not in rows and (oldest is None or row.updated_at > oldest):
            told.append(frame("gone", Gone(row.id, row.session_id)))
    return told
