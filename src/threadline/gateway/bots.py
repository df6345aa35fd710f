"""Programs that talk to us where people listen: they are answered, but never for long without a word of a person."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

import msgspec

from threadline.model.delivery import target_of
from threadline.model.inbound import Inbound

# So many messages of programs are answered in a chat after the last word of a person.
MOST_IN_A_ROW = 5
# A program that speaks once in a while, about a build say, does not talk with us in circles.
_FORGOTTEN_AFTER = timedelta(hours=1)
_MOST_CHATS = 10_000


class _Row(msgspec.Struct):
    """How many messages of programs were taken in a row, and when the last one came."""

    taken: int
    at: datetime
    is_told: bool = False


class BotTalk:
    """Keeps two programs from answering each other without end.

    It remembers nothing across a restart: then there may be a few answers more.
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    def person_spoke(self, event: Inbound) -> None:
        """A person said something in this chat, to whomever."""
        if self._rows:
            self._rows.pop(target_of(event.source).ordering_key, None)

    def taken(self, event: Inbound, now: datetime) -> None:
        """A program's message was taken in."""
        lane = target_of(event.source).ordering_key
        self._rows[lane] = _Row(self._count(lane, now) + 1, now)
        self._rows.move_to_end(lane)
        while len(self._rows) > _MOST_CHATS:
            self._rows.popitem(last=False)

    def is_enough(self, event: Inbound, now: datetime) -> bool:
        """Whether programs have talked to us long enough in this chat."""
        return self._count(target_of(event.source).ordering_key, now) >= MOST_IN_A_ROW

    def tell_once(self, event: Inbound, text: str) -> str | None:
        """The text, the first time that it is asked for since it is enough."""
        row = self._rows.get(target_of(event.source).ordering_key)
        if row is None or row.is_told:
            return None
        row.is_told = True
        return text

    def _count(self, lane: str, now: datetime) -> int:
        row = self._rows.get(lane)
        return 0 if row is None or now - row.at > _FORGOTTEN_AFTER else row.taken
