"""The platforms of a gateway: connected, kept so, and closed in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from threadline.gateway.alarms import Alarms
from threadline.gateway.command_table import OFFERED
from threadline.gateway.listening import Listener
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor, cut_short
from threadline.log import get_logger
from threadline.ports.platform import Accept, ListensAlone, OffersCommands, Platform, Unauthorized
from threadline.store.facade import GatewayStore

log = get_logger(__name__)

# A platform and the account on it.
Place: TypeAlias = tuple[str, str]

_QUIET_SECONDS = 5.0


class Connections:
    """Keeps platforms connected. Where one lets a single gateway listen, this one sends in any case, and listens in its turn."""

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        supervisor: Supervisor,
        outbox: Outbox,
        alarms: Alarms,
        door: Callable[[Platform], Accept],
    ) -> None:
        """`door`: the way in for one platform."""
        self.settings = settings
        self._store = store
        self._supervisor = supervisor
        self._outbox = outbox
        self._alarms = alarms
        self._door = door
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._listeners: dict[Place, Listener] = {}

    def open(self, platform: Platform) -> None:
        """Begins to connect a platform; from then on it is connected again as often as it takes."""
        if isinstance(platform, OffersCommands):
            platform.offer(OFFERED)
        if isinstance(platform, ListensAlone):
            self._listeners[_place(platform)] = Listener(
                self._store, self.settings, self._supervisor, self._alarms, platform, platform.listens_as
            )
        name = f"platform.{platform.name}@{platform.account}"
        work = partial(self._connect, platform)
        self._tasks[_place(platform)] = self._supervisor.keep(name, work, fatal=(Unauthorized,))

    async def close(self, platform: Platform) -> None:
        """Nothing more comes from a platform, and nothing more goes there."""
        self._outbox.disconnect(platform)
        listener = self._listeners.get(_place(platform))
        if listener is not None:
            listener.close()
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await platform.close()
        except TimeoutError:
            log.warning("platform.slow_to_close", platform=platform.name)
        except Exception:
            # Somebody else's code: the others are to be closed all the same.
            log.exception("platform.not_closed", platform=platform.name)

    async def leave(self, platform: Platform) -> None:
        """Closes a platform for good once what it is sending has arrived; when this returns, nothing of it is left.

        One that does not end in its time is told and left behind.
        """
        await self._let_land(platform)
        await self.close(platform)
        self._listeners.pop(_place(platform), None)
        task = self._tasks.pop(_place(platform), None)
        if task is not None and await cut_short(lambda: [task], self.settings.ending_seconds):
            self._supervisor.leave_behind(task)
        log.info("platform.closed", platform=platform.name, account=platform.account)

    def has_ended(self, platform: Platform) -> bool:
        """Whether a platform has ended by itself, for good."""
        task = self._tasks.get(_place(platform))
        return task is not None and task.done()

    async def ended(self) -> None:
        """Returns when every platform has ended by itself."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def connected(self, platforms: Sequence[Platform]) -> dict[Place, bool]:
        """Whether messages can go out on each of them."""
        accounts = self._outbox.accounts
        return {place: place in accounts for place in map(_place, platforms)}

    def listening(self, platforms: Sequence[Platform]) -> dict[Place, bool]:
        """Whether messages come in here from each of them."""
        alone = {place: listener.state == "listens" for place, listener in self._listeners.items()}
        return self.connected(platforms) | alone

    def missing(self, platforms: Sequence[Platform]) -> list[str]:
        """Those that can't be sent to, and those that this gateway should hear and does not, by name."""
        connected = self.connected(platforms)
        silent = [place for place, one in self._listeners.items() if one.state == "silent" and connected.get(place)]
        away = [place for place, is_up in connected.items() if not is_up]
        return [f"platform {name}@{account}" for name, account in away] + [
            f"listening {name}@{account}" for name, account in silent
        ]

    async def _let_land(self, platform: Platform) -> None:
        """Nothing more is sent by a platform; what is on its way gets its time, or it would be sent again later."""
        self._outbox.disconnect(platform)
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                while self._outbox.is_sending_by(platform):  # noqa: ASYNC110 - what flies tells nobody of its end
                    await asyncio.sleep(0.02)
        except TimeoutError:
            log.warning("platform.closed_while_sending", platform=platform.name, account=platform.account)

    async def _connect(self, platform: Platform) -> None:
        try:
            if isinstance(platform, ListensAlone):
                await platform.open()
                await self._welcome(platform)
                await self._listeners[_place(platform)].listen(partial(platform.run, self._door(platform)))
            else:
                await self._run(platform)
        except Unauthorized as cause:
            reason = str(cause)
            self._supervisor.start("alarm", self._alarms.platform_refused(platform.name, platform.account, reason))
            raise
        finally:
            self._outbox.disconnect(platform)

    async def _run(self, platform: Platform) -> None:
        ready = asyncio.Event()
        watching = self._supervisor.start("platform.ready", self._announce(platform, ready))
        try:
            await platform.run(self._door(platform), ready)
        finally:
            watching.cancel()

    async def _announce(self, platform: Platform, ready: asyncio.Event) -> None:
        await ready.wait()
        await self._welcome(platform)

    async def _welcome(self, platform: Platform) -> None:
        log.info("platform.connected", platform=platform.name, account=platform.account)
        self._outbox.connect(platform)
        await self._alarms.platform_works(platform.name, platform.account)


def _place(platform: Platform) -> Place:
    return platform.name, platform.account
