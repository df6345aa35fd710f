"""Questions of the agent, put to the person in the editor: the turn waits for their word inside the same prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.acp.editor_world import CWD, Editor, RpcFailure, chosen, opened
from tests.gateway.world import awaited

from threadline.ports.agent import AskPermission, Event, Text, ToolCall, ToolResult, Turn
from threadline.testing.agents import ScriptedAgent

ASK = AskPermission(ask_id="c1", tool="shell", arguments='{"command": "rm notes"}', reason="They are old.")


async def _asks(turn: Turn) -> AsyncIterator[Event]:
    if turn.text != "go":
        yield Text(f"to {turn.text}")
        return
    if not turn.so_far:
        yield Text("first ")
    allowed = turn.permitted(ASK)
    if allowed is None:
        yield ASK
        return
    if allowed:
        yield ToolCall("c1", "shell", ASK.arguments)
        yield ToolResult("c1", "gone")
    yield Text("done" if allowed else "left it")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/threadline.db"


def asked(heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message["params"] for message in heard if message.get("method") == "session/request_permission"]


@pytest.mark.parametrize(
    ("kind", "words"), [("allow_once", ["first ", "done"]), ("reject_once", ["first ", "left it"])]
)
@awaited
async def test_a_person_decides_and_the_turn_goes_on(location: str, kind: str, words: list[str]) -> None:
    async with opened(location, ScriptedAgent(_asks)) as editor:

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return chosen(params, kind)

        editor.decide = decide
        session = await editor.new()
        answer = await editor.said(session, "go")
        assert answer["stopReason"] == "end_turn"
        assert editor.texts() == words
        (question,) = asked(editor.heard)
        assert question["sessionId"] == session
        assert question["toolCall"]["title"] == "shell"
        assert question["toolCall"]["rawInput"] == {"command": "rm notes"}
        assert [option["kind"] for option in question["options"]] == ["allow_once", "reject_once"]
        told = await editor.load(session)
        assert "".join(u["content"]["text"] for u in told if u["sessionUpdate"] == "agent_message_chunk") == "".join(
            words
        )


@awaited
async def test_what_is_not_clearly_a_yes_is_a_no(store: str) -> None:
    outcomes: list[dict[str, Any]] = [{"outcome": "cancelled"}, {"outcome": "selected", "optionId": "made up"}, {}]
    async with opened(store, ScriptedAgent(_asks)) as editor:

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return outcomes.pop()

        editor.decide = decide
        session = await editor.new()
        while outcomes:
            before = len(editor.updates)
            await editor.said(session, "go")
            assert editor.texts(since=before)[-1] == "left it"


@pytest.mark.parametrize(("mode", "last"), [("allow", "done"), ("deny", "left it")])
@awaited
async def test_a_mode_answers_without_asking_and_is_kept(store: str, mode: str, last: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        session = await editor.new()
        await editor.call("session/set_mode", sessionId=session, modeId=mode)
        told = [u for u in editor.updates if u["sessionUpdate"] == "config_option_update"]
        assert told[-1]["configOptions"][0]["currentValue"] == mode
        await editor.said(session, "go")
        assert asked(editor.heard) == []
        assert editor.texts()[-1] == last
    async with opened(store, ScriptedAgent(_asks)) as editor:
        answer = await editor.call("session/resume", sessionId=session, cwd=CWD)
        assert answer["modes"]["currentModeId"] == mode
        assert answer["configOptions"][0]["currentValue"] == mode
        await editor.said(session, "go")
        assert asked(editor.heard) == []


@awaited
async def test_a_mode_can_be_chosen_as_an_option_and_unknown_ones_are_refused(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        session = await editor.new()
        answer = await editor.call("session/set_config_option", sessionId=session, configId="mode", value="deny")
        assert answer["configOptions"][0]["currentValue"] == "deny"
        assert [u["currentModeId"] for u in editor.updates if u["sessionUpdate"] == "current_mode_update"] == ["deny"]
        for method, params in (
            ("session/set_mode", {"modeId": "yolo"}),
            ("session/set_config_option", {"configId": "mode", "value": "yolo"}),
            ("session/set_config_option", {"configId": "mode", "value": True, "type": "boolean"}),
            ("session/set_config_option", {"configId": "colour", "value": "red"}),
            ("session/set_config_option", {"configId": "model", "value": "gpt"}),
        ):
            with pytest.raises(RpcFailure) as refused:
                await editor.call(method, sessionId=session, **params)
            assert refused.value.code == -32602


@awaited
async def test_cancel_while_a_question_is_open_ends_it(location: str) -> None:
    async with opened(location, ScriptedAgent(_asks)) as editor:
        answers: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return await answers

        editor.decide = decide
        session = await editor.new()
        waiting = editor.prompt(session, "go")
        await editor.until(lambda: asked(editor.heard))
        editor.tell("session/cancel", sessionId=session)
        assert (await asyncio.wait_for(waiting, 3))["stopReason"] == "cancelled"
        answers.set_result({"outcome": "cancelled"})
        assert (await editor.said(session, "next"))["stopReason"] == "end_turn"
        assert editor.texts() == ["first ", "to next"]
        assert await editor.store.approvals.find_open(session) is None


@awaited
async def test_a_question_that_nobody_can_answer_any_more_does_not_block_the_next_prompt(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        editor.decide = _never
        session = await editor.new()
        editor.prompt(session, "go").add_done_callback(lambda done: done.exception())
        await editor.until(lambda: asked(editor.heard))
    async with opened(store, ScriptedAgent(_asks)) as editor:
        told = await editor.load(session)
        assert [u["content"]["text"] for u in told] == ["go", "first "]
        assert (await editor.said(session, "next"))["stopReason"] == "end_turn"
        assert editor.texts()[-1] == "to next"


@awaited
async def test_an_answer_is_not_lost_where_it_can_not_be_taken_at_once(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        bridge = editor.server.platform._bridge
        door = bridge.accept

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            bridge.accept = None
            asyncio.get_running_loop().call_later(0.3, setattr, bridge, "accept", door)
            return chosen(params, "allow_once")

        editor.decide = decide
        session = await editor.new()
        assert (await editor.said(session, "go"))["stopReason"] == "end_turn"
        assert editor.texts() == ["first ", "done"]


@awaited
async def test_an_answer_that_nobody_took_does_not_cost_the_next_command_its_own(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        bridge = editor.server.platform._bridge
        door = bridge.accept
        decided = asyncio.Event()

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            bridge.accept = None
            decided.set()
            return chosen(params, "allow_once")

        editor.decide = decide
        session = await editor.new()
        answer = editor.prompt(session, "go")
        await decided.wait()
        # The answer has to be there, and to have found the door closed.
        await asyncio.sleep(0.2)
        editor.tell("session/cancel", sessionId=session)
        assert (await answer)["stopReason"] == "cancelled"
        bridge.accept = door
        before = len(editor.updates)
        await editor.said(session, "/help")
        assert "/undo" in "".join(editor.texts(since=before))


@awaited
async def test_a_question_is_withdrawn_with_its_prompt(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        editor.decide = _never
        session = await editor.new()
        answer = editor.prompt(session, "go")
        await editor.until(lambda: asked(editor.heard))
        (question,) = [message for message in editor.heard if message.get("method") == "session/request_permission"]
        editor.tell("$/cancel_request", requestId=3)
        assert (await answer)["stopReason"] == "cancelled"
        await editor.until(lambda: [message for message in editor.heard if message.get("method") == "$/cancel_request"])
        (withdrawn,) = [message for message in editor.heard if message.get("method") == "$/cancel_request"]
        assert withdrawn["params"] == {"requestId": question["id"]}
        assert (await editor.said(session, "next"))["stopReason"] == "end_turn"


async def _never(_params: dict[str, Any]) -> dict[str, Any]:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def states(editor: Editor, call_id: str) -> list[str]:
    """What was told of a call, one status after the other, with the question among them."""
    told: list[dict[str, Any]] = []
    for message in editor.heard:
        if message.get("method") == "session/request_permission":
            told.append(message["params"]["toolCall"])
        elif message.get("method") == "session/update":
            told.append(message["params"]["update"])
    return [one.get("status", "pending") for one in told if one.get("toolCallId") == call_id]


@pytest.mark.parametrize(("kind", "last"), [("allow_once", "completed"), ("reject_once", "failed")])
@awaited
async def test_a_question_that_stands_for_itself_is_over_with_its_answer(store: str, kind: str, last: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.permitted(ASK) is None:
            yield ASK
        else:
            yield Text("done")

    async with opened(store, ScriptedAgent(script)) as editor:

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return chosen(params, kind)

        editor.decide = decide
        session = await editor.new()
        await editor.said(session, "go")
        (question,) = asked(editor.heard)
        assert states(editor, question["toolCall"]["toolCallId"]) == ["pending", last]
        assert editor.texts() == ["done"]


@pytest.mark.parametrize("mode", ["ask", "deny"])
@pytest.mark.parametrize("has_result", [True, False])
@awaited
async def test_a_call_that_is_not_allowed_has_failed(store: str, mode: str, *, has_result: bool) -> None:
    call = ToolCall("c1", "shell", ASK.arguments, is_asked=True)
    question = msgspec.structs.replace(ASK, call=call)

    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.permitted(question) is None:
            yield call
            yield question
            return
        if has_result:
            yield ToolResult("c1", "not allowed", is_error=True)
        yield Text("left it")

    async with opened(store, ScriptedAgent(script)) as editor:

        async def decide(params: dict[str, Any]) -> dict[str, Any]:
            return chosen(params, "reject_once")

        editor.decide = decide
        session = await editor.new()
        await editor.call("session/set_mode", sessionId=session, modeId=mode)
        await editor.said(session, "go")
        told = states(editor, "c1")
        assert told == (["pending", "pending", "failed"] if mode == "ask" else ["pending", "failed"])
        assert editor.texts() == ["left it"]


@awaited
async def test_of_a_question_that_was_cancelled_nothing_more_is_told(store: str) -> None:
    async with opened(store, ScriptedAgent(_asks)) as editor:
        editor.decide = _never
        session = await editor.new()
        waiting = editor.prompt(session, "go")
        await editor.until(lambda: asked(editor.heard))
        editor.tell("session/cancel", sessionId=session)
        assert (await waiting)["stopReason"] == "cancelled"
        await editor.said(session, "next")
        (question,) = asked(editor.heard)
        assert states(editor, question["toolCall"]["toolCallId"]) == ["pending"]
