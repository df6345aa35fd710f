"""Whatever an editor writes: every request is answered once, nothing breaks, and whoever means well is served after it."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import CWD
from tests.acp.fuzzed_editor import ANSWERS, FuzzedEditor, fuzzed
from tests.acp.fuzzed_requests import REQUESTS
from tests.system.seeds import seeded, soak_count

from threadline.rpc.acp import METHODS
from threadline.rpc.connection import INTERNAL
from threadline.rpc.envelope import NOT_FOUND
from threadline.texts import editors as texts

TALKS = 14
STEPS = 90
# More than a page of the list has.
SESSIONS = 55
# What this agent never does for anybody.
REFUSED = {"authenticate", "logout", "session/set_model"}
# How often at least each of these happens in a run: a fuzz that stops at the door says nothing about what is behind it.
REACHED = {
    **{f"{method} done": 3 for method in REQUESTS.keys() - REFUSED},
    **{f"{method} refused": 1 for method in REQUESTS.keys() - {"initialize"}},
    **{f"question: {kind}": 1 for kind in ANSWERS},
    "session/prompt done": 60,
    "session/load done": 20,
    "session/fork done": 10,
    "prompt: end_turn": 30,
    "prompt: cancelled by session/cancel": 12,
    "prompt: cancelled by $/cancel_request": 12,
    "list from a cursor": 5,
    "garbage refused": 10,
}


async def _talk(location: str, chance: random.Random, counts: Counter[str]) -> None:
    async with fuzzed(location, random.Random(chance.random()), counts) as editor:
        await _look_around(editor)
        # Each step has a source of chance of its own: what one draws does not depend on how fast the one before was answered.
        for own in [random.Random(chance.random()) for _ in range(STEPS)]:
            editor.step(own)
            await asyncio.sleep(own.choice([0, 0, 0, 0.005, 0.01, 0.03]))
        await _come_to_rest(editor, chance)
        await _mean_well(editor)
        assert editor.answered == editor.asked
        assert [failure for failure in editor.failures if _is_ours(failure)] == []


async def _look_around(editor: FuzzedEditor) -> None:
    """Learns which sessions there are, and begins one."""
    editor.request("session/list", {})
    editor.request("session/new", {"cwd": CWD, "mcpServers": []})
    await editor.answered_all(20)
    listed = next(message["result"]["sessions"] for message in editor.heard if "sessions" in message.get("result", {}))
    editor.known.far = [one["sessionId"] for one in listed if one["sessionId"] not in editor.known.near]


async def _come_to_rest(editor: FuzzedEditor, chance: random.Random) -> None:
    """Waits for what ends by itself, and cancels the rest in one way or the other: nothing else would end it."""
    await editor.answered_all(15, but_endless=True)
    by_session = chance.random() < 0.5
    for one, session in editor.open_prompts.items():
        if by_session:
            editor.cancel_session(chance, session)
        else:
            editor.cancel_request(chance, one)
    await editor.answered_all(15)


async def _mean_well(editor: FuzzedEditor) -> None:
    """A plain prompt in a new session is answered, and so is one in a session that was fuzzed."""
    editor.request("session/new", {"cwd": CWD, "mcpServers": []})
    await editor.answered_all(15)
    for session in {editor.known.near[-1], editor.known.near[0]}:
        own = editor.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]})
        await editor.answered_all(15)
        answer = _answer_to(editor, own)
        if session != editor.known.near[-1] and answer.get("error", {}).get("code") == NOT_FOUND:
            # The fuzzing has deleted it.
            continue
        assert answer.get("result", answer).get("stopReason") == "end_turn"
        said = editor.updates_of(session)
        assert any(one.get("content") == {"type": "text", "text": "You said hello. "} for one in said)


def _answer_to(editor: FuzzedEditor, own: object) -> dict[str, Any]:
    return next(one for one in reversed(editor.heard) if "method" not in one and one["id"] == own)


def _is_ours(failure: dict[str, Any]) -> bool:
    """Whether it is a mistake of our own that an editor was told of."""
    return failure["code"] == INTERNAL and ("went wrong" in failure["message"] or failure["message"] == texts.FAILED)


async def _fill(location: str) -> None:
    async with fuzzed(location, random.Random(0), Counter()) as editor:
        for _ in range(SESSIONS):
            editor.request("session/new", {"cwd": CWD, "mcpServers": []})
        await editor.answered_all(60)


async def _talks(folder: Path, number: int, chance: random.Random) -> Counter[str]:
    location, counts = f"sqlite://{folder}/threadline.db", Counter[str]()
    await _fill(location)
    for _ in range(number):
        await asyncio.wait_for(_talk(location, random.Random(chance.random()), counts), 90)
    sys.stdout.write("".join(f"{count:6} {what}\n" for what, count in sorted(counts.items())))
    return counts


def test_the_fuzz_knows_every_request_that_an_agent_can_be_sent() -> None:
    asked = {method.name for method in METHODS.values() if method.side != "client" and method.kind == "request"}
    assert REQUESTS.keys() == asked


def test_every_request_of_a_fuzzed_editor_is_answered_once(tmp_path: Path) -> None:
    counts = asyncio.run(_talks(tmp_path, TALKS, seeded("fuzz of an editor")))
    assert {what: counts[what] for what, least in REACHED.items() if counts[what] < least} == {}


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_fuzzed_editors_for_a_long_time(tmp_path: Path) -> None:
    asyncio.run(_talks(tmp_path, soak_count(), seeded("fuzz of an editor")))
