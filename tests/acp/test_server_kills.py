"""An agent that is killed at any point of a turn: the editor sees again all that it had seen, and the next prompt works.

All that it had seen, whatever the agent declares: an editor is told nothing that is not stored, and a turn whose person has seen it
break off is closed with what it had said. It is not run again, not even by a `safe` agent, whose other words would replace those.
"""

from __future__ import annotations

import asyncio
import base64
import random
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.acp.editor_world import AgentGone, chosen
from tests.acp.piped import Piped, child
from tests.acp.screen import Update, parts, screen, turns_of
from tests.system.seeds import seeded, soak_count

from threadline.model.turn import Replay

KILLS = 20
AT_ONCE = 5
STORED = ("accept", "claim", "journal", "tool", "ask", "take", "receipt", "finish")
# How often a point is passed in a turn, where that is more than once.
PASSED = {"journal": 7, "tool": 3, "claim": 2, "accept": 2}
# Not a point of the store: the question stands on the screen.
ASKED = "asked"
POINTS = [f"{when} {what}" for what in STORED for when in ("before", "after")] + [ASKED]
PICTURE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"a picture").decode()}


class Chain:
    """One session, whose agent dies again and again in the middle of an answer."""

    def __init__(self, location: str, chance: random.Random, counts: Counter[str], first: int) -> None:
        """`first`: after so many updates its first agent, a `safe` one, is killed. `counts` takes each kill."""
        self._location = location
        self._first = first
        self._chance = chance
        self._counts = counts
        self._session = ""
        # What the editor has seen, turn by turn; and what it has said that may have been stored without an answer.
        self._seen: list[list[Update]] = []
        self._unheard: list[Update] = []

    async def killed(self, kills: int) -> None:
        """Until it was killed as often as that."""
        done = number = 0
        while done < kills:
            number += 1
            # It may die at any time, also while it closes what the one before it left behind.
            with suppress(AgentGone):
                done += await self._kill(f"p{number}")
            await self._goes_on(f"n{number}" if number % 2 == 0 else None)

    async def _kill(self, text: str) -> bool:
        """Whether the agent died while it answered. A point that is not passed kills nobody."""
        chance, replay = self._chance, self._chance.choice(get_args(Replay))
        point = chance.choice(POINTS) if chance.random() < 0.75 else ""
        nth = chance.randint(1, PASSED.get(point.partition(" ")[2], 1))
        most = None if point else chance.randint(1, 16)
        if not self._session:
            # What a safe agent has said last, and nothing after it has brought to disk.
            replay, point, most = "safe", "", self._first
        async with Piped(child(self._location, "" if point == ASKED else point, nth, replay)) as editor:
            self._decide(editor, is_fatal=point == ASKED)
            if self._session:
                await self._look_again(editor)
            else:
                self._session = await editor.new()
            if most is not None:
                start = len(editor.updates)
                editor.after = lambda: editor.agent.kill() if len(editor.updates) >= start + most else None
            is_killed = await self._prompt(editor, text)
        if is_killed:
            self._counts[f"{replay}, {point or 'while it is told'}"] += 1
        return is_killed

    def _decide(self, editor: Piped, *, is_fatal: bool) -> None:
        """Lets the editor answer questions with yes or no; or the agent dies while one is on the screen."""
        kind = self._chance.choice(["allow_once", "allow_once", "reject_once"])

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            if is_fatal:
                editor.agent.kill()
            return chosen(params, kind)

        editor.decide = decide

    async def _prompt(self, editor: Piped, text: str) -> bool:
        """Says something, and notes what is told then; whether the agent died of it."""
        blocks = [{"type": "text", "text": text}, *([PICTURE] if self._chance.random() < 0.3 else [])]
        start = len(editor.updates)
        try:
            answer = await asyncio.wait_for(editor.prompt(self._session, *blocks), 30)
        except AgentGone:
            return True
        else:
            assert answer["stopReason"] == "end_turn"
            return False
        finally:
            self._note(text, blocks, parts(editor.updates[start:]))

    def _note(self, text: str, blocks: list[dict[str, Any]], told: list[Update]) -> None:
        """What was told belongs to the turn that had asked and now goes on, until the new one begins with its own thoughts."""
        own = next((place for place, update in enumerate(told) if _begins(update, text)), len(told))
        if own:
            self._seen[-1] = [*self._seen[-1], *told[:own]]
        asked = [{"sessionUpdate": "user_message_chunk", "content": block} for block in blocks]
        if own < len(told):
            self._seen.append(asked + told[own:])
        else:
            self._unheard = asked

    async def _goes_on(self, text: str | None) -> None:
        """Another agent, which nobody kills, shows all that was seen and answers what is said next."""
        async with Piped(child(self._location, replay=self._chance.choice(get_args(Replay)))) as editor:
            self._decide(editor, is_fatal=False)
            await self._look_again(editor)
            if text is not None:
                assert not await self._prompt(editor, text)
                assert screen(self._seen[-1]).items[-1][1].endswith(f"end {text}.\n")
                await self._look_again(editor)
            await editor.stop()

    async def _look_again(self, editor: Piped) -> None:
        """Loads the session: each turn that was seen is there, in its place, and no other but one that was not answered yet."""
        now = turns_of(await editor.load(self._session))
        shown, seen = [screen(turn) for turn in now], [screen(turn) for turn in self._seen]
        if len(shown) > len(seen) and self._unheard:
            seen.append(screen(self._unheard))
        assert len(shown) == len(seen), ([one.asked for one in shown], [one.asked for one in seen])
        for one, other in zip(shown, seen, strict=True):
            assert one.covers(other), f"{one.__dict__}\n\nafter\n\n{other.__dict__}"
        self._seen, self._unheard = now, []


def _begins(update: Update, text: str) -> bool:
    said = str(update.get("content"))
    return update["sessionUpdate"] == "agent_thought_chunk" and f"thinking of {text} " in said


async def _in_chains(folder: Path, kills: int, chance: random.Random) -> None:
    seeds = [random.Random(chance.randrange(1 << 32)) for _ in range(AT_ONCE)]
    share, counts = -(-kills // AT_ONCE), Counter[str]()
    async with asyncio.TaskGroup() as group:
        for number, own in enumerate(seeds):
            chain = Chain(f"sqlite://{folder}/{number}.db", own, counts, first=1 + number % 3)
            group.create_task(chain.killed(share))
    sys.stdout.write("".join(f"{count:6} {what}\n" for what, count in sorted(counts.items())))
    assert counts.total() >= kills


def test_a_turn_passes_every_point_at_which_an_agent_is_killed(tmp_path: Path) -> None:
    async def passed() -> set[str]:
        async with Piped(child(f"sqlite://{tmp_path}/0.db")) as editor:
            await editor.prompt(await editor.new(), {"type": "text", "text": "p1"})
            await editor.stop()
        return {line.removeprefix("passed ") for line in editor.log.decode().splitlines()}

    assert set(POINTS) - {ASKED} - asyncio.run(passed()) == set()


def test_a_killed_agent_leaves_all_that_its_editor_saw(tmp_path: Path) -> None:
    asyncio.run(_in_chains(tmp_path, KILLS, seeded("kills of an editor's agent")))


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_killed_agents_for_a_long_time(tmp_path: Path) -> None:
    asyncio.run(_in_chains(tmp_path, soak_count(), seeded("kills of an editor's agent")))
