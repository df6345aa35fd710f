"""A gateway in a process of its own, which never ends by itself and can be told where to die.

Run as `python -m tests.system.gateway_child URL ADDRESS AGENT [POINT]`, or by `start`, which forks it from a process that has
everything imported. ADDRESS is that of a `ScriptedChat`; AGENT is one of `AGENTS`, or `mixed`: then the first letter of who
speaks tells which.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import GatewaySettings
from threadline.ids import new_owner
from threadline.log import EventFormatter
from threadline.model.source import SessionSource
from threadline.platforms.text import plain, split
from threadline.ports.agent import Agent, Event, Text, ToolCall, ToolResult, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.testing.crashing import Act, CrashingPlatform, CrashingStore, Trigger, die, fall_asleep, lose_store
from threadline.testing.scripted import ScriptedPlatform
from threadline.testing.scripted_world import ALL_CAPABILITIES

LOOKS = "Let me look. "
FOUND = "something"
CALL = ToolCall("c1", "look", "{}")
_PIECES = 5


def answer_to(texts: Sequence[str]) -> str:
    """What every agent here has to say in the end."""
    return f"Of {' and '.join(texts)} I know that it is so, and why, and since when, and no more."


async def _echo(turn: Turn) -> AsyncIterator[Event]:
    yield Text(_answer(turn))


async def _slow(turn: Turn) -> AsyncIterator[Event]:
    answer = _answer(turn)
    size = len(answer) // _PIECES + 1
    for start in range(0, len(answer), size):
        yield Text(answer[start : start + size])
        await asyncio.sleep(0.06)


async def _tools(turn: Turn) -> AsyncIterator[Event]:
    yield Text(LOOKS)
    await asyncio.sleep(0.1)
    yield CALL
    await asyncio.sleep(0.05)
    yield ToolResult(CALL.call_id, FOUND)
    async for event in _slow(turn):
        yield event


def _answer(turn: Turn) -> str:
    return answer_to([spoken.text for spoken in turn.messages])


# echo  one piece      slow  streamed      tools  until_tool, streamed, with a tool call      never  streamed, runs once
AGENTS: dict[str, Agent] = {
    "echo": ScriptedAgent(_echo),
    "slow": ScriptedAgent(_slow),
    "tools": ScriptedAgent(_tools, replay="until_tool"),
    "never": ScriptedAgent(_slow, replay="never"),
}
_BY_LETTER = {name[0]: name for name in AGENTS}


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is started."""

    location: str
    address: str
    agent: str = "mixed"
    point: str | None = None
    nth: int = 1
    # At the point the store goes away for so many seconds, and the gateway lives on. If it does so for any time at all, then
    # until the gateway has let go of everything, however slow the machine is. 0: that one call fails.
    outage: float | None = None
    # At the point it is stopped until it gets SIGCONT, instead of killed.
    sleeps: bool = False
    # The name under which it holds leases.
    owner: str | None = None
    # The seconds of a lease.
    lease: float = 1.0
    # Whether it is the only gateway on its database; on a server that can't be known.
    is_alone: bool = False
    # A file that its log goes to.
    log: str | None = None


def kind_of(user: str, agent: str = "mixed") -> str:
    """Which of the agents answers somebody."""
    return _BY_LETTER.get(user[:1], "slow") if agent == "mixed" else agent


def start(child: Child) -> BaseProcess:
    """A process that runs a gateway. It ends when this one does."""
    context = multiprocessing.get_context("forkserver")
    # With what is otherwise imported when it is first needed.
    context.set_forkserver_preload([__name__, "structlog", "threadline.store.postgres"])
    process = context.Process(target=run, args=(child,), daemon=True)
    process.start()
    return process


def run(child: Child) -> None:
    """Runs a gateway until the process is killed, or nobody is there any more who could."""
    if child.log is not None:
        logging.basicConfig(filename=child.log, level=logging.INFO)
        logging.root.handlers[0].setFormatter(EventFormatter())
    asyncio.run(_run(child))


async def _run(child: Child) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        asyncio.get_running_loop().add_reader(parent.sentinel, os._exit, 1)
    trigger = Trigger(child.point, nth=child.nth, act=_act_of(child), seconds=child.outage or 0.0)
    store = await CrashingStore.open(child.location)
    store.trigger = trigger
    platform = ScriptedPlatform(child.address, capabilities=ALL_CAPABILITIES)
    everyone = AccessRules(answer_groups=frozenset({"*"}), guests=frozenset(_people()))
    gateway = Gateway(store, _settings(child), everyone, [CrashingPlatform(platform, trigger)])
    trigger.goes_on = lambda: bool(gateway.turns.held or gateway.outbox.flying)
    await gateway.start(alone=child.is_alone)
    await gateway.wait_for_platforms()


def _act_of(child: Child) -> Act:
    if child.outage is not None:
        return lose_store
    return fall_asleep if child.sleeps else die


def _settings(child: Child) -> GatewaySettings:
    values: dict[str, Any] = {
        "owner": child.owner or new_owner("serve"),
        "agent_for": lambda source: _agent_for(child, source),
        "split": lambda text, can: split(text, can.max_length, can.length_unit),
        "plain": plain,
        "when_busy": "queue",
        "burst_seconds": 0.0,
        "poll_seconds": 0.1,
        "lease_seconds": child.lease,
        "stream_after_seconds": 0.05,
        "turns_at_once": 64,
        "turns_per_platform": 64,
        "queue_per_session": 1000,
        "welcome": False,
    }
    return GatewaySettings(**values)


def _agent_for(child: Child, source: SessionSource) -> tuple[str, Agent]:
    return "main", AGENTS[kind_of(source.user_id or "", child.agent)]


def _people() -> list[str]:
    """Everyone whom a test lets speak: a letter and a number."""
    return [f"scripted:{letter}{number}" for letter in _BY_LETTER for number in range(200)]


if __name__ == "__main__":
    location, address, agent, *point = sys.argv[1:]
    run(Child(location=location, address=address, agent=agent, point=" ".join(point) or None))
