"""An editor in front of another ACP agent: what that one tells and asks reaches the editor as what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import Opened, chosen, opened
from tests.agents.acp.world import World
from tests.gateway.world import awaited


@asynccontextmanager
async def in_front_of(world: World) -> AsyncIterator[tuple[Opened, str]]:
    """An editor with a session in a folder that is there."""
    agent = world.agent()
    try:
        async with opened(f"sqlite://{world.folder}/threadline.db", agent) as editor:
            made = await editor.call("session/new", cwd=str(world.folder), mcpServers=[])
            yield editor, made["sessionId"]
    finally:
        await agent.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def told_of(editor: Opened, call_id: str) -> list[dict[str, Any]]:
    """All that the editor was told of a call, questions included, in order."""
    told = []
    for message in editor.heard:
        params = message.get("params", {})
        shown = params.get("update") or params.get("toolCall") or {}
        if shown.get("toolCallId") == call_id:
            told.append(shown)
    return told


@pytest.mark.parametrize(("kind", "end"), [("allow_once", "completed"), ("reject_once", "failed")])
@awaited
async def test_a_question_is_about_the_call_that_was_told(world: World, kind: str, end: str) -> None:
    async with in_front_of(world) as (editor, session):

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return chosen(params, kind)

        editor.decide = decide
        for number in (1, 2):
            call_id = f"edit-{number}"
            assert (await editor.said(session, f"edit {call_id}"))["stopReason"] == "end_turn"
            started, asked, *ran, ended = told_of(editor, call_id)
            # What a call that is told for the first time does not say of itself is that it is pending.
            assert (started["sessionUpdate"], started.get("status", "pending")) == ("tool_call", "pending")
            assert (asked["title"], asked["kind"], asked["status"]) == ("Edit a.txt", "edit", "pending")
            assert asked["rawInput"] == {"path": "/a.txt", "old": "old", "new": "new"}
            assert asked["locations"] == [{"path": "/a.txt", "line": 3}]
            diff = {"type": "diff", "path": "/a.txt", "newText": "new", "oldText": "old"}
            assert asked["content"][0] == diff
            assert [one["status"] for one in ran] == (["in_progress"] if kind == "allow_once" else [])
            assert ended["status"] == end


@awaited
async def test_cancel_while_a_question_is_open_reaches_the_agent(world: World) -> None:
    async with in_front_of(world) as (editor, session):

        async def decide(_params: dict[str, Any]) -> dict[str, Any]:
            editor.tell("session/cancel", sessionId=session)
            return {"outcome": "cancelled"}

        editor.decide = decide
        assert (await editor.said(session, "ask"))["stopReason"] == "cancelled"
        assert await world.noted("outcome") == {"outcome": "cancelled"}
        await world.noted("session/cancel")
        assert (await editor.said(session, "hello"))["stopReason"] == "end_turn"
        assert "".join(editor.texts()).endswith("hello")
