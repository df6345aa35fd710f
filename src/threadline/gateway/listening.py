"""Listening alone: where a platform gives its messages to one listener, one gateway of all that share a database is that one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from threadline.errors import StoreUnavailable
from threadline.gateway.alarms import Alarms
from threadline.gateway.heartbeat import is_reliable, steady
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor, woken
from threadline.log import get_logger
from threadline.ports.platform import Contested, Platform, Unauthorized
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease

log = get_logger(__name__)

# `waits`: another gateway listens, or another platform of this one. `silent`: nobody hears anything by this one, and it should.
Listening: TypeAlias = Literal["listens", "waits", "silent"]
# Listens until it is cancelled, and sets the event once it does.
Run: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]

_GIVING_BACK_SECONDS = 5.0


class Listener:
    """Lets one platform listen while the name that it listens as is held here, and no longer.

    The name is renewed three times in the length of a lease. Who could not renew it for two thirds of one stops to listen, so
    that nobody listens any more when another may begin; who has stopped gives it back, so that another begins at once.
    """

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        supervisor: Supervisor,
        alarms: Alarms,
        platform: Platform,
        listens_as: str,
    ) -> None:
        self._store = store
        self._settings = settings
        self._supervisor = supervisor
        self._alarms = alarms
        self._platform = platform
        self._name = listens_as
        # Two platforms of one gateway may have the same key: they are two listeners.
        self._owner = f"{settings.owner}/{platform.name}@{platform.account}"
        self._lease: Lease | None = None
        self._closing = asyncio.Event()
        self.state: Listening = "silent"

    def close(self) -> None:
        """Does not begin to listen any more."""
        self._closing.set()

    async def listen(self, run: Run) -> None:
        """Returns when the platform has ended by itself or is closed. What fails is tried again; `Unauthorized` is raised."""
        title = f"platform.{self._platform.name}@{self._platform.account}.listening"
        await self._supervisor.persist(title, lambda: self._listen(run), fatal=(Unauthorized,))

    async def _listen(self, run: Run) -> None:
        while (since := await self._taken()) is not None:
            if await self._held(run, since):
                return

    async def _taken(self) -> float | None:
        """Waits until the name is ours; since when it surely is. `None`: nobody wants to listen any more."""
        while not self._closing.is_set():
            since = steady()
            is_ours = await self._took(self._settings.lease_seconds)
            if is_ours:
                return since
            if is_ours is False and self.state != "waits":
                self.state = "waits"
                await self._tell_who_listens()
            await woken(self._closing, self._settings.poll_seconds)
        self.state = "silent"
        return None

    async def _held(self, run: Run, since: float) -> bool:
        """Listens as long as the name is ours; whether the platform has ended by itself."""
        self.state = "silent"
        ready, failures = asyncio.Event(), list[Exception]()
        running = self._supervisor.start("platform.run", _kept_failures(run(ready), failures))
        announcing = self._supervisor.start("platform.listens", self._announce(ready))
        try:
            await self._renew(running, since)
            is_over = running.done()
        finally:
            self.state = "silent"
            announcing.cancel()
            try:
                await _ended(running)
            finally:
                # Only now: whoever gets it may begin at once.
                await self._give_back()
        if failures:
            self._tell_of(failures[0])
            raise failures[0]
        return is_over

    async def _renew(self, running: asyncio.Task[None], since: float) -> None:
        """Returns when nobody listens any more, or the name is not surely ours."""
        lease = self._settings.lease_seconds
        pause = lease / 3
        while is_reliable(since, self._settings):
            await asyncio.wait([running], timeout=pause)
            if running.done():
                return
            began = steady()
            is_ours = await self._took(lease * 2 / 3 - (began - since))
            if is_ours is False:
                break
            # A store that is away is asked again soon.
            since, pause = (began, lease / 3) if is_ours else (since, lease / 30)
        log.warning("platform.listening_lost", platform=self._platform.name, account=self._platform.account)

    async def _took(self, seconds: float) -> bool | None:
        """Whether the name is ours from now on; `None` where the store does not say so in that many seconds."""
        try:
            async with asyncio.timeout(seconds):
                lease = await self._store.leases.acquire(self._name, self._owner, duration=self._settings.lease)
        except (StoreUnavailable, TimeoutError) as cause:
            log.warning("lease.not_renewed", lease=self._name, error=repr(cause))
            return None
        self._lease = lease
        return lease is not None

    async def _give_back(self) -> None:
        if self._lease is None:
            return
        try:
            async with asyncio.timeout(_GIVING_BACK_SECONDS):
                await self._store.leases.release(self._lease)
        except (StoreUnavailable, TimeoutError) as cause:
            # It ends by itself.
            log.warning("lease.not_given_back", lease=self._name, error=repr(cause))

    async def _announce(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self.state = "listens"
        log.info("platform.listens", platform=self._platform.name, account=self._platform.account)
        await self._alarms.platform_listens(self._platform.name, self._platform.account)

    async def _tell_who_listens(self) -> None:
        held = {one.name: one.owner for one in await self._store.leases.list_all()}
        holder = held.get(self._name, "")
        gateway, _, other = holder.partition("/")
        platform, account = self._platform.name, self._platform.account
        if gateway == self._settings.owner:
            log.warning("platform.same_key_twice", platform=platform, account=account, other=other)
        else:
            log.info("platform.another_listens", platform=platform, account=account, holder=holder)

    def _tell_of(self, failure: Exception) -> None:
        if isinstance(failure, Contested):
            platform = self._platform
            told = self._alarms.platform_contested(platform.name, platform.account, str(failure))
            self._supervisor.start("alarm", told)


async def _kept_failures(work: Awaitable[None], failures: list[Exception]) -> None:
    try:
        await work
    except Exception as cause:  # noqa: BLE001 - whoever waits for the end raises it
        failures.append(cause)


async def _ended(task: asyncio.Task[None]) -> None:
    """Ends the task. However often we are cancelled meanwhile, nobody may take our place before it has ended."""
    is_cancelled = False
    # More than once: a cancel that meets the end of a wait can be lost.
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait([task], timeout=0.5)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
