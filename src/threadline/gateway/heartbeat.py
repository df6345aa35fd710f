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
from threadline.store.leases import Lease, RenewedLease

log = get_logger(__name__)

# The leases that a process holds. Asked from the heartbeat's thread.
HeldLeases: TypeAlias = Callable[[], Sequence[Lease]]
OnRenewed: TypeAlias = Callable[[Sequence[Lease], Sequence[RenewedLease]], None]


def steady() -> float:
    """Seconds that never go back, and go on while the machine is asleep, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def is_reliable(since: float, settings: GatewaySettings) -> bool:
    """Whether a lease that was written at `since` or later is still to be relied on. Who can't renew it stops before it ends."""
    return steady() - since <= settings.lease_seconds * 2 / 3


class Renews(Protocol):
    """What a heartbeat needs of the store."""

    def renew_leases_blocking(self, held: Sequence[Lease], *, duration: int) -> list[RenewedLease]: ...


class Heartbeat:
    """Renews the leases of all that a process is at, three times in the length of one, and of nothing else.

    What a process has let go of, however that came, is not renewed: a turn whose end could not be stored must not be held
    for ever by somebody who forgot it. After each renewal `on_renewed` is called with the leases that were asked for, and
    with those that still hold.
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

    def start(self, held_leases: HeldLeases, on_renewed: OnRenewed) -> None:
        """Begins to beat."""
        self._renewed = steady()
        self._thread = threading.Thread(
            target=self._beat, args=(held_leases, on_renewed), name="threadline-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends after the beat that runs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self, held_leases: HeldLeases, on_renewed: OnRenewed) -> None:
        while not self._stopping.wait(self._settings.lease_seconds / 3):
            began = steady()
            held = held_leases()
            try:
                renewed = self._renew(held)
            except ThreadlineError as cause:
                log.warning("lease.not_renewed", error=str(cause))
                continue
            on_renewed(held, renewed)
            if self.is_late() and len(renewed) < len(held):
                # The process stays late until its workers have heard which leases are lost: they would speak once more before.
                self._stopping.wait(self._settings.lease_seconds / 30)
            # The lease may have been written as soon as the call began.
            self._renewed = began

    def _renew(self, held: Sequence[Lease]) -> list[RenewedLease]:
        return self._store.renew_leases_blocking(held, duration=self._settings.lease) if held else []
