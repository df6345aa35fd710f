"""Wrong tries, counted for each peer, so that nobody goes on guessing."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

ALLOWED = 10
WITHIN_SECONDS = 60.0
# However many addresses there are, this many are kept in mind: those that failed last.
PEERS_KEPT = 4096
# Whoever has one address of IPv6 has at least so many neighbouring ones.
_IPV6_PREFIX = 64


class Failures:
    """Who failed when, in memory alone: a restart forgives."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` counts seconds and never goes back."""
        self._now = now
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_of(self, peer: str) -> int:
        """For how many seconds a peer may not try again; 0 where it may."""
        failed = self._failed.get(_household(peer))
        if failed is None or len(failed) < ALLOWED:
            return 0
        return max(0, math.ceil(failed[0] + WITHIN_SECONDS - self._now()))

    def add(self, peer: str) -> None:
        """A peer failed once more."""
        household = _household(peer)
        self._failed.setdefault(household, deque(maxlen=ALLOWED)).append(self._now())
        self._failed.move_to_end(household)
        if len(self._failed) > PEERS_KEPT:
            self._failed.popitem(last=False)

    def take_back(self, peer: str) -> None:
        """The last try that was counted was a good one."""
        failed = self._failed.get(_household(peer))
        if failed:
            failed.pop()


def _household(peer: str) -> str:
    """What is counted together: an address, of IPv6 the network that one household is given."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(ip_network((address, _IPV6_PREFIX), strict=False))
