"""An agent behind ours: the scripted program, in a folder of its own, and what it has noted of what it was told."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from threadline.agents.acp import AcpAgent
from threadline.agents.acp.settings import AcpLimits
from threadline.agents.registry import AgentSetup
from threadline.ports.agent import Event, Remember, Turn
from threadline.testing.contracts.agents import PATIENCE, a_turn, events_of

T = TypeVar("T")

SCRIPT = Path(__file__).parent / "scripted_agent.py"
QUICK = AcpLimits(start=20.0, call=20.0, cancel=0.5, end=0.3, longest_restart_pause=60.0)


class World:
    """One agent of the kind, and the folder of its program."""

    def __init__(self, folder: Path, **setup: Any) -> None:
        self.folder = folder
        self.setup = setup
        self.settings: dict[str, Any] = {}
        self.environment: dict[str, str] = {"PATH": os.environ["PATH"]}
        self.limits = QUICK

    def agent(self, **setup: Any) -> AcpAgent:
        """The agent, with a program that can do what `setup` says."""
        asked = json.dumps({"folder": str(self.folder), **self.setup, **setup})
        settings = AgentSetup(kind="acp", command=(sys.executable, str(SCRIPT), asked), **self.settings)
        return AcpAgent(settings, self.environment, self.folder / "people", self.limits)

    def log(self) -> list[tuple[str, Any]]:
        """What the program was told and has noted, over all its runs."""
        path = self.folder / "log"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def told(self, what: str) -> list[Any]:
        """Everything that was noted under that name."""
        return [value for name, value in self.log() if name == what]

    async def noted(self, what: str, times: int = 1) -> Any:
        """The first value under that name, once there are so many."""
        async with asyncio.timeout(PATIENCE):
            while len(found := self.told(what)) < times:  # noqa: ASYNC110 - another process tells, by a file
                await asyncio.sleep(0.01)
        return found[0]


def run(agent: AcpAgent, work: Coroutine[Any, Any, T]) -> T:
    """The outcome of the work; the agent is closed with it, and nothing of it is left."""

    async def closing() -> T:
        try:
            async with asyncio.timeout(PATIENCE):
                return await work
        finally:
            await agent.close()

    return asyncio.run(closing())


async def answered(agent: AcpAgent, text: str, **more: Any) -> list[Event]:
    """All events of a turn that says this."""
    return await events_of(agent, a_turn(text, **more))


def memory_in(events: list[Event]) -> str:
    """What the agent is to be given with its next turn."""
    (memory,) = [event.text for event in events if isinstance(event, Remember)]
    return memory


def talk(*said: str) -> list[dict[str, Any]]:
    """A history of these, by a person and an agent in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no mere entry in the table."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pid: int) -> None:
    """Returns when that process is no more."""
    async with asyncio.timeout(PATIENCE):
        while is_alive(pid):  # noqa: ASYNC110 - it is nobody's child here
            await asyncio.sleep(0.01)


async def stepped(agent: AcpAgent, turn: Turn) -> tuple[list[Event], Any]:
    """The events of a run up to and including its first text, and the run, which goes on."""
    answer: Any = agent.run(turn)
    events = []
    while True:
        event = await anext(answer)
        events.append(event)
        if getattr(event, "text", "") == "begun":
            return events, answer
