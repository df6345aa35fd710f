"""An agent that is killed at any point of a turn: the editor sees again all that it had seen, and the next prompt works."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import AgentGone
from tests.acp.piped import Piped, child
from tests.system.seeds import seeded, soak_count

KILLS = 20
AT_ONCE = 3
POINTS = [f"{when} {what}" for what in ("accept", "claim", "journal", "tool", "finish") for when in ("before", "after")]


class Seen:
    """What somebody in front of an editor has seen of a session."""

    def __init__(self, updates: list[dict[str, Any]]) -> None:
        self.said = _joined(updates, "agent_message_chunk")
        self.thought = _joined(updates, "agent_thought_chunk")
        self.heard = _joined(updates, "user_message_chunk")
        self.calls: Counter[str] = Counter()
        self.results: dict[str, Any] = {}
        self.plans = 0
        for update in updates:
            if update["sessionUpdate"] == "tool_call":
                self.calls[update["toolCallId"]] += 1
            elif update["sessionUpdate"] == "tool_call_update":
                self.results[update["toolCallId"]] = (update["status"], update["content"])
            elif update["sessionUpdate"] == "plan":
                self.plans += 1

    def covers(self, before: Seen, live: Seen) -> bool:
        """Whether this replay has all that an earlier one and what came after it had, in its order, and each call once."""
        results = before.results | live.results
        return (
            self.said.startswith(before.said + live.said)
            and self.thought.startswith(before.thought + live.thought)
            and self.heard.startswith(before.heard)
            and self.calls.keys() >= before.calls.keys() | live.calls.keys()
            and max(self.calls.values(), default=1) == 1
            and all(self.results[call] == result for call, result in results.items())
            and self.plans >= before.plans + live.plans
        )


def _joined(updates: list[dict[str, Any]], kind: str) -> str:
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == kind)


class Chain:
    """One session, whose agent dies again and again in the middle of an answer."""

    def __init__(self, location: str, chance: random.Random) -> None:
        self._location = location
        self._chance = chance
        self._session = ""
        self._before = Seen([])
        self._live = Seen([])

    async def killed(self, kills: int) -> None:
        """Until it was killed as often as that."""
        done = number = 0
        while done < kills:
            number += 1
            self._live = Seen([])
            # It may die at any time, also while it closes what the one before it left behind.
            with suppress(AgentGone):
                done += await self._kill(f"p{number}")
            await self._goes_on(f"n{number}" if number % 2 == 0 else None)

    async def _kill(self, text: str) -> bool:
        """Whether the agent died while it answered. A point that is not passed kills nobody."""
        chance = self._chance
        point = chance.choice(POINTS) if chance.random() < 0.7 else ""
        nth = chance.randint(1, 6) if point.endswith("journal") else chance.randint(1, 2) if "tool" in point else 1
        async with Piped(child(self._location, point, nth)) as editor:
            if self._session:
                await self._look_again(editor)
            else:
                self._session = await editor.new()
            most = None if point else chance.randint(1, 14)
            self._live, is_killed = await prompted(editor, self._session, text, most)
        return is_killed

    async def _goes_on(self, text: str | None) -> None:
        """Another agent, which nobody kills, shows all that was seen and answers what is said next."""
        async with Piped(child(self._location)) as editor:
            await self._look_again(editor)
            if text is not None:
                start = len(editor.updates)
                assert (await editor.said(self._session, text))["stopReason"] == "end_turn"
                assert _joined(editor.updates[start:], "agent_message_chunk").endswith(f"end {text}.\n")
                await self._look_again(editor)
            await editor.stop()

    async def _look_again(self, editor: Piped) -> None:
        now = Seen(await editor.load(self._session))
        assert now.covers(self._before, self._live), (now.__dict__, self._before.__dict__, self._live.__dict__)
        self._before, self._live = now, Seen([])


async def prompted(editor: Piped, session: str, text: str, most: int | None) -> tuple[Seen, bool]:
    """What is told in answer to a prompt until the agent dies, or until so many updates were told; whether it died."""
    start = len(editor.updates)
    if most is not None:
        editor.after = lambda: editor.agent.kill() if len(editor.updates) >= start + most else None
    try:
        await asyncio.wait_for(editor.prompt(session, text), 20)
    except AgentGone:
        return Seen(editor.updates[start:]), True
    return Seen(editor.updates[start:]), False


async def _in_chains(folder: Path, kills: int, chance: random.Random) -> None:
    seeds = [random.Random(chance.randrange(1 << 32)) for _ in range(AT_ONCE)]
    share = -(-kills // AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for number, own in enumerate(seeds):
            group.create_task(Chain(f"sqlite://{folder}/{number}.db", own).killed(share))


def test_a_killed_agent_leaves_all_that_its_editor_saw(tmp_path: Path) -> None:
    asyncio.run(_in_chains(tmp_path, KILLS, seeded("kills of an editor's agent")))


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_killed_agents_for_a_long_time(tmp_path: Path) -> None:
    asyncio.run(_in_chains(tmp_path, soak_count(), seeded("kills of an editor's agent")))
