"""Signs of life: people see that an answer is being worked at, however long it takes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from threadline.gateway.calling import limited
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Later, Supervisor
from threadline.ports.platform import Platform, PlatformError
from threadline.store.facade import GatewayStore
from threadline.store.leases import TurnLease
from threadline.store.work.outbox import NewDelivery

# Platforms show it for five seconds or more.
_TYPING_EVERY = 4.0


class Presence:
    """The chat of one turn: it shows that somebody types, or where it can't is told once that the answer takes long.

    A platform that edits, and so shows the answer as it grows, needs no more.
    """

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        outbox: Outbox,
        supervisor: Supervisor,
        held: TurnLease,
        notice: NewDelivery,
    ) -> None:
        """`notice` is what is told once, as long as the turn runs; its target is the chat."""
        self._store = store
        self._settings = settings
        self._outbox = outbox
        self._held = held
        self._notice = notice
        self._showing = Later(supervisor, "presence", self._show)

    def begin(self) -> None:
        """The turn runs. One that is over in a moment costs nothing here."""
        self._showing.begin(self._settings.typing_after_seconds)

    def end(self) -> None:
        """The turn is over."""
        self._showing.end()

    async def _show(self) -> None:
        target = self._notice.target
        platform = self._outbox.platform_of(target.platform, target.account)
        if platform is None:
            return
        if platform.capabilities.typing:
            await self._type(platform)
        elif not platform.capabilities.edit:
            await asyncio.sleep(self._settings.progress_after_seconds)
            if await self._store.turns.enqueue_progress(self._held, self._notice):
                self._outbox.wake()

    async def _type(self, platform: Platform) -> None:
        while True:
            with suppress(PlatformError):
                async with limited(self._settings.call_seconds):
                    await platform.typing(self._notice.target)
            await asyncio.sleep(_TYPING_EVERY)
