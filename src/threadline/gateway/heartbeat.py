"""Leases are renewed by a thread of their own: an event loop that is stuck must not cost the turns that run well."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from threadline.errors import ThreadlineError
from threadline.gateway.settings import GatewaySettings
from threadline.log import get_logger
from threadline.store.leases import Held, StillHeld
from threadline.store.work.outbox import Delivery

log = get_logger(__name__)

# The turns and the deliveries that a process is at. Asked from the heartbeat's thread.
Holding: TypeAlias = Callable[[], tuple[Sequence[Held], Sequence[Delivery]]]
Told: TypeAlias = Callable[[Sequence[Held], Sequence[StillHeld]], None]


def steady() -> float:
    """Seconds that never go back, and go on while the machine is asleep, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def is_reliable(since: float, settings: GatewaySettings) -> bool:
    """Whether a lease that was written at `since` or later is still to be relied on. Who can't renew it stops before it ends."""
    return steady() - since <= settings.lease_seconds * 2 / 3


class Renews(Protocol):
    """What a heartbeat needs of the store."""

    def renew_leases_blocking(
        self, owner: str, held: Sequence[Held], flying: Sequence[Delivery], *, lease: int
    ) -> list[StillHeld]: ...


class Heartbeat:
    """Renews the leases of all that a process is at, three times in the length of one, and of nothing else.

    What a process has let go of, however that came, is not renewed: a turn whose end could not be stored must not be held
    for ever by somebody who forgot it. After each renewal `told` hears what was asked for, and what of it is still held.
    """

    def __init__(self, store: Renews, settings: GatewaySettings) -> None:
        self._store = store
        self._settings = settings
        self._renewed = steady()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def is_late(self) -> bool:
        """Whether nothing could be renewed for two thirds of a lease: who is, works and speaks no more. Another may have begun."""
        return not is_reliable(self._renewed, self._settings)

    def start(self, holding: Holding, told: Told) -> None:
        """Begins to beat."""
        self._renewed = steady()
        self._thread = threading.Thread(
            target=self._beat, args=(holding, told), name="threadline-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends after the beat that runs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self, holding: Holding, told: Told) -> None:
        while not self._stopping.wait(self._settings.lease_seconds / 3):
            began = steady()
            held, flying = holding()
            try:
                still = self._renew(held, flying)
            except ThreadlineError as cause:
                log.warning("lease.not_renewed", error=str(cause))
                continue
            told(held, still)
            if len(still) < len(held):
                # Who lost something stays late for a moment, in which they hear so: they would speak once more before.
                self._stopping.wait(self._settings.lease_seconds / 30)
            # The lease may have been written as soon as the call began.
            self._renewed = began

    def _renew(self, held: Sequence[Held], flying: Sequence[Delivery]) -> list[StillHeld]:
        if not (held or flying):
            return []
        settings = self._settings
        return self._store.renew_leases_blocking(settings.owner, held, flying, lease=settings.lease)
