"""Telling people who watch what a turn says and does, as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadline.gateway.journal import Journal
from threadline.model.delivery import target_of
from threadline.ports.live import Growth, ShowsTurns
from threadline.ports.platform import Platform
from threadline.store.turns import Claimed


@contextmanager
def told(platform: Platform | None, claimed: Claimed, journal: Journal) -> Iterator[None]:
    """As long as this lasts the platform is told of the turn, if it shows turns; at the end that it is over, whichever end.

    The fence stands for the attempt: a turn that begins anew always has another, also where that cost it no attempt.
    """
    if not isinstance(platform, ShowsTurns):
        yield
        return
    to, turn_id, attempt = target_of(claimed.origin), claimed.held.turn_id, claimed.held.fence

    def grew(growth: Growth) -> None:
        platform.turn_grew(to, growth)

    platform.turn_began(to, turn_id, attempt)
    journal.tell(grew)
    try:
        yield
    finally:
        journal.tell(None)
        platform.turn_ended(to, turn_id)
