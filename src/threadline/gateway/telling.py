"""Telling people who watch what a turn says and does, as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from threadline.gateway.journal import Journal
from threadline.model.delivery import target_of
from threadline.ports.live import Ending, Growth, ShowsTurns
from threadline.ports.platform import Platform
from threadline.store.turns import Claimed


class Telling(msgspec.Struct):
    """How a turn ended, once that is stored; until then it may be anybody's."""

    ending: Ending = Ending(outcome="lost")


@contextmanager
def told(platform: Platform | None, claimed: Claimed, journal: Journal) -> Iterator[Telling]:
    """As long as this lasts the platform is told of the turn, if it shows turns; at the end that it is over, whichever end.

    The fence stands for the attempt: a turn that begins anew always has another, also where that cost it no attempt.
    """
    telling = Telling()
    # By a name first: to look for a whole protocol takes as long as many a statement of SQL.
    if not hasattr(platform, "turn_began") or not isinstance(platform, ShowsTurns):
        yield telling
        return
    to, turn_id, attempt = target_of(claimed.origin), claimed.held.turn_id, claimed.held.fence

    def grew(growth: Growth) -> None:
        platform.turn_grew(to, growth)

    platform.turn_began(to, turn_id, attempt)
    journal.tell(grew)
    try:
        yield telling
        if platform.capabilities.attended and telling.ending.outcome not in ("lost", "again"):
            journal.tell_rest()
    finally:
        journal.tell(None)
        platform.turn_ended(to, turn_id, telling.ending)
