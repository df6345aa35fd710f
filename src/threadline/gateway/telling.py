"""Telling people who watch what a turn says and does, as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

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
    is_attended = platform is not None and platform.capabilities.attended
    if not _shows_turns(platform):
        yield telling
        return
    to, turn_id, attempt = target_of(claimed.origin), claimed.held.turn_id, claimed.held.fence

    def grew(growth: Growth) -> None:
        platform.turn_grew(to, growth)

    platform.turn_began(to, turn_id, attempt)
    journal.tell(grew)
    try:
        yield telling
        if is_attended and telling.ending.outcome not in ("lost", "again"):
            journal.tell_rest()
    finally:
        journal.tell(None)
        platform.turn_ended(to, turn_id, telling.ending)


def _shows_turns(platform: Platform | None) -> TypeGuard[ShowsTurns]:
    """By its names: to be asked for as a whole, a protocol takes as long as many a statement of SQL."""
    return hasattr(platform, "turn_began") and hasattr(platform, "turn_grew") and hasattr(platform, "turn_ended")
