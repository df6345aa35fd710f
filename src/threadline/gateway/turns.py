"""Turns: claimed one at a time per session, run by an agent, ended in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from threadline.clock import to_instant
from threadline.errors import LeaseLost, StoreError
from threadline.gateway.alarms import Alarms
from threadline.gateway.answering import Answering
from threadline.gateway.composing import Composer, Retried
from threadline.gateway.heartbeat import is_reliable, steady
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor, woken
from threadline.ids import new_turn_ids
from threadline.log import get_logger
from threadline.model.delivery import target_of
from threadline.model.source import SessionSource
from threadline.model.turn import Close, GiveUp, Rerun, StopReason, back_off, recovery_decision
from threadline.ports.agent import Agent, HearsOfEnds
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease, RenewedLease, TurnLease
from threadline.store.work.inbox import AdmitRequest, Greeting, ReceiveResult
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest
from threadline.texts import gateway as texts

log = get_logger(__name__)

# Carries out a command that takes its turn in the session and ends that turn, or says what is to be answered again.
RunCommand: TypeAlias = Callable[[ClaimedTurn], Awaitable[Retried | None]]

# What a turn gets, after its time is over, to be given back or closed.
_LAST_SECONDS = 3.0
_CLAIMED_AT_ONCE = 16


class Turns:
    """Claims turns as long as there is room, and runs each in a task of its own."""

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        supervisor: Supervisor,
        outbox: Outbox,
        run_command: RunCommand,
        platforms: Sequence[str],
        alarms: Alarms,
    ) -> None:
        """`platforms`: those that this gateway serves; it runs no turns for others."""
        self._store = store
        self._supervisor = supervisor
        self._outbox = outbox
        self._run_command = run_command
        self._alarms = alarms
        self._since = to_instant(store.clock.now())
        self.reconfigure(settings, platforms)
        self._running: dict[Lease, Answering] = {}
        # Replaced, never changed: the heartbeat's thread reads it.
        self._held: tuple[TurnLease, ...] = ()
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._draining = False
        self._claiming = asyncio.Lock()

    def reconfigure(self, settings: GatewaySettings, platforms: Sequence[str]) -> None:
        """From now on turns are claimed and run by these. Those that run keep what they began with."""
        self._settings = settings
        self._platforms = tuple(dict.fromkeys(platforms))
        self._composer = Composer(self._store, settings, self._outbox)

    def wake(self, after: float = 0.0) -> None:
        """Something may be ready, now or in a moment."""
        if after > 0:
            asyncio.get_running_loop().call_later(after, self._wake.set)
        else:
            self._wake.set()

    @property
    def busy(self) -> int:
        """How many turns run in this process."""
        return len(self._held)

    @property
    def leases(self) -> tuple[TurnLease, ...]:
        """The leases of the turns that this process runs. No other process renews them: what was let go of is taken over."""
        return self._held

    async def run(self) -> None:
        """Claims and starts turns until it is cancelled."""
        while True:
            self._wake.clear()
            while await self._start_some():
                pass
            await woken(self._wake, self._settings.poll_seconds)

    async def drain(self) -> None:
        """No new turns; those that run get their time, then they are stopped and given back or closed."""
        self._draining = True
        # What is being claimed just now would be held by nobody.
        async with self._claiming:
            pass
        if not await self._idle_within(self._settings.drain_seconds):
            for answering in list(self._running.values()):
                answering.shut_down()
            await self._idle_within(_LAST_SECONDS)

    def is_answering(self, agent: Agent) -> bool:
        """Whether a turn of that agent runs here."""
        return any(answering.has(agent) for answering in self._running.values())

    def stop(self, session_id: str, stop: StopReason) -> None:
        """Ends the turn that runs in a session here, if one does."""
        for answering in self._running.values():
            if answering.claimed.session.session_id == session_id:
                answering.stop(stop)

    def on_renewed(self, asked: Sequence[Lease], renewed: Sequence[RenewedLease]) -> None:
        """End turns whose lease is lost at once, and stop those that somebody wants to end.

        A turn whose lease was not asked for was claimed meanwhile, and is as much ours as before.
        """
        stops = {one.lease: one.stop for one in renewed}
        for lease in asked:
            answering = self._running.get(lease)
            if answering is None:
                continue
            if lease not in stops:
                answering.lose()
            elif (stop := stops[lease]) is not None:
                answering.stop(stop)

    async def recover(self) -> None:
        """Takes turns over whose worker is gone: they run again, or are closed with what they had said."""
        settings = self._settings
        while await self._store.approvals.expire():
            pass
        while taken := await self._store.turns.take_over(settings.owner, self._platforms, settings.lease):
            decided = [(claimed, self._decided(claimed)) for claimed in taken]
            await self._rerun([claimed for claimed, decision in decided if isinstance(decision, Rerun)])
            for claimed, decision in decided:
                try:
                    await self._settle_crashed(claimed, decision)
                except (LeaseLost, StoreError) as cause:
                    # Whoever holds it next settles it; the others need not wait for that.
                    log.warning("turn.not_recovered", turn=claimed.lease.turn_id, error=repr(cause))
                except Exception:
                    # One turn that can't be settled must not keep a gateway from all the others.
                    log.exception("turn.not_recovered", turn=claimed.lease.turn_id)
        self.wake()
        self._outbox.wake()

    async def _idle_within(self, seconds: float) -> bool:
        if self._held:
            self._quiet.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._quiet.wait()
        return not self._held

    def _decided(self, claimed: ClaimedTurn) -> Rerun | Close | GiveUp:
        decision = recovery_decision(claimed.replay, called_tool=claimed.called_tool, suspected=claimed.suspected)
        if claimed.stop is not None or self._composer.is_attended(claimed):
            # Nobody wants it any more, or whoever waited for it has seen it break off.
            decision = Close()
        name, deaths = type(decision).__name__, claimed.suspected.deaths
        log.info("turn.recovered", turn=claimed.lease.turn_id, decision=name, deaths=deaths)
        self._outbox.metrics.turn_recovered(name.lower())
        return decision

    async def _settle_crashed(self, claimed: ClaimedTurn, decision: Rerun | Close | GiveUp) -> None:
        if claimed.stop is not None:
            await self._close_stopped(claimed, claimed.stop)
        elif isinstance(decision, GiveUp):
            # First the owner, who hears of it once by its name: who is parked is not looked at again.
            await self._alarms.message_parked(claimed.lease.turn_id, target_of(claimed.origin))
            await self._composer.park(claimed)
        elif isinstance(decision, Close):
            await self._composer.close(claimed, "interrupted", texts.BROKEN_OFF)

    async def _rerun(self, left: Sequence[ClaimedTurn]) -> None:
        """They run again after their back-offs, which are none where others are suspected."""
        first = self._settings.crash_back_off
        try:
            await self._store.turns.rerun(left, first=first)
        except StoreError as cause:
            log.warning("turns.not_recovered", turns=len(left), error=repr(cause))
        for turn in left:
            self.wake(back_off(turn.lease.turn_id, turn.suspected.deaths, first) / 1_000_000)

    async def _close_stopped(self, claimed: ClaimedTurn, stop: StopReason) -> None:
        """Nobody wants it any more: it does not run again. An agent that waits for an answer in it hears so."""
        await self._composer.close(claimed, "stopped", texts.STOPS[stop])
        _, agent = self._settings.agent_for(claimed.origin)
        if isinstance(agent, HearsOfEnds):
            agent.abandoned(claimed.lease.turn_id)

    async def _start_some(self) -> bool:
        """Claims turns as far as there is room, and starts them; whether there may be more."""
        async with self._claiming:
            room = self._settings.turns_at_once - self.busy
            # Who is late would lose at once what it takes now: it goes on as soon as a lease can be renewed again.
            bound = self._bound()
            if self._draining or room <= 0 or self._outbox.is_late() or bound == ():
                return False
            since = steady()
            claim = self._claim(min(room, _CLAIMED_AT_ONCE), bound)
            return self._start(await self._store.turns.claim(claim), since)

    async def received(self, admission: AdmitRequest, greeting: Greeting) -> tuple[ReceiveResult, bool]:
        """Takes a message in; whether its turn has begun with that.

        One commit does both in a conversation that is open here: its people wait, and nobody else would run the turn.
        """
        bound = self._settings.bound
        if admission.lane != "talk" or bound is None or admission.event.source not in bound():
            return await self._store.inbox.accept_and_greet(admission, greeting), False
        async with self._claiming:
            if self._draining or self.busy >= self._settings.turns_at_once or self._outbox.is_late():
                return await self._store.inbox.accept_and_greet(admission, greeting), False
            since = steady()
            claim = self._claim(1, (admission.resolve.address.digest,))
            received, claimed = await self._store.turns.accept_and_claim(admission, greeting, claim)
            return received, self._start(claimed, since)

    def _start(self, claimed: Sequence[ClaimedTurn], since: float) -> bool:
        """Runs turns that were claimed since then; False where they may be another's by now."""
        if claimed and not is_reliable(since, self._settings):
            # Asleep meanwhile: if they are not another's, whoever finds their leases ended takes them over.
            log.warning("turns.claimed_too_slowly", turns=len(claimed))
            return False
        for one in claimed:
            self._held = (*self._held, one.lease)
            self._supervisor.start(f"turn.{one.lease.turn_id}", self._carry_out(one))
        return bool(claimed)

    def _bound(self) -> tuple[bytes, ...] | None:
        bound = self._settings.bound
        return None if bound is None else tuple(self._digest(source) for source in bound())

    def _claim(self, count: int, addresses: tuple[bytes, ...] | None) -> ClaimRequest:
        settings = self._settings
        now = self._store.clock.now()
        return ClaimRequest(
            owner=settings.owner,
            turn_ids=new_turn_ids(now, count),
            at=to_instant(now),
            duration=settings.lease,
            when_busy=settings.when_busy,
            burst=settings.burst,
            per_person=settings.turns_per_person,
            per_platform=settings.turns_per_platform,
            platforms=self._platforms,
            addresses=addresses,
            since=self._since,
            back_off=settings.crash_back_off,
        )

    def _digest(self, source: SessionSource) -> bytes:
        return self._store.resolve_request(source, agent=self._settings.agent_for(source)[0]).address.digest

    async def _carry_out(self, claimed: ClaimedTurn) -> None:
        try:
            if claimed.stop is not None:
                await self._close_stopped(claimed, claimed.stop)
                return
            retried = await self._run_command(claimed) if claimed.lane == "session" else None
            if claimed.lane == "talk" or retried is not None:
                await self._answer(claimed, retried)
        except LeaseLost:
            log.warning("turn.lost", turn=claimed.lease.turn_id)
            self._outbox.metrics.turn_lost()
        finally:
            self._held = tuple(held for held in self._held if held != claimed.lease)
            if not self._held:
                self._quiet.set()
            self._wake.set()
            self._outbox.wake()

    async def _answer(self, claimed: ClaimedTurn, retried: Retried | None) -> None:
        answering = Answering(self._composer, claimed, self._supervisor, retried)
        self._running[claimed.lease] = answering
        began = asyncio.get_running_loop().time()
        try:
            await answering.run()
            # Whoever waits for it is answered before it is counted.
            await asyncio.sleep(0)
        finally:
            self._running.pop(claimed.lease, None)
        self._outbox.metrics.turn_took(asyncio.get_running_loop().time() - began)
        where = target_of(claimed.origin)
        await self._alarms.after_turn(answering.agent, where, answering.error, is_well=answering.is_well)
