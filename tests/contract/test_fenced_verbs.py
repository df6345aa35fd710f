"""Every verb of a gateway's store asks for the lease that it is fenced by, and wakes the background worker where it must.

On both engines.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace
from tests.contract.busy_gateway import Busy, make_busy
from tests.contract.gateways import OpenGateway, Run
from tests.contract.verb_calls import READS, TASKS, WRITES, Call
from tests.contract.watching import opens
from tests.system.surroundings import reading

from threadline.errors import LeaseLost
from threadline.store.engine.database import Tx
from threadline.store.facade import GatewayStore
from threadline.store.verbs import Group, Verb
from threadline.testing import FakeClock, user

__all__ = ["opens"]

Tables: TypeAlias = dict[str, list[str]]
Stored: TypeAlias = Callable[[], Tables]

# Of what waits for the background worker.
LEFT_FOR_WORKER = ("unindexed", "moved")
WORKER_SECONDS = 10.0
# In the busy store, with nothing left behind, these find nothing to do.
CHANGE_NOTHING = {"index_pending", "collect", "inbox.list_unhandled_controls"}


@pytest.fixture
def stored(location: str) -> Stored:
    """Reads all rows of all tables behind the store's back."""
    listing = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        if location.startswith("sqlite")
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'threadline'"
    )

    def read_all() -> Tables:
        with reading(location) as rows:
            return {name: sorted(map(repr, rows(f"SELECT * FROM {name}"))) for (name,) in rows(listing)}

    return read_all


def groups(store: GatewayStore) -> dict[str, Group[Any]]:
    """The groups of a store, by their names."""
    return {name: group for name, group in vars(store).items() if isinstance(group, Group)}


def verb_names(store: GatewayStore) -> set[str]:
    """The verbs of a store and of its groups."""
    holders: dict[str, type] = {"": type(store)}
    holders |= {f"{name}.": type(group) for name, group in groups(store).items()}
    return {
        f"{prefix}{name}"
        for prefix, holder in holders.items()
        for name, _ in inspect.getmembers(holder, lambda member: isinstance(member, Verb))
    }


class CountedFence:
    """Counts how often a fenced store asks for its lease."""

    def __init__(self, store: GatewayStore) -> None:
        assert store.require_lease is not None
        self._require = store.require_lease
        self.asked = 0
        store.require_lease = self

    def __call__(self, tx: Tx) -> None:
        self.asked += 1
        self._require(tx)


def test_every_verb_is_known_here(gateway: GatewayStore) -> None:
    writing = {name.partition(",")[0] for name in WRITES}
    others = READS | set(TASKS)
    assert writing & others == set()
    assert writing | others == verb_names(gateway)


def test_every_group_of_a_fenced_store_is_the_fenced_stores(opens: OpenGateway, run: Run, clock: FakeClock) -> None:
    store = opens()
    fenced = store.fenced(run(make_busy(store, clock)).turn.lease)
    assert len(groups(store)) == len(groups(fenced)) > 15
    assert [name for name, group in groups(fenced).items() if group.store is not fenced] == []
    assert [name for name, group in groups(store).items() if group.store is not store] == []


def test_no_write_outlives_the_lease_that_its_store_is_fenced_by(
    opens: OpenGateway, run: Run, clock: FakeClock, stored: Stored
) -> None:
    store = opens()
    busy = run(make_busy(store, clock))
    lost = replace(busy.turn.lease, fence=busy.turn.lease.fence + 1)
    before = stored()
    found = []
    for name, call in WRITES.items():
        fenced = store.fenced(lost)
        fence = CountedFence(fenced)
        problem = run(outcome(fenced, busy, call))
        if problem or not fence.asked:
            found.append(f"{name}: {problem or 'its own check raised'}")
        after = stored()
        found += [f"{name} changed {table}" for table in after if after[table] != before[table]]
    assert not found, "\n".join(found)


async def outcome(store: GatewayStore, busy: Busy, call: Call) -> str:
    """What is wrong with a call that must raise `LeaseLost`."""
    try:
        result = await call(store, busy)
    except LeaseLost:
        return ""
    except Exception as error:  # noqa: BLE001 - whatever it raises is told beside the others
        return f"raised {error!r}"
    return f"returned {result!r}"


@pytest.mark.parametrize("name", WRITES)
def test_a_call_changes_something_and_what_it_leaves_behind_is_done(
    opens: OpenGateway, run: Run, clock: FakeClock, stored: Stored, name: str
) -> None:
    filling = opens()
    busy = run(make_busy(filling, clock))
    run(filling.close())
    # Its worker has heard of no write before this one.
    store = opens()
    before = stored()
    run(WRITES[name](store, busy))
    assert (stored() == before) is (name in CHANGE_NOTHING)
    run(worker_done(stored))


def test_what_is_left_behind_under_a_lease_is_done(
    opens: OpenGateway, run: Run, clock: FakeClock, stored: Stored
) -> None:
    filling = opens()
    busy = run(make_busy(filling, clock))
    run(filling.close())
    fenced = opens().fenced(busy.turn.lease)
    run(fenced.append_to_transcript(busy.session_id, user("more")))
    assert left_for_worker(stored)
    run(worker_done(stored))


def left_for_worker(stored: Stored) -> Tables:
    """What waits for the background worker."""
    return {name: left for name, left in stored().items() if name in LEFT_FOR_WORKER and left}


async def worker_done(stored: Stored) -> None:
    """Waits until the background worker has done what was left for it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + WORKER_SECONDS
    while left := left_for_worker(stored):
        assert loop.time() < until, f"nobody told the background worker of {left}"
        await asyncio.sleep(0.05)
