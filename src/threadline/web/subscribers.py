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
from threadline.web.frames import frame
from threadline.web.mapping import conversation_of
from threadline.web.shapes import Conversation, Gone

log = get_logger(__name__)

# What may wait for one reader. Who is further behind than this is told anew where things stand, in one piece.
MOST_BYTES = 262_144
MOST_FRAMES = 1_000
# What is handed on at once: a connection that takes no more holds no more than this.
AT_ONCE = 65_536

# Only what changed lately can be at the top.
_NEWEST = 20
_POLL_SECONDS = 5.0
# Several things mostly happen together.
_PAUSE_SECONDS = 0.3
# Who goes from one conversation to another breaks off and comes back at once.
_AWAY_SECONDS = 5.0


class Reader:
    """What waits for one tab. It is filled by whoever tells it things and emptied by its connection."""

    def __init__(self, anew: Callable[[], bytes]) -> None:
        """`anew` tells where things stand, for a reader that has lost its place."""
        self._anew = anew
        # A list: it holds next to nothing mostly, and an empty deque takes as much as a dozen frames.
        self._frames: list[bytes] = []
        self._size = 0
        self._is_behind = False
        self._is_closed = False
        # There is one only while somebody waits.
        self._stirred: asyncio.Future[None] | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for it."""
        return not self._frames and not self._is_behind

    def put(self, frame: bytes) -> None:
        """Tells it something. Where that is too much, all that waits is dropped, and it is told anew where things stand."""
        if self._is_behind or self._is_closed:
            return
        if self._frames and (self._size + len(frame) > MOST_BYTES or len(self._frames) >= MOST_FRAMES):
            self._frames.clear()
            self._size = 0
            self._is_behind = True
        else:
            self._frames.append(frame)
            self._size += len(frame)
        self._stir()

    def close(self) -> None:
        """Nothing more is told; `next` ends."""
        self._is_closed = True
        self._stir()

    async def next(self) -> bytes | None:
        """What waits, or the next that comes; `None` at the end. One at a time may ask."""
        while not self._frames and not self._is_behind and not self._is_closed:
            self._stirred = asyncio.get_running_loop().create_future()
            await self._stirred
        if self._is_closed:
            return None
        if self._is_behind:
            # Behind until it has that: whatever `anew` makes others be told before is in it.
            told = self._anew()
            self._is_behind = False
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

    def _stir(self) -> None:
        if self._stirred is not None and not self._stirred.done():
            self._stirred.set_result(None)


class Audience:
    """The readers of one conversation. What one of them is told, all are, in the same order.

    What comes a moment after the last piece waits for the moment to pass, and goes out with all that came meanwhile: handing
    a piece to a connection costs about the same however much is in it. What comes after a silence never waits.
    """

    def __init__(self, moment: Callable[[], float]) -> None:
        """`moment` tells how many seconds at least lie between two pieces, by now."""
        self._moment = moment
        self._readers: set[Reader] = set()
        self._frames: list[bytes] = []
        self._size = 0
        self._told_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Reader, told: bytes) -> None:
        """One reader more. `told` brings it to where the others are, so they are brought there first."""
        self.catch_up()
        reader.put(told)
        self._readers.add(reader)

    def discard(self, reader: Reader) -> None:
        """One reader less."""
        self._readers.discard(reader)

    def tell(self, told: bytes) -> None:
        """Tells them all something, at the latest when the moment since the last piece has passed."""
        if not told or not self._readers:
            return
        self._frames.append(told)
        self._size += len(told)
        loop = asyncio.get_running_loop()
        left = self._told_at + self._moment() - loop.time()
        if left <= 0 or self._size >= AT_ONCE:
            self.catch_up()
        elif self._timer is None:
            self._timer = loop.call_later(left, self.catch_up)

    def catch_up(self) -> None:
        """Hands on what waits: nobody is behind what was told by now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._frames:
            return
        piece = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._told_at = asyncio.get_running_loop().time()
        for reader in self._readers:
            reader.put(piece)


class ListWatch:
    """The newest of somebody's conversations, and their tabs."""

    def __init__(self, store: GatewayStore, user_id: str) -> None:
        self.readers: set[Reader] = set()
        # Those that were told nothing yet. What they have of the list they read before they came: it may have changed since.
        self._fresh: set[Reader] = set()
        self._store = store
        self._person = person_of_user(user_id)
        self._rows: dict[str, Conversation] = {}
        self._wake = asyncio.Event()
        self._joined = asyncio.Event()

    def join(self, reader: Reader) -> None:
        """A tab is told what stands at the top, then what changes, and what is gone since the last of them left."""
        self.readers.add(reader)
        self._fresh.add(reader)
        self._joined.set()
        self.wake()

    def leave(self, reader: Reader) -> None:
        """A tab is told no more."""
        self.readers.discard(reader)
        self._fresh.discard(reader)

    def wake(self) -> None:
        """Something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Looks now and then, and whenever it is woken, until nobody listens any more."""
        await self._look()
        while self.readers or await self._is_joined_again():
            await woken(self._wake, _POLL_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)
            self._wake.clear()
            if self.readers:
                # What nobody hears stays to be told.
                await self._look()

    async def _is_joined_again(self) -> bool:
        self._joined.clear()
        await woken(self._joined, _AWAY_SECONDS)
        return bool(self.readers)

    async def _look(self) -> None:
        fresh = set(self._fresh)
        try:
            page = await self._store.change_feed.list_page(self._person, WEB, limit=_NEWEST)
        except StoreError as cause:
            log.warning("web.not_listed", error=str(cause))
            return
        # Who came meanwhile may have read something newer: they are told after the next look.
        self._fresh -= fresh
        rows = {row.session_id: row for row in map(conversation_of, page)}
        before, self._rows = self._rows, rows
        changed = changes(before, rows, is_all=page.cursor is None)
        whole = changes(before, rows, is_all=page.cursor is None, is_whole=True) if fresh else []
        for reader in self.readers - self._fresh:
            for told in whole if reader in fresh else changed:
                reader.put(told)


def changes(
    before: dict[str, Conversation], rows: dict[str, Conversation], *, is_all: bool, is_whole: bool = False
) -> list[bytes]:
    """The events that bring a list from one look to the next. `is_all`: there is nothing below what was seen.

    `is_whole`: with the rows that did not change, for somebody of whom nobody knows what they have seen.
    """
    told = [frame("conversation", row) for key, row in rows.items() if is_whole or before.get(key) != row]
    oldest = None if is_all else min((row.updated_at for row in rows.values()), default=None)
    for key, row in before.items():
        # What has only sunk below what was looked at is still there.
        if key not in rows and (oldest is None or row.updated_at > oldest):
            told.append(frame("gone", Gone(row.id, row.session_id)))
    return told
