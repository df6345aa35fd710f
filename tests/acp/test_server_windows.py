"""One session open in two windows: the one that is spoken in does all, and nobody is answered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.acp.editor_world import CWD, RpcFailure, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.ports.agent import AskPermission, Event, Text, Turn
from threadline.testing.agents import ScriptedAgent

ASK = AskPermission(ask_id="c1", tool="shell")


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
