"""People who watch while they are answered: a page or an editor, which shows a turn as it happens.

What stands here is a preview, held in memory alone. What counts is stored: whoever has missed something reads it there.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import msgspec

from threadline.model.delivery import Target
from threadline.model.turn import TurnOutcome
from threadline.ports.agent import Event


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What a running turn has said and done since it was last told of.

    `first` counts the events before these, from the turn's beginning on. An `attempt` other than the last begins the turn
    anew: what was shown of it goes. Neighbouring pieces of text are joined, so `upto` is more than `first` plus their number.
    """

    turn_id: str
    attempt: int
    first: int
    upto: int
    events: tuple[Event, ...]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run of a turn ended: with its outcome, or it waits for somebody's word, runs again, or is another worker's.

    `notice` is what its people are told besides what it said. `told` names what this run had them told while it went on, which
    may still be on its way: by these keys the platform is given it.
    """

    outcome: TurnOutcome | Literal["asks", "again", "lost"]
    notice: str | None = None
    told: tuple[str, ...] = ()


@runtime_checkable
class ShowsTurns(Protocol):
    """A platform that shows turns as they happen: thoughts, tool calls and their results, not the text alone.

    Its methods return at once and never raise. What may not run again is told of only after the journal has it.
    """

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None: ...

    def turn_grew(self, to: Target, growth: Growth) -> None: ...

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """This run of it is over. An attended platform has been told all that the turn said by then."""
        ...
