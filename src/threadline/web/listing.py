"""The list of somebody's conversations, as long as they look at it: what changes in it is told to all their tabs."""

from __future__ import annotations

import asyncio

from threadline.errors import StoreError
from threadline.gateway.supervisor import woken
from threadline.log import get_logger
from threadline.model.client_sources import WEB
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import person_of_user
from threadline.web.frames import frame
from threadline.web.reader import Reader
from threadline.web.reading import conversation_of
from threadline.web.shapes import Conversation, Gone

log = get_logger(__name__)

# Only what changed lately can be at the top.
_NEWEST = 20
_POLL_SECONDS = 5.0
# Several things mostly happen together.
_PAUSE_SECONDS = 0.3
# Who goes from one conversation to another breaks off and comes back at once.
_AWAY_SECONDS = 5.0


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
