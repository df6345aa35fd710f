"""Telling people who watch what a turn says and does, as it goes."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Self, TypeGuard

from threadline.gateway.journal import Journal
from threadline.model.delivery import target_of
from threadline.ports.live import Ending, ShowsTurns
from threadline.ports.platform import Platform
from threadline.store.work.turn_end import ClaimedTurn


class Told:
    """As long as this lasts a platform is told of a turn, if it shows turns; at the end that it is over, whichever end.

    The fence stands for the attempt: a turn that begins anew always has another, also where that cost it no attempt.
    """

    def __init__(self, platform: Platform | None, claimed: ClaimedTurn, journal: Journal) -> None:
        self._platform: ShowsTurns | None = platform if _shows_turns(platform) else None
        self._is_attended = platform is not None and platform.capabilities.attended
        self._to = target_of(claimed.origin)
        self._held = claimed.lease
        self._journal = journal
        # How the turn ended, once that is stored; until then it may be anybody's.
        self.ending = Ending(outcome="lost")

    def __enter__(self) -> Self:
        if self._platform is not None:
            self._platform.turn_began(self._to, self._held.turn_id, self._held.fence)
            self._journal.tell(partial(self._platform.turn_grew, self._to))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._platform is None:
            return
        try:
            if kind is None and self._is_attended and self.ending.outcome not in ("lost", "again"):
                self._journal.tell_rest()
        finally:
            self._journal.tell(None)
            self._platform.turn_ended(self._to, self._held.turn_id, self.ending)


def _shows_turns(platform: Platform | None) -> TypeGuard[ShowsTurns]:
    """By its names: to be asked for as a whole, a protocol takes as long as many a statement of SQL."""
    return hasattr(platform, "turn_began") and hasattr(platform, "turn_grew") and hasattr(platform, "turn_ended")
