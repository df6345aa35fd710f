"""A store that goes away at any instant costs a gateway neither a message nor an answer."""

from __future__ import annotations

import msgspec
from tests.system.gateway_world import World, in_worlds

from threadline.testing.crashing import STORE_POINTS

LEASE = 1.0


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
    *both("claim", "slow"),
    *both("stream", "slow"),
    *both("stream id", "slow"),
    *both("finish", "slow"),
    *both("receipt", "slow"),
    *both("claim", "never"),
    *both("journal", "never", "interrupted", "interrupted"),
    *both("finish", "never", "interrupted", "answered"),
    *both("journal", "tools"),
    *both("tool", "tools", "answered", "interrupted"),
    *both("finish", "tools", "interrupted", "answered"),
]


def test_every_call_of_the_store_is_tried() -> None:
    assert {case.point for case in CASES} == set(STORE_POINTS)


def test_a_short_outage_of_the_store_costs_nothing(location: str) -> None:
    async def broken_after(world: World, number: int, case: Case) -> list[str]:
        return await broken_by(world, number, case, seconds=0.0, outcome="answered")

    found = in_worlds(location, CASES, broken_after, lease=LEASE)
    assert not found, "\n".join(found)


def test_an_outage_that_outlasts_the_leases_loses_and_doubles_nothing(location: str) -> None:
    async def broken_after(world: World, number: int, case: Case) -> list[str]:
        return await broken_by(world, number, case, seconds=1.5 * LEASE, outcome=case.outcome)

    found = in_worlds(location, CASES, broken_after, lease=LEASE)
    assert not found, "\n".join(found)


async def broken_by(world: World, number: int, case: Case, *, seconds: float, outcome: str) -> list[str]:
    """What is not as promised after the store was gone at that instant."""
    ada = f"{case.agent[0]}{number}"
    gateway = world.begin(case.point, outage=seconds)
    await world.connected()
    world.say(ada, "one")
    world.say(ada, "two")
    await world.settled()
    await world.kill(gateway)
    found, outcomes = world.broken(ada), world.outcomes(ada)
    if outcomes != [outcome, "answered"]:
        found.append(f"turns ended as {outcomes}")
    return [f"{case.point} ({case.agent}): {fault}" for fault in found]
