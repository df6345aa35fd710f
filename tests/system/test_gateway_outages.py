"""A store that goes away at any instant costs a gateway neither a message nor an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.system.gateway_world import World, in_worlds
from tests.system.test_gateway_permissions import CASES as ASKING

from threadline.testing.crashing import STORE_POINTS

# Long enough for a slow machine to renew it, short enough to be waited for.
LEASE = 2.0
# What a gateway holds without knowing it is free when the lease ends.
UNHEARD = ("after claim", "after take")


class Case(msgspec.Struct, frozen=True):
    """Where the store goes away, who answers there, and what becomes of the turn where that outlasts its lease.

    After a point it was stored, unheard.
    """

    point: str
    agent: str
    outcome: str = "answered"


def both(what: str, agent: str, before: str = "answered", after: str = "answered") -> list[Case]:
    return [Case(f"before {what}", agent, before), Case(f"after {what}", agent, after)]


CASES = [
    *both("accept", "echo"),
    *both("claim", "echo"),
    *both("finish", "echo"),
    *both("take", "echo"),
    *both("receipt", "echo"),
    *both("stream", "slow"),
    *both("stream id", "slow"),
    *both("finish", "slow"),
    *both("claim", "never"),
    *both("journal", "never", "interrupted", "interrupted"),
    *both("finish", "never", "interrupted", "answered"),
    *both("journal", "tools"),
    *both("tool", "tools", "answered", "interrupted"),
    *both("finish", "tools", "interrupted", "answered"),
]


def test_every_call_of_the_store_is_tried() -> None:
    asking = {case.point for case in ASKING if case.outage is not None}
    assert {case.point for case in CASES} | asking == set(STORE_POINTS)


def test_a_short_outage_of_the_store_costs_nothing(tmp_path: Path) -> None:
    async def broken_after(world: World, number: int, case: Case) -> list[str]:
        lease = LEASE if case.point in UNHEARD else 60.0
        return await broken_by(world, number, case, outage=0.0, lease=lease, outcome="answered")

    found = in_worlds(f"sqlite://{tmp_path}/threadline.db", CASES, broken_after, lease=LEASE)
    assert not found, "\n".join(found)


def test_an_outage_that_outlasts_the_leases_loses_and_doubles_nothing(location: str) -> None:
    # Each engine takes its half; the soak takes all on both.
    outlasted(location, CASES[location.startswith("sqlite") :: 2])


@pytest.mark.soak
def test_an_outage_at_any_instant_that_outlasts_the_leases_loses_and_doubles_nothing(location: str) -> None:
    outlasted(location, CASES)


def outlasted(location: str, cases: Sequence[Case]) -> None:
    async def broken_after(world: World, number: int, case: Case) -> list[str]:
        return await broken_by(world, number, case, outage=1.2 * LEASE, lease=LEASE, outcome=case.outcome)

    found = in_worlds(location, cases, broken_after, lease=LEASE)
    assert not found, "\n".join(found)


async def broken_by(world: World, number: int, case: Case, *, outage: float, lease: float, outcome: str) -> list[str]:
    """What is not as promised after the store was gone at that instant for so long."""
    ada = f"{case.agent[0]}{number}"
    world.people = (ada,)
    gateway = world.begin(case.point, outage=outage, lease=lease)
    await world.connected()
    world.say(ada, "one")
    world.say(ada, "two")
    await world.settled()
    await world.kill(gateway)
    found, outcomes = world.broken(ada), world.outcomes(ada)
    if not world.has_passed(gateway):
        found.append("the store never went away")
    if outcomes != [outcome, "answered"]:
        found.append(f"turns ended as {outcomes}")
    return [f"{case.point} ({case.agent}): {fault}" for fault in found]
