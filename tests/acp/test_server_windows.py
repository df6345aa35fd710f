"""One session open in two windows: the one that is spoken in does all, and nobody is answered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.acp.editor_world import CWD, Opened, RpcFailure, chosen, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.ports.agent import AskPermission, Event, Text, Titled, Turn
from threadline.testing.agents import ScriptedAgent

ASK = AskPermission(ask_id="c1", tool="shell")
ASKS = "session/request_permission"


@awaited
async def test_a_prompt_waits_for_what_another_window_is_told(location: str) -> None:
    going_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half ")
        await going_on.wait()
        yield Text("whole")

    async with opened(location, ScriptedAgent(script)) as one, opened(location, EchoAgent(pause=0)) as other:
        session = await one.new()
        first = one.prompt(session, "first")
        await one.until(one.texts)
        told = await other.load(session)
        assert [update["content"]["text"] for update in told] == ["first", "half "]
        second = other.prompt(session, "second")
        await asyncio.sleep(0.3)
        assert not second.done()
        going_on.set()
        assert (await first)["stopReason"] == (await second)["stopReason"] == "end_turn"
        assert other.texts()[1:] == ["second"]
        assert one.texts() == ["half ", "whole"]


@awaited
async def test_a_window_that_waits_too_long_is_told_why(location: str) -> None:
    async with opened(location, ScriptedAgent()) as one, opened(location, EchoAgent(pause=0)) as other:
        session = await one.new()
        one.prompt(session, "first").add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0.2)
        await other.call("session/resume", sessionId=session, cwd=CWD)
        with pytest.raises(RpcFailure, match="another window"):
            await other.said(session, "second")
        one.tell("session/cancel", sessionId=session)
        assert (await other.said(session, "third"))["stopReason"] == "end_turn"
        assert "".join(other.texts()) == "third"


@awaited
async def test_prompts_in_turn_are_answered_where_they_were_said(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as one, opened(location, EchoAgent(pause=0)) as other:
        session = await one.new()
        await other.call("session/resume", sessionId=session, cwd=CWD)
        for number in range(6):
            editor, silent = (one, other) if number % 2 == 0 else (other, one)
            before, unheard = len(editor.updates), len(silent.texts())
            await editor.said(session, f"number-{number}")
            assert "".join(editor.texts(since=before)) == f"number-{number}"
            assert len(silent.texts()) == unheard


@awaited
async def test_a_question_is_put_in_the_window_that_asked(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        allowed = turn.permitted(ASK)
        if allowed is None:
            yield ASK
            return
        yield Text("yes" if allowed else "no")

    async with opened(location, ScriptedAgent(script)) as one, opened(location, ScriptedAgent(script)) as other:
        session = await one.new()
        await other.load(session)
        for _ in range(3):
            assert (await one.said(session, "go"))["stopReason"] == "end_turn"
        assert one.texts() == ["yes"] * 3
        assert not [message for message in other.heard if message.get("method") == "session/request_permission"]


@awaited
async def test_a_window_that_has_prompted_before_is_told_too(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half ")
        if turn.text == "long":
            await turn.cancelled.wait()

    async with opened(location, ScriptedAgent(script)) as one, opened(location, ScriptedAgent(script)) as other:
        session = await one.new()
        await other.said(session, "short")
        waiting = one.prompt(session, "long")
        await one.until(one.texts)
        await other.load(session)
        with pytest.raises(RpcFailure, match="another window"):
            await other.said(session, "short")
        one.tell("session/cancel", sessionId=session)
        assert (await waiting)["stopReason"] == "cancelled"


@awaited
async def test_a_question_that_another_window_shows_can_be_answered_there(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "go" and turn.permitted(ASK) is None:
            yield ASK
            return
        yield Text(f"to {turn.text}")

    async with opened(location, ScriptedAgent(script)) as one, opened(location, ScriptedAgent(script)) as other:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            await answer
            return chosen(params, "allow_once")

        one.decide = decide
        session = await one.new()
        first = one.prompt(session, "go")
        await one.until(lambda: [message for message in one.heard if message.get("method") == ASKS])
        await other.load(session)
        second = other.prompt(session, "next")
        await asyncio.sleep(0.5)
        assert not first.done()
        assert not second.done()
        answer.set_result(None)
        assert (await first)["stopReason"] == (await second)["stopReason"] == "end_turn"
        assert (one.texts(), other.texts()) == (["to go"], ["to next"])


async def _is_unknown(editor: Opened, session: str, text: str) -> None:
    """A prompt there is answered with what any request is that names no session, and nothing is begun."""
    with pytest.raises(RpcFailure) as elsewhere:
        await editor.call("session/load", sessionId="20260101_000000_000000000000", cwd=CWD, mcpServers=[])
    with pytest.raises(RpcFailure) as failed:
        await editor.said(session, text)
    assert (failed.value.code, failed.value.context) == (-32002, {"sessionId": session})
    assert failed.value.message == elsewhere.value.message.replace("20260101_000000_000000000000", session)
    assert editor.server.open_sessions.find(session) is None
    listed = (await editor.call("session/list"))["sessions"]
    assert session not in [one["sessionId"] for one in listed]


@pytest.mark.parametrize("text", ["hello", "/status", "/stop", "/new"])
@awaited
async def test_a_prompt_to_a_session_that_another_window_has_deleted_begins_no_other(location: str, text: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as one, opened(location, EchoAgent(pause=0)) as other:
        session = await one.new()
        await one.call("session/set_mode", sessionId=session, modeId="deny")
        await one.said(session, "first")
        assert await other.call("session/delete", sessionId=session) == {}
        await _is_unknown(one, session, text)
        await _is_unknown(one, session, text)
        assert await one.store.maintenance.list_messages("waiting") == []


@awaited
async def test_nor_does_one_to_a_session_that_was_deleted_by_a_command_line(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as one:
        session = await one.new()
        await one.said(session, "first")
        await one.store.delete_session(session)
        await _is_unknown(one, session, "hello")
        again = await one.new()
        assert (await one.said(again, "hello"))["stopReason"] == "end_turn"


@awaited
async def test_a_session_that_is_deleted_while_it_is_answered_does_not_come_back(location: str) -> None:
    going_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half ")
        await going_on.wait()
        yield Titled("A name")
        yield Text("whole")

    async with opened(location, ScriptedAgent(script)) as one, opened(location, EchoAgent(pause=0)) as other:
        session = await one.new()
        first = one.prompt(session, "first")
        await one.until(one.texts)
        await other.call("session/delete", sessionId=session)
        going_on.set()
        # What it says is told: somebody waits for it.
        assert (await first)["stopReason"] == "end_turn"
        assert one.texts() == ["half ", "whole"]
        await _is_unknown(one, session, "second")
        await _is_unknown(other, session, "second")


@awaited
async def test_a_session_that_is_deleted_while_it_asks_is_not_asked_about_any_more(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield ASK

    async def decide(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.2)
        return chosen(params, "allow_once")

    async with opened(location, ScriptedAgent(script)) as one, opened(location, EchoAgent(pause=0)) as other:
        one.decide = decide
        session = await one.new()
        first = one.prompt(session, "go")
        await one.until(lambda: [message for message in one.heard if message.get("method") == ASKS])
        await other.call("session/delete", sessionId=session)
        assert (await asyncio.wait_for(first, 10))["stopReason"] == "cancelled"
        await _is_unknown(one, session, "again")


@awaited
async def test_a_session_that_another_agent_went_on_with_goes_on_here_again(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as one:
        session = await one.new()
        await one.said(session, "first")
        opened_session = one.server.open_sessions.find(session)
        assert opened_session is not None
        held = await one.store.editor_sessions.find(opened_session.source, agent="another")
        assert (await one.said(session, "second"))["stopReason"] == "end_turn"
        told = await one.load(session)
        assert [update["content"]["text"] for update in told] == ["first", "first", "second", "second"]
        assert (await one.store.get_session(held.entry.session_id)).message_count == 4
