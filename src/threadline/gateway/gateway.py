"""A running gateway: platforms, admission, turns, deliveries and leases, started together and ended in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from threadline.gateway.access import Access, AccessRules
from threadline.gateway.commands import Commands
from threadline.gateway.composing import Composer
from threadline.gateway.heartbeat import Heartbeat
from threadline.gateway.inbox import Reception
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor
from threadline.gateway.turns import Turns
from threadline.log import get_logger
from threadline.model.inbound import Inbound
from threadline.ports.platform import Platform, Unauthorized, Verdict
from threadline.store.gateway import GatewayStore
from threadline.store.turns import Held, StillHeld

log = get_logger(__name__)

_QUIET_SECONDS = 5.0


class Gateway:
    """One process's share of the work. Any number of them may share a database."""

    def __init__(
        self, store: GatewayStore, settings: GatewaySettings, rules: AccessRules, platforms: Sequence[Platform]
    ) -> None:
        self._store = store
        self._settings = settings
        self._platforms = platforms
        self._supervisor = Supervisor()
        self._heartbeat = Heartbeat(store, settings)
        self.outbox = Outbox(store, settings, self._supervisor, platforms, self._heartbeat.is_late)
        composer = Composer(store, settings, self.outbox)
        self._commands = Commands(store, composer, self.outbox, self._supervisor, self._stop_turn)
        self.turns = Turns(
            store,
            settings,
            self._supervisor,
            self.outbox,
            self._commands.run_in_turn,
            [platform.name for platform in platforms],
        )
        self._reception = Reception(store, settings, Access(store, rules), self.turns, self.outbox, self._commands)
        self._ended: dict[str, asyncio.Task[None]] = {}

    async def start(self, *, alone: bool = False) -> None:
        """Begins to work. `alone`: no other gateway can live on this database, so what dead ones held is free at once."""
        if alone:
            await self._store.void_leases("serve:%")
        await self._recover()
        self._start_heartbeat()
        self._supervisor.keep("turns", self.turns.run)
        self._supervisor.keep("outbox", self.outbox.run)
        self._supervisor.keep("recovery", self._keep_recovering)
        for platform in self._platforms:
            name = f"platform.{platform.name}@{platform.account}"
            self._ended[name] = self._supervisor.keep(name, lambda p=platform: self._connect(p), fatal=(Unauthorized,))  # type: ignore[misc]

    async def accept(self, event: Inbound) -> Verdict:
        """The one way in, for platforms and everyone else."""
        return await self._reception.accept(event)

    async def wait_for_platforms(self) -> None:
        """Returns when every platform has ended by itself: at the end of a terminal's input, say."""
        if self._ended:
            await asyncio.wait(self._ended.values())

    async def idle(self) -> None:
        """Returns when nothing runs and nothing is being sent here."""
        while self.turns.busy or not self.outbox.is_idle:  # noqa: ASYNC110 - two counters, no one event
            await asyncio.sleep(0.02)

    async def settled(self, platform: str) -> None:
        """Returns when nothing of that platform waits, runs or is to be sent, here or elsewhere."""
        while await self._store.is_pending_on(platform) or not self.outbox.is_idle:  # noqa: ASYNC110 - others work too
            await asyncio.sleep(0.03)

    async def stop(self) -> None:
        """No new turns; those that run get their time; what can be delivered at once is; then everything ends."""
        await self.turns.drain()
        self.outbox.wake()
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await self.idle()
        except TimeoutError:
            log.warning("gateway.stopped_while_sending")
        for platform in self._platforms:
            self.outbox.disconnect(platform)
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    await platform.close()
            except TimeoutError:
                log.warning("platform.slow_to_close", platform=platform.name)
        await self._supervisor.stop()
        await asyncio.to_thread(self._heartbeat.stop)

    def _start_heartbeat(self) -> None:
        loop = asyncio.get_running_loop()

        def told(asked: Sequence[Held], still: Sequence[StillHeld]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.turns.heard, asked, still)

        self._heartbeat.start(lambda: (self.turns.held, self.outbox.flying), told)
        self._supervisor.keep("leases", self._watch_leases)

    async def _watch_leases(self) -> None:
        """Who can't renew stops working before another may start, also where the store does not even say no."""
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 6)
            if self._heartbeat.is_late():
                self.turns.heard(self.turns.held, ())

    async def _connect(self, platform: Platform) -> None:
        ready = asyncio.Event()
        watching = self._supervisor.start("platform.ready", self._announce(platform, ready))
        try:
            await platform.run(self.accept, ready)
        finally:
            watching.cancel()
            self.outbox.disconnect(platform)

    async def _announce(self, platform: Platform, ready: asyncio.Event) -> None:
        await ready.wait()
        log.info("platform.connected", platform=platform.name, account=platform.account)
        self.outbox.connect(platform)

    async def _keep_recovering(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            await self._recover()

    async def _recover(self) -> None:
        await self.turns.recover()
        await self.outbox.recover()
        await self._commands.recover()

    def _stop_turn(self, session_id: str, stop: str) -> None:
        self.turns.stop(session_id, "stop" if stop == "stop" else "interrupt")
