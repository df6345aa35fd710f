"""Delivery: what is stored to be sent is sent, in order per chat, and finished by a receipt."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

import msgspec

from threadline.clock import Instant, to_instant
from threadline.gateway.calling import limited
from threadline.gateway.files import outgoing
from threadline.gateway.heartbeat import is_reliable, steady
from threadline.gateway.metrics import Metrics
from threadline.gateway.patience import patiently
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.supervisor import Supervisor, woken
from threadline.log import get_logger
from threadline.model.delivery import Park, RetryAt, Target, after_failure, target_of
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Capabilities,
    Gone,
    NotModified,
    Outgoing,
    Platform,
    PlatformError,
    RateLimited,
    Transient,
)
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease
from threadline.store.work.outbox import Delivery
from threadline.texts import gateway as texts

log = get_logger(__name__)


class ChatWatch(Protocol):
    """Who wants to know of chats that are gone for good, and of those that are back."""

    async def chat_gone(self, chat: Target, reason: str) -> None: ...

    async def chat_works(self, chat: Target) -> None: ...


class Outbox:
    """Sends what waits on the platforms that this process is connected to."""

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        supervisor: Supervisor,
        served: Sequence[Platform],
        is_late: Callable[[], bool],
        metrics: Metrics | None = None,
    ) -> None:
        """`served`: the platforms of this gateway, connected or not yet. `is_late`: its leases are no longer to be relied on."""
        self.is_late = is_late
        self.metrics = metrics or Metrics()
        self._store = store
        self._settings = settings
        self._supervisor = supervisor
        self._served: dict[tuple[str, str], Platform] = {}
        self.reconfigure(settings, served)
        self._platforms: dict[tuple[str, str], Platform] = {}
        self.chats: ChatWatch | None = None
        self._wake = asyncio.Event()
        self._claiming = asyncio.Lock()
        # Replaced, never changed: the heartbeat's thread reads it.
        self._flying: tuple[Delivery, ...] = ()

    def reconfigure(self, settings: GatewaySettings, served: Sequence[Platform]) -> None:
        """From now on these settings hold, and these are the platforms of this gateway."""
        self._settings = settings
        self._served = {(platform.name, platform.account): platform for platform in served}

    def connect(self, platform: Platform) -> None:
        """From now on messages for this account are sent by this process."""
        self._platforms[platform.name, platform.account] = platform
        self.wake()

    def disconnect(self, platform: Platform) -> None:
        """Messages for this account wait for another process, or for it to come back."""
        if self._platforms.get((platform.name, platform.account)) is platform:
            del self._platforms[platform.name, platform.account]

    def platform_of(self, name: str, account: str) -> Platform | None:
        """The connected platform of that account."""
        return self._platforms.get((name, account))

    def capabilities_of(self, name: str, account: str) -> Capabilities | None:
        """What that account can do, also before it is connected; `None` for one that this gateway does not serve."""
        platform = self._served.get((name, account))
        return None if platform is None else platform.capabilities

    def is_attended(self, name: str, account: str) -> bool:
        """Whether the people of that account wait while they are answered, and see it as it happens."""
        can = self.capabilities_of(name, account)
        return can is not None and can.attended

    def begins_by_message(self, name: str, account: str) -> bool:
        """Whether a message to that account begins a conversation where there is none."""
        can = self.capabilities_of(name, account)
        return can is None or can.begins_by_message

    @property
    def accounts(self) -> list[tuple[str, str]]:
        """The accounts that are connected, each with its platform."""
        return sorted(self._platforms)

    @property
    def connected(self) -> list[str]:
        """The names of the connected platforms."""
        return sorted({name for name, _ in self._platforms})

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being sent just now."""
        return not self._flying

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases of the deliveries that are being sent just now."""
        return tuple(delivery.lease for delivery in self._flying)

    def is_sending_by(self, platform: Platform) -> bool:
        """Whether anything of that account is being sent just now."""
        place = (platform.name, platform.account)
        return any((one.target.platform, one.target.account) == place for one in self._flying)

    def wake(self) -> None:
        """Something was stored."""
        self._wake.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        while True:
            self._wake.clear()
            await self.send_due()
            await woken(self._wake, self._settings.poll_seconds)

    async def recover(self) -> None:
        """Lets deliveries go on whose sender is gone."""
        safe = [place for place, platform in self._served.items() if platform.capabilities.idempotent_send]
        while count := await self._store.outbox.recover_expired(safe):
            self.metrics.deliveries_recovered(count)
            self.wake()

    async def send_due(self) -> None:
        """When this returns all that was due, as far as there is room, is being sent: `is_idle` tells when it was.

        One look finds all of it: what stands behind it in its chat is looked for when it has left.
        """
        async with self._claiming:
            while await self._send_some():
                pass

    async def _send_some(self) -> bool:
        """Sends what is due where there is room; whether there may be more."""
        accounts, room = self._room()
        bound = None if self._settings.bound is None else self._settings.bound()
        if not accounts or (bound is not None and not bound):
            return False
        since = steady()
        taken = await self._store.outbox.claim(
            accounts,
            owner=self._settings.owner,
            duration=self._settings.lease,
            limit=room,
            ordering_keys=None if bound is None else [target_of(source).ordering_key for source in bound],
        )
        for delivery in taken:
            self._flying = (*self._flying, delivery)
            self._supervisor.start(f"delivery.{delivery.lease.key}", self._deliver(delivery, since))
        return len(taken) == room

    def _room(self) -> tuple[list[tuple[str, str]], int]:
        """The accounts that have room for more, and how much more each of them has at least."""
        flying = Counter((one.target.platform, one.target.account) for one in self._flying)
        rooms = {place: self._settings.sends_at_once - flying[place] for place in self._platforms}
        free = [place for place, room in rooms.items() if room > 0]
        return free, min((rooms[place] for place in free), default=0)

    async def _deliver(self, delivery: Delivery, since: float) -> None:
        try:
            platform = self._platforms.get((delivery.target.platform, delivery.target.account))
            if platform is None:
                await self._again(delivery, wait=None, reason="the platform is not connected")
                return
            await self._send(platform, delivery, since)
        finally:
            self._flying = tuple(one for one in self._flying if one is not delivery)
            self.wake()

    async def _send(self, platform: Platform, delivery: Delivery, since: float) -> None:
        """`since`: when it was taken, or a little before."""
        message = await outgoing(self._store, platform.capabilities, delivery, self.is_late)
        if not is_reliable(since, self._settings):
            # Asleep meanwhile: it may be another's by now. If it is not, nothing of it has left, for certain.
            await self._fail(delivery, RetryAt(self._now()), "the gateway was held up before it could send this")
            return
        try:
            external_id = await self._put(platform, delivery, message)
        except RateLimited as limit:
            await self._again(delivery, wait=timedelta(seconds=limit.retry_after), reason=str(limit))
        except Ambiguous as cause:
            await self._doubt(platform, delivery, str(cause))
        except Transient as cause:
            await self._again(delivery, wait=None, reason=str(cause))
        except PlatformError as cause:
            if isinstance(cause, Gone) and delivery.external_id is not None:
                await self._send_anew(platform, delivery, since)
                return
            log.warning("delivery.parked", delivery=delivery.delivery_id, error=str(cause))
            await self._fail(delivery, Park(str(cause)), str(cause))
            if isinstance(cause, Gone) and self.chats is not None:
                await self.chats.chat_gone(delivery.target, str(cause))
        except Exception as cause:
            # An adapter is somebody else's. Such an error says nothing of how far it came.
            log.exception("delivery.broke", delivery=delivery.delivery_id)
            await self._doubt(platform, delivery, repr(cause))
        else:
            await self._keep_receipt(platform, delivery, external_id)

    async def _doubt(self, platform: Platform, delivery: Delivery, reason: str) -> None:
        """It may have arrived: it is sent again, and says so where the platform can't tell the two apart."""
        is_doubtful = delivery.external_id is None and not platform.capabilities.idempotent_send
        await self._again(delivery, wait=None, reason=reason, is_doubtful=is_doubtful)

    async def _keep_receipt(self, platform: Platform, delivery: Delivery, external_id: str) -> None:
        """Notes that it arrived; what is not noted would be sent again."""
        may_be_repeated = delivery.may_be_duplicate and not platform.capabilities.idempotent_send
        await patiently(
            lambda: self._store.outbox.mark_sent(delivery, external_id, may_be_repeated=may_be_repeated),
            self.is_late,
        )
        self.metrics.delivery(delivery.target.platform, "unknown" if may_be_repeated else "sent")
        if self.chats is not None:
            await self.chats.chat_works(delivery.target)

    async def _put(self, platform: Platform, delivery: Delivery, message: Outgoing) -> str:
        """Brings the chat to the text; the platform's id of the message."""
        if delivery.external_id is not None:
            await self._edited(platform, delivery, message, delivery.external_id)
            return delivery.external_id
        if not delivery.may_be_duplicate:
            return await self._shown(platform, delivery, message)
        if not platform.capabilities.idempotent_send:
            return await self._marked(platform, delivery, message)
        external_id = await self._shown(platform, delivery, message)
        if platform.capabilities.edit:
            # The key may have brought back the beginning of a streamed answer.
            await self._edited(platform, delivery, message, external_id)
        return external_id

    async def _send_anew(self, platform: Platform, delivery: Delivery, since: float) -> None:
        """Someone deleted the message while it was being written: the answer gets another one."""
        if await self._store.outbox.forget_external_id(delivery):
            await self._send(platform, msgspec.structs.replace(delivery, external_id=None), since)

    async def _marked(self, platform: Platform, delivery: Delivery, message: Outgoing) -> str:
        """Says that it may be a repetition. With that it may be longer than the platform takes, so it comes in parts.

        Buttons stand below the last of them.
        """
        text = texts.MAY_BE_REPEATED.format(text=message.text).lstrip("\n")
        first, *more = self._settings.split(text, platform.capabilities)
        parts = [Outgoing(text=first, reply_to=delivery.reply_to, files=message.files)]
        parts += [Outgoing(text=part) for part in more]
        parts[-1] = msgspec.structs.replace(parts[-1], buttons=message.buttons)
        external_id, *_ = [await self._shown(platform, delivery, part) for part in parts]
        return external_id

    async def _shown(self, platform: Platform, delivery: Delivery, message: Outgoing) -> str:
        try:
            async with self._limited(message):
                return await platform.send(delivery.target, message, key=delivery.delivery_id)
        except BadMarkup:
            plain = msgspec.structs.replace(message, text=self._settings.plain(message.text), is_plain=True)
            async with self._limited(plain):
                return await platform.send(delivery.target, plain, key=f"{delivery.delivery_id}.plain")

    async def _edited(self, platform: Platform, delivery: Delivery, message: Outgoing, external_id: str) -> None:
        try:
            async with self._limited(message):
                await platform.edit(delivery.target, external_id, message)
        except NotModified:
            return
        except BadMarkup:
            plain = msgspec.structs.replace(message, text=self._settings.plain(message.text), is_plain=True)
            async with self._limited(plain):
                await platform.edit(delivery.target, external_id, plain)

    def _limited(self, message: Outgoing) -> AbstractAsyncContextManager[None]:
        settings = self._settings
        return limited(settings.upload_seconds if message.files else settings.call_seconds)

    async def _again(
        self, delivery: Delivery, *, wait: timedelta | None, reason: str, is_doubtful: bool = False
    ) -> None:
        # A platform that says when is believed, however often it was tried: also by gateways that died of something else.
        attempts = delivery.attempts if wait is None else 0
        step = after_failure(attempts=attempts, first_at=delivery.created_at, now=self._now(), wait=wait, reason=reason)
        await self._fail(delivery, step, reason, is_doubtful=is_doubtful)
        if isinstance(step, RetryAt):
            seconds = max(0.0, (step.at - self._now()) / 1_000_000)
            asyncio.get_running_loop().call_later(seconds + 0.01, self.wake)

    async def _fail(self, delivery: Delivery, step: RetryAt | Park, error: str, *, is_doubtful: bool = False) -> None:
        await self._store.outbox.mark_failed(delivery, step, error=error, is_doubtful=is_doubtful)
        self.metrics.delivery(delivery.target.platform, "parked" if isinstance(step, Park) else "retried")

    def _now(self) -> Instant:
        return to_instant(self._store.clock.now())
