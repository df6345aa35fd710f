"""The list of somebody's conversations, as long as they look at it: what changes in it is told to all their tabs."""

from __future__ import annotations

import asyncio

from threadline.errors import StoreError
from threadline.gateway.supervisor import woken
from threadline.log import get_logger
from threadline.model.webchat import WEB
from threadline.store.gateway import GatewayStore
from threadline.store.web_people import person_named
from threadline.web.frames import frame
from threadline.web.reader import Reader
from threadline.web.reading import conversation_of
from threadline.web.shapes import Conversation, Gone

log = get_logger(__name__)

# Only what changed lately can be at the top.
_NEWEST = 20
_POLL_SECONDS = 5.0
# Several things mostly happen together.
_PAUSE_SECONDS = 0.1
# Who goes from one conversation to another breaks off and comes back at once.
_AWAY_SECONDS = 5.0


class ListWatch:
    """The newest of somebody's conversations, and their tabs."""

    def __init__(self, store: GatewayStore, user_id: str) -> None:
        self.readers: set[Reader] = set()
        self._store = store
        self._person = person_named(user_id)
        self._rows: dict[str, Conversation] | None = None
        self._wake = asyncio.Event()
        self._joined = asyncio.Event()

    def join(self, reader: Reader) -> None:
        """From now on a tab is told what changes, and what changed since the last of them left."""
        self.readers.add(reader)
        self._joined.set()
        self.wake()

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
        try:
            page = await self._store.chats_of(self._person, WEB, limit=_NEWEST)
        except StoreError as cause:
            log.warning("web.not_listed", error=str(cause))
            return
        rows = {row.session_id: row for row in map(conversation_of, page)}
        before, self._rows = self._rows, rows
        if before is None:
            return
        for told in changes(before, rows, is_all=page.cursor is None):
            for reader in self.readers:
                reader.put(told)


def changes(before: dict[str, Conversation], rows: dict[str, Conversation], *, is_all: bool) -> list[bytes]:
    """The events that bring a list from one look to the next. `is_all`: there is nothing below what was seen."""
    told = [frame("conversation", row) for key, row in rows.items() if before.get(key) != row]
    oldest = None if is_all else min((row.updated_at for row in rows.values()), default=None)
    for key, row in before.items():
        # What has only sunk below what was looked at is still there.
        if key not in rows and (oldest is None or row.updated_at > oldest):
            told.append(frame("gone", Gone(row.id, row.session_id)))
    return told
