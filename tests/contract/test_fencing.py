"""What the worker of a turn writes is written while the turn is its own, and not after that. On both engines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract.gateways import Run
from tests.contract.test_memories import turn

from threadline.errors import LeaseLost
from threadline.store.facade import GatewayStore
from threadline.testing import exchange, user

Write = Callable[[GatewayStore, str], Coroutine[Any, Any, object]]

# All that a command does which takes its turn in a session.
WRITES: dict[str, Write] = {
    "title": lambda store, session_id: store.set_title(session_id, "a name"),
    "undo": lambda store, session_id: store.rewind_session(session_id),
    "retry": lambda store, session_id: store.retry_session(session_id),
    "fork": lambda store, session_id: store.resume.continue_in_fork(session_id),
    "new": lambda store, session_id: store.resume.start_new(session_id),
    "model": lambda store, session_id: store.sessions.choose_model(session_id, "own:swift"),
    "append": lambda store, session_id: store.append_to_transcript(session_id, user("more")),
}


async def state(store: GatewayStore, session_id: str) -> tuple[object, ...]:
    """All that a session shows."""
    listed = await store.list_sessions(include_ended=True)
    return await store.get_session(session_id), await store.load_transcript(session_id), len(listed)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_counts_while_the_turn_is_held_and_not_after_that(
    gateway: GatewayStore, run: Run, write: Write
) -> None:
    claimed = run(turn(gateway))
    session_id = claimed.session.session_id
    run(gateway.append_to_transcript(session_id, exchange("hello", "hello to you")))
    before = run(state(gateway, session_id))
    lost = gateway.fenced(replace(claimed.lease, fence=claimed.lease.fence + 1))
    with pytest.raises(LeaseLost):
        run(write(lost, session_id))
    assert run(state(gateway, session_id)) == before
    run(write(gateway.fenced(claimed.lease), session_id))
    assert run(state(gateway, session_id)) != before


def test_whoever_lost_a_turn_may_still_read(gateway: GatewayStore, run: Run) -> None:
    claimed = run(turn(gateway))
    lost = gateway.fenced(replace(claimed.lease, fence=claimed.lease.fence + 1))
    assert run(lost.get_session(claimed.session.session_id)) == claimed.session
