"""What tests of a gateway's store share: how they await, and how they open one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from threadline.clock import to_instant
from threadline.store.facade import GatewayStore
from threadline.store.work.turn_end import ClaimedTurn, TurnResult

T = TypeVar("T")
# Opens the store of one gateway more on the test's database.
OpenGateway: TypeAlias = Callable[..., GatewayStore]


class Run(Protocol):
    """Awaits something to its end."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


def over(store: GatewayStore, turn: ClaimedTurn) -> TurnResult:
    """The end of a turn that answered all it took and says nothing."""
    return TurnResult(
        lease=turn.lease,
        session_id=turn.session.session_id,
        outcome="answered",
        at=to_instant(store.clock.now()),
        outcomes=tuple((waiting, "answered", None) for waiting in turn.messages),
        taken_messages=turn.messages,
    )
