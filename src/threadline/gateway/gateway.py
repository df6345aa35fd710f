"""A running gateway: platforms, admission, turns, deliveries and leases, started together and ended in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from threadline.errors import StoreError
from threadline.gateway.access import Access, AccessRules
from threadline.gateway.actions_handoff import is_listed_owner, listed_owners
from threadline.gateway.alarms import Alarms, Audience
from threadline.gateway.commands import Commands
from threadline.gateway.composing import Composer
from threadline.gateway.connecting import Connections
from threadline.gateway.expiry import Watcher
from threadline.gateway.heartbeat import Heartbeat
from threadline.gateway.inbox import Reception
from threadline.gateway.metrics import Metrics, families_of
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor
from threadline.gateway.turns import Turns
from threadline.log import get_logger
from threadline.model.inbound import Arrival, Inbound
from threadline.model.source import SessionSource
from threadline.ports.agent import Agent
from threadline.ports.platform import Accept, Platform, Verdict
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease, RenewedLease

log = get_logger(__name__)

_QUIET_SECONDS = 5.0
_TIDY_SECONDS = 3_600.0


class Gateway:
    """One process's share of the work. Any number of them may share a database."""

    def __init__(
        self, store: GatewayStore, settings: GatewaySettings, rules: AccessRules, platforms: Sequence[Platform]
    ) -> None:
        self._store = store
        self._settings = settings
        self._platforms = platforms
        self._rules = rules
        self._supervisor = Supervisor(settings.ending_seconds)
        self._heartbeat = Heartbeat(store, settings)
        self.metrics = Metrics()
        self.outbox = Outbox(store, settings, self._supervisor, platforms, self._heartbeat.is_late, self.metrics)
        self.alarms = Alarms(store, self.outbox, Audience(settings.home_channels, rules.owners))
        self.outbox.chats = self.alarms
        self._composer = Composer(store, settings, self.outbox)
        self._commands = Commands(
            store,
            self._composer,
            self.outbox,
            self._supervisor,
            self._stop_turn,
            self._wake_turns,
            self._is_owner,
            lambda: listed_owners(self._rules),
        )
        self.turns = Turns(
            store,
            settings,
            self._supervisor,
            self.outbox,
            self._commands.run_in_turn,
            [platform.name for platform in platforms],
            self.alarms,
        )
        self._reception = Reception(store, settings, Access(store, rules), self.turns, self.outbox, self._commands)
        served = [platform.name for platform in platforms]
        self._watcher = Watcher(store, settings, self._supervisor, served, self._heartbeat.is_late)
        self._connections = Connections(store, settings, self._supervisor, self.outbox, self.alarms, self._door)

    async def start(self, *, alone: bool = False) -> None:
        """Begins to work. `alone`: no other gateway can live on this database, so what dead ones held is free at once."""
        if alone:
            await self._store.leases.expire_owned_by("serve:%")
        await self._recover()
        self._start_heartbeat()
        self._supervisor.keep("turns", self.turns.run)
        self._supervisor.keep("outbox", self.outbox.run)
        self._supervisor.keep("recovery", self._keep_recovering)
        self._supervisor.keep("expiry", self._watcher.run)
        self._supervisor.keep("flushes", self._watcher.run_flushes)
        self._supervisor.keep("upkeep", self._keep_tidy)
        for platform in self._platforms:
            self._connections.open(platform)

    async def reconfigure(self, settings: GatewaySettings, rules: AccessRules, platforms: Sequence[Platform]) -> None:
        """Goes on with these. Turns that run keep what they began with.

        Platforms that are among the new ones stay connected; those that are not are closed, then the new ones are connected.
        The name of this process and the length of its leases stay: they are in what it holds.
        """
        own = self._settings
        settings = msgspec.structs.replace(settings, owner=own.owner, lease_seconds=own.lease_seconds)
        before, self._platforms, self._rules = self._platforms, platforms, rules
        self._settings = self._composer.settings = settings
        self.outbox.reconfigure(settings, platforms)
        self.turns.reconfigure(settings, [platform.name for platform in platforms])
        self._watcher.reconfigure(settings, [platform.name for platform in platforms])
        self._reception.reconfigure(settings, Access(self._store, rules))
        self.alarms.audience = Audience(settings.home_channels, rules.owners)
        self._connections.settings = settings
        for platform in before:
            if not any(platform is kept for kept in platforms):
                await self._connections.leave(platform)
        for platform in platforms:
            if not any(platform is kept for kept in before):
                self._connections.open(platform)
        self.turns.wake()

    async def accept(self, event: Arrival) -> Verdict:
        """The one way in, for platforms and everyone else."""
        verdict = await self._reception.accept(event)
        self.metrics.message(event.source.platform if isinstance(event, Inbound) else event.platform, verdict)
        return verdict

    def agent_at(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there, by name, as things are configured now."""
        return self._settings.agent_for(source)

    def has_ended(self, platform: Platform) -> bool:
        """Whether a platform of this gateway has ended by itself, for good."""
        return self._connections.has_ended(platform)

    async def not_ready(self) -> list[str]:
        """What keeps this gateway from its work just now, by name; empty where nothing does.

        A platform to which another gateway listens does not: what is to be sent there is sent from here too.
        """
        found = self._connections.missing(self._platforms)
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                # Nobody holds anything under this name: a write that changes nothing tells that writing is possible.
                await self._store.leases.expire_owned_by("nobody:%")
        except (StoreError, TimeoutError):
            return ["store", "leases", *found]
        return ["leases", *found] if self._heartbeat.is_late() else found

    async def metrics_text(self) -> str:
        """What was counted here, and how much there is to do on the whole database, as Prometheus reads it."""
        load, alarms = await self._store.maintenance.queue_counts(), await self._store.owner_alerts.list_open()
        families = families_of(
            load,
            alarms=len(alarms),
            unavailable=self._store.unavailable,
            connected=self._connections.connected(self._platforms),
            listening=self._connections.listening(self._platforms),
        )
        return self.metrics.text(families)

    async def wait_for_platforms(self) -> None:
        """Returns when every platform has ended by itself: at the end of a terminal's input, say."""
        await self._connections.ended()

    async def idle(self) -> None:
        """Returns when nothing runs and nothing is being sent here."""
        while self.turns.busy or not self.outbox.is_idle:  # noqa: ASYNC110 - two counters, no one event
            await asyncio.sleep(0.02)

    async def settled(self, platform: str) -> None:
        """Returns when nothing of that platform waits, runs or is to be sent, here or elsewhere."""
        while await self._store.outbox.has_pending_on(platform) or not self.outbox.is_idle:  # noqa: ASYNC110 - others work too
            await asyncio.sleep(0.03)

    def once_unused(self, agents: Sequence[Agent], work: Callable[[Sequence[Agent]], Awaitable[None]]) -> None:
        """Does something with agents as soon as none of them answers a turn here any more."""
        if agents:
            self._supervisor.start("agents.unused", self._once_unused(agents, work))

    async def _once_unused(self, agents: Sequence[Agent], work: Callable[[Sequence[Agent]], Awaitable[None]]) -> None:
        while any(self.turns.is_answering(agent) for agent in agents):  # noqa: ASYNC110 - turns tell nobody of their end
            await asyncio.sleep(_QUIET_SECONDS / 5)
        await work(agents)

    async def settled_in(self, source: SessionSource) -> None:
        """Returns when nothing of that conversation waits, runs or is to be sent, here or elsewhere."""
        agent, _ = self.agent_at(source)
        while await self._store.outbox.has_pending_at(source, agent=agent):  # noqa: ASYNC110 - others work too
            await asyncio.sleep(0.02)

    async def stop_in(self, source: SessionSource) -> bool:
        """Ends the turn that runs in that conversation, as `/stop` does but without a word; whether there was one."""
        agent, _ = self.agent_at(source)
        found = await self._store.resume.find_conversation([self._store.resolve_request(source, agent=agent).address])
        if found is None or not await self._store.turns.request_stop(found.session.session_id, "stop"):
            return False
        self._stop_turn(found.session.session_id, "stop")
        return True

    async def stop(self) -> None:
        """No new turns; those that run get their time; what can be delivered at once is; then everything ends."""
        self._watcher.drain()
        await self.turns.drain()
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await self.outbox.send_due()
                await self.idle()
        except (StoreError, TimeoutError):
            log.warning("gateway.stopped_while_sending")
        for platform in self._platforms:
            await self._connections.close(platform)
        await self._watcher.close()
        await self._supervisor.stop()
        await asyncio.to_thread(self._heartbeat.stop)

    def _start_heartbeat(self) -> None:
        loop = asyncio.get_running_loop()

        def on_renewed(asked: Sequence[Lease], renewed: Sequence[RenewedLease]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.turns.on_renewed, asked, renewed)

        self._heartbeat.start(lambda: (*self.turns.leases, *self.outbox.leases), on_renewed)
        self._supervisor.keep("leases", self._watch_leases)

    async def _watch_leases(self) -> None:
        """Who can't renew stops working before another may start, also where the store does not even say no."""
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 6)
            if self._heartbeat.is_late():
                self.turns.on_renewed(self.turns.leases, ())

    def _door(self, platform: Platform) -> Accept:
        """The way in for one platform: who people are there is its word, who they are elsewhere is not."""
        name, account = platform.name, platform.account

        async def accept(event: Arrival) -> Verdict:
            given = _place_of(event)
            if given == (name, account):
                return await self.accept(event)
            verdict = await self._reception.park_foreign(event, name, account)
            self.metrics.message(name, verdict)
            self._supervisor.start("alarm", self.alarms.platform_lies(name, account, given))
            return verdict

        return accept

    async def _keep_recovering(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            await self._recover()

    async def _keep_tidy(self) -> None:
        while True:
            await self._store.files.delete_unsent()
            await asyncio.sleep(_TIDY_SECONDS)

    async def _recover(self) -> None:
        await self.alarms.refresh()
        await self.turns.recover()
        await self.outbox.recover()
        await self._commands.recover()

    def _stop_turn(self, session_id: str, stop: str) -> None:
        self.turns.stop(session_id, "stop" if stop == "stop" else "interrupt")
        # One that waits for an answer is ended by whoever claims it.
        self.turns.wake()

    async def _is_owner(self, person: str) -> bool:
        return is_listed_owner(self._rules, person) or await self._store.people.find_role(person) == "owner"

    def _wake_turns(self) -> None:
        self.turns.wake()


def _place_of(event: Arrival) -> tuple[str, str]:
    """The platform and the account that an event says it comes from."""
    said = event.source if isinstance(event, Inbound) else event
    return said.platform, said.account
