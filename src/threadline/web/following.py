"""One conversation that somebody in this process follows: it is looked at whenever something may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from threadline.errors import StoreError
from threadline.log import get_logger
from threadline.model.access import Role
from threadline.model.source import SessionSource
from threadline.ports.live import Growth
from threadline.store.facade import GatewayStore
from threadline.store.work.change_feed import ConversationSnapshot
from threadline.web.audience import Audience
from threadline.web.frames import frame, read_place
from threadline.web.reader import Reader
from threadline.web.shapes import Gone
from threadline.web.shown import LiveTurn, Piece, Shown

log = get_logger(__name__)

_PAUSE_SECONDS = 1.0
# A message, its turn and often the end of that come together: one look for all of them, and nobody sees such a delay.
_TOGETHER_SECONDS = 0.02


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


def shown_of(seen: ConversationSnapshot, before: Shown | None, running: LiveTurn | None, role: Role) -> Shown:
    """A conversation as it is seen, for somebody of that role. `running`: the turn that this process runs there."""
    return Shown(seen, live_of(seen, before, running), role)


def live_of(seen: ConversationSnapshot, before: Shown | None, running: LiveTurn | None) -> LiveTurn | None:
    """The turn that is seen, with all that is known of it."""
    turn = seen.turn
    if turn is None:
        return None
    if running is not None and running.is_same(turn.turn_id, turn.attempt):
        return running
    known = None if before is None else before.live
    if known is None or not known.is_same(turn.turn_id, turn.attempt):
        known = LiveTurn(turn.turn_id, turn.attempt)
    for place, event in turn.events:
        known.add(place - 1, place, [msgspec.Raw(event.encode())])
    return known


def _gone(shown: Shown) -> Gone:
    return Gone(shown.conversation.id, shown.conversation.session_id)
