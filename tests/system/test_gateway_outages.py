"""A store that goes away at any instant costs a gateway neither a message nor an answer."""

from __future__ import annotations

import asyncio

import msgspec
from tests.system.gateway_world import World, more_databases

from threadline.testing.crashing import STORE_POINTS
from threadline.testing.scripted import ScriptedChat

# So many gateways at the same time.
AT_ONCE = 8
LEASE = 1.0


class Case(msgspec.Struct, frozen=True):
    """Where the store goes away, who answers there, and what becomes of the turn. After a point it was stored, unheard."""

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


def test_an_outage_of_the_store_loses_and_doubles_nothing(location: str) -> None:
    with more_databases(location) as another:
        found = asyncio.run(all_faults([another() for _ in range(AT_ONCE)]))
    assert not found, "\n".join(found)


async def all_faults(databases: list[str]) -> list[str]:
    shares = [list(enumerate(CASES))[place :: len(databases)] for place in range(len(databases))]
    found = await asyncio.gather(*map(faults_of_share, databases, shares))
    return [fault for faults in found for fault in faults]


async def faults_of_share(location: str, share: list[tuple[int, Case]]) -> list[str]:
    async with ScriptedChat(resend_after=0.3) as chat:
        with World(location, chat, lease=LEASE) as world:
            return [fault for number, case in share for fault in await faults_after(world, number, case)]


async def faults_after(world: World, number: int, case: Case) -> list[str]:
    """What is wrong after the store was gone at that instant."""
    ada = f"{case.agent[0]}{number}"
    gateway = world.begin(case.point, is_outage=True)
    await world.connected()
    world.say(ada, "one")
    world.say(ada, "two")
    await world.settled()
    await world.kill(gateway)
    outcomes = [turn.outcome for turn in world.turns() if turn.user == ada]
    faults = world.faults_of([ada])
    if outcomes != [case.outcome, "answered"]:
        faults.append(f"turns ended as {outcomes}")
    return [f"{case.point} ({case.agent}): {fault}" for fault in faults]
