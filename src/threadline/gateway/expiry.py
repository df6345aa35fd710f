"""The watcher: conversations that nobody goes on with end by themselves, and their agent sees them once more.

None of it is ever waited for: not by a turn, not by a message, not by the end of the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from threadline.errors import StoreError, StoreUnavailable
from threadline.gateway.patience import patiently
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model.source import CHAT_TYPES
from threadline.ports.agent import Flushes
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease
from threadline.store.work.expiry import Flush

log = get_logger(__name__)

# Between two steps others get at the store.
_PAUSE_SECONDS = 0.01
_LAST_SECONDS = 1.0


class Watcher:
    """Ends what has gone stale on the platforms that this process serves, and carries flushes out, a few at a time."""

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        supervisor: Supervisor,
        platforms: Sequence[str],
        is_late: Callable[[], bool],
    ) -> None:
        """`is_late`: the leases of this process are no longer to be relied on."""
        self._store = store
        self._supervisor = supervisor
        self._is_late = is_late
        self._flushing: dict[Lease, tuple[Flush, asyncio.Task[None]]] = {}
        self._wake = asyncio.Event()
        self._draining = False
        self.reconfigure(settings, platforms)

    def reconfigure(self, settings: GatewaySettings, platforms: Sequence[str]) -> None:
        """Goes on with these. What is being flushed keeps the agent that it began with."""
        self._settings = settings
        self._platforms = tuple(dict.fromkeys(platforms))

    async def run(self) -> None:
        """Looks every so often, until it is cancelled."""
        while not self._draining:
            for platform in self._platforms:
                for chat_type in sorted(CHAT_TYPES):
                    await self._expire(platform, chat_type)
            self._wake.set()
            await asyncio.sleep(self._settings.watch_seconds)

    async def run_flushes(self) -> None:
        """Carries flushes out until it is cancelled."""
        while True:
            self._wake.clear()
            while (
                not self._draining and len(self._flushing) < self._settings.flushes_at_once and await self._start_one()
            ):
                pass
            await self._wake.wait()

    def drain(self) -> None:
        """Begins nothing new."""
        self._draining = True

    async def close(self) -> None:
        """Cuts short what is being flushed and gives it back: the next gateway begins it anew."""
        self.drain()
        flushing = list(self._flushing.values())
        if not flushing:
            return
        for _, task in flushing:
            task.cancel()
        await asyncio.wait([task for _, task in flushing], timeout=_LAST_SECONDS)
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                for flush, _ in flushing:
                    await self._store.expiry.release_flush(flush)
        except (StoreError, TimeoutError) as cause:
            log.warning("flush.not_given_back", error=repr(cause))

    async def _expire(self, platform: str, chat_type: str) -> None:
        is_more = True
        while is_more and not self._draining:
            watched = await self._store.expiry.expire_batch(platform, chat_type)
            for session_id in watched.ended:
                log.info("session.expired", session=session_id)
            if watched.ended:
                self._wake.set()
            is_more = watched.has_more
            if is_more:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _start_one(self) -> bool:
        settings = self._settings
        running = [flush.lease for flush, _ in self._flushing.values()]
        flush = await self._store.expiry.claim_flush(
            self._platforms, owner=settings.owner, duration=settings.lease, running=running
        )
        if flush is None:
            return False
        before = [task for lease, (_, task) in self._flushing.items() if lease.key == flush.session_pk]
        task = self._supervisor.start(f"flush.{flush.session.session_id}", self._carry_out(flush, before))
        self._flushing[flush.lease] = (flush, task)
        return True

    async def _carry_out(self, flush: Flush, before: Sequence[asyncio.Task[None]]) -> None:
        """`before`: what is still at work here on the same conversation. It was lost to others, and ends first."""
        work = asyncio.current_task()
        assert work is not None, "it runs as a task"  # noqa: S101
        renewing = self._supervisor.start("flush.lease", self._renew(flush, work))
        try:
            for task in before:
                await _cut_short(task)
            await self._settle(flush)
        finally:
            renewing.cancel()
            self._flushing.pop(flush.lease, None)
            self._wake.set()

    async def _settle(self, flush: Flush) -> None:
        settings, session_id = self._settings, flush.session.session_id
        if flush.is_exhausted:
            await self._fail(flush, "it took the gateway with it each time")
            return
        try:
            async with asyncio.timeout(settings.silence_seconds):
                _, agent = settings.agent_for(flush.session.origin)
                if not isinstance(agent, Flushes):
                    await patiently(lambda: self._store.expiry.discard_flush(flush), self._is_late)
                    return
                history = await patiently(lambda: self._store.expiry.read_flush(flush), self._is_late)
                if history:
                    await agent.flush(flush.session, history)
        except Exception as cause:  # noqa: BLE001 - an agent is somebody else's: whatever it was, it is tried again
            await self._fail(flush, repr(cause))
            return
        if await patiently(lambda: self._store.expiry.finish_flush(flush), self._is_late):
            log.info("session.flushed", session=session_id, upto=flush.last_seq)

    async def _fail(self, flush: Flush, error: str) -> None:
        if await patiently(lambda: self._store.expiry.fail_flush(flush), self._is_late):
            log.error("session.not_flushed", session=flush.session.session_id, error=error)
        else:
            log.warning("flush.failed", session=flush.session.session_id, attempt=flush.attempts, error=error)

    async def _renew(self, flush: Flush, work: asyncio.Task[None]) -> None:
        """Keeps the flush; where it is not ours any more, the agent stops: what it is shown may have been erased."""
        is_held = True
        while is_held:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            try:
                is_held = bool(await self._store.leases.renew([flush.lease], duration=self._settings.lease))
            except StoreUnavailable as cause:
                log.warning("flush.not_renewed", session=flush.session.session_id, error=str(cause))
        log.warning("flush.lost", session=flush.session.session_id, attempt=flush.attempts)
        await _cut_short(work)


async def _cut_short(task: asyncio.Task[None]) -> None:
    # More than once: a cancel that meets the end of a wait can be lost.
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_LAST_SECONDS)
