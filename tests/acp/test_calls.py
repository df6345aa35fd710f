"""Every call has an id of its own in its session, whatever its agent calls it: as it runs, and whenever all is told again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import CWD, Opened, opened
from tests.gateway.world import awaited

from threadline.acp.translate import CallIds, RunningCalls
from threadline.ports.agent import AskPermission, Event, Text, ToolCall, ToolResult, Turn
from threadline.testing.agents import ScriptedAgent

ASK = AskPermission(ask_id="1", tool="remove")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/threadline.db"


async def _counts_anew(turn: Turn) -> AsyncIterator[Event]:
    for number in range(1, 3):
        yield ToolCall("1", "clock", title=f"{turn.text}.{number}")
        yield ToolResult("1", "12:00")
    yield Text("done")


def ids(updates: list[dict[str, Any]]) -> dict[str, str]:
    """The id of each call by its title. Each begins once, and ends before the next does."""
    started = [(u["title"], u["toolCallId"]) for u in updates if u["sessionUpdate"] == "tool_call"]
    ended = [u["toolCallId"] for u in updates if u["sessionUpdate"] == "tool_call_update" and u.get("content")]
    assert ended == [name for _, name in started]
    assert len(set(ended)) == len(ended)
    return dict(started)


async def tell(editor: Opened, session: str, *texts: str) -> dict[str, str]:
    start = len(editor.updates)
    for text in texts:
        await editor.said(session, text)
    return ids(editor.updates[start:])


@awaited
async def test_an_id_that_was_used_before_is_another_one_and_the_same_when_all_is_told_again(location: str) -> None:
    async with opened(location, ScriptedAgent(_counts_anew)) as editor:
        session = await editor.new()
        live = await tell(editor, session, "a", "b", "c")
        assert list(live.values()) == ["1", "1~2", "1~3", "1~4", "1~5", "1~6"]
        assert ids(await editor.load(session)) == live
        more = await tell(editor, session, "d")
        assert not set(more.values()) & set(live.values())
    async with opened(location, ScriptedAgent(_counts_anew)) as editor:
        assert ids(await editor.load(session)) == live | more
        last = await tell(editor, session, "e")
        assert ids(await editor.load(session)) == live | more | last


@pytest.mark.parametrize("how", ["session/resume", "session/fork", "session/prompt"])
@awaited
async def test_who_goes_on_without_a_replay_gets_ids_that_nobody_had(store: str, how: str) -> None:
    async with opened(store, ScriptedAgent(_counts_anew)) as editor:
        session = await editor.new()
        known = await tell(editor, session, "a")
    for text in ("b", "c"):
        async with opened(store, ScriptedAgent(_counts_anew)) as editor:
            if how != "session/prompt":
                answer = await editor.call(how, sessionId=session, cwd=CWD, mcpServers=[])
                session = answer.get("sessionId", session)
            more = await tell(editor, session, text)
            assert not set(more.values()) & set(known.values())
            known |= more
            again = ids(await editor.load(session))
            assert again.keys() == known.keys()
            after = await tell(editor, session, f"{text} on")
            assert not set(after.values()) & (set(known.values()) | set(again.values()))
            known |= after


@awaited
async def test_what_was_undone_leaves_its_ids_to_nobody(store: str) -> None:
    async with opened(store, ScriptedAgent(_counts_anew)) as editor:
        session = await editor.new()
        known = await tell(editor, session, "a", "b")
        await editor.said(session, "/undo")
        await editor.load(session)
        assert not set((await tell(editor, session, "c")).values()) & set(known.values())


@awaited
async def test_a_call_that_runs_keeps_its_id_when_all_is_told(store: str) -> None:
    go_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield ToolCall("1", "clock", title=turn.text)
        if turn.text == "b":
            await go_on.wait()
        yield ToolResult("1", turn.text)

    async with opened(store, ScriptedAgent(script)) as editor, opened(store, ScriptedAgent(script)) as other:
        session = await editor.new()
        await editor.said(session, "a")
        running = editor.prompt(session, "b")
        await editor.until(lambda: [u for u in editor.updates if u.get("title") == "b" and "toolCallId" in u])
        started = [u["toolCallId"] for u in await other.load(session) if u["sessionUpdate"] == "tool_call"]
        assert len(set(started)) == 2
        start = len(editor.updates)
        await editor.load(session)
        go_on.set()
        await running
        assert ids(editor.updates[start:]) == {"a": "1", "b": "1~2"}
        assert ids(await other.load(session)) == {"a": "1", "b": "1~2"}


@awaited
async def test_a_question_has_an_id_of_its_own(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.permitted(ASK) is None:
            yield ToolCall("1", "clock", title=turn.text)
            yield ToolResult("1", turn.text)
            yield ASK

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        assert await tell(editor, session, "a", "b") == {"a": "1", "b": "1~2"}
        asked = [m["params"]["toolCall"] for m in editor.heard if m.get("method") == "session/request_permission"]
        assert len({"1", "1~2", *(one["toolCallId"] for one in asked)}) == 4


@awaited
async def test_a_question_about_a_call_names_it_as_it_was_told(store: str) -> None:
    call = ToolCall("1", "remove", is_asked=True)
    about = AskPermission(ask_id="1", tool="remove", call=call)

    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.permitted(about) is None:
            yield call
            yield about
        else:
            yield ToolResult("1", "gone")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        for name in ("1", "1~2"):
            start = len(editor.heard)
            await editor.said(session, "go")
            told = [m["params"] for m in editor.heard[start:] if "params" in m]
            told = [one.get("toolCall") or one["update"] for one in told]
            named = [(one["toolCallId"], one.get("status", "pending")) for one in told if "toolCallId" in one]
            assert named == [(name, status) for status in ("pending", "pending", "in_progress", "completed")]


def test_names_are_given_once() -> None:
    names = CallIds(avoid={"1~3"})
    assert [names.assign(one) for one in ("1", "1~2", "1", "2", "1")] == ["1", "1~2", "1~4", "2", "1~5"]
    assert [CallIds(mark="t").assign("1") for _ in range(2)] == ["1~t", "1~t"]


def test_a_call_that_is_told_again_while_it_runs_is_the_same() -> None:
    names, calls = CallIds(), RunningCalls()
    assert [calls.start("1", names), calls.start("1", names), calls.end("1"), calls.end("1")] == ["1"] * 4
    assert [calls.start("1", names), calls.end("1"), calls.end("2")] == ["1~2", "1~2", None]
