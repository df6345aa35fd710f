"""Prompts: what an editor says is answered once, in the gateway's own turns, and told as it happens."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import CWD, RpcFailure, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.ports.agent import (
    AgentError,
    ContextWindow,
    Diff,
    Event,
    Notice,
    Place,
    Plan,
    PlanStep,
    Text,
    Thought,
    Titled,
    ToolCall,
    ToolResult,
    Turn,
    UsageOf,
)
from threadline.testing.agents import ScriptedAgent

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A database of its own; what depends on the engine runs on both."""
    return f"sqlite://{tmp_path}/threadline.db"


def kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


@awaited
async def test_a_prompt_is_answered_in_pieces_and_then_ends(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        answer = await editor.said(session, "one two three")
        assert answer["stopReason"] == "end_turn"
        assert "".join(editor.texts()) == "one two three"
        entry = await editor.store.get_session(session)
        messages = await editor.store.load_transcript(entry.session_id)
        assert [(m["role"], m["content"]) for m in messages] == [
            ("user", "one two three"),
            ("assistant", "one two three"),
        ]


async def _all_sorts(turn: Turn) -> AsyncIterator[Event]:
    yield Thought("hm")
    yield Plan((PlanStep("look", "in_progress", "high"), PlanStep("write")))
    yield ToolCall("c1", "read_file", '{"path": "/a"}', "Read a", "read", (Place("/a", 3),))
    yield ToolResult("c1", "what a says")
    yield ToolCall("c2", "write_file", kind="edit")
    yield ToolResult("c2", "", diffs=(Diff("/a", "new", "old"), Diff("/b", "fresh")))
    yield ToolCall("c3", "shell")
    yield ToolResult("c3", "no such file", is_error=True)
    yield UsageOf(input_tokens=10, output_tokens=4, reasoning_tokens=1)
    yield UsageOf(input_tokens=1, output_tokens=2, cache_read_tokens=5)
    yield ContextWindow(500, 1000)
    yield Text("done")


@awaited
async def test_all_that_a_turn_does_is_told(location: str) -> None:
    async with opened(location, ScriptedAgent(_all_sorts)) as editor:
        session = await editor.new()
        answer = await editor.said(session, "go")
    told = {kind: [u for u in editor.updates if u["sessionUpdate"] == kind] for kind in kinds(editor.updates)}
    assert told["agent_thought_chunk"][0]["content"] == {"type": "text", "text": "hm"}
    assert told["plan"][0]["entries"] == [
        {"content": "look", "priority": "high", "status": "in_progress"},
        {"content": "write", "priority": "medium", "status": "pending"},
    ]
    started, ended = told["tool_call"], told["tool_call_update"]
    assert started[0]["title"] == "Read a"
    assert (started[0]["kind"], started[0]["status"]) == ("read", "in_progress")
    assert started[0]["locations"] == [{"path": "/a", "line": 3}]
    assert started[0]["rawInput"] == {"path": "/a"}
    assert started[1]["title"] == "write_file"
    assert [one["status"] for one in ended] == ["completed", "completed", "failed"]
    assert ended[0]["content"] == [{"type": "content", "content": {"type": "text", "text": "what a says"}}]
    assert ended[1]["content"] == [
        {"type": "diff", "path": "/a", "newText": "new", "oldText": "old"},
        {"type": "diff", "path": "/b", "newText": "fresh"},
    ]
    assert told["usage_update"] == [{"sessionUpdate": "usage_update", "used": 500, "size": 1000}]
    assert answer["usage"] == {
        "totalTokens": 22,
        "inputTokens": 11,
        "outputTokens": 6,
        "thoughtTokens": 1,
        "cachedReadTokens": 5,
    }


@awaited
async def test_a_failed_turn_is_an_error_and_the_session_goes_on(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("so far")
        if turn.text == "fail":
            raise AgentError("the key is wrong")
        if turn.text == "break":
            raise ValueError("inside")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        with pytest.raises(RpcFailure, match="the key is wrong") as failed:
            await editor.said(session, "fail")
        assert failed.value.code == -32603
        with pytest.raises(RpcFailure, match="the agent failed"):
            await editor.said(session, "break")
        assert (await editor.said(session, "well"))["stopReason"] == "end_turn"
        assert editor.texts() == ["so far"] * 3


@awaited
async def test_a_second_prompt_to_a_busy_session_is_an_error_that_says_so(store: str) -> None:
    agent = ScriptedAgent()
    async with opened(store, agent) as editor:
        session, other = await editor.new(), await editor.new()
        first = editor.prompt(session, "one")
        with pytest.raises(RpcFailure, match="still answering"):
            await editor.said(session, "two")
        second = editor.prompt(other, "elsewhere")
        await _until(lambda: len(agent.turns) == 2)
        agent.answer("yes")
        agent.answer("yes")
        assert (await first)["stopReason"] == (await second)["stopReason"] == "end_turn"
        assert sorted(turn.text for turn in agent.turns) == ["elsewhere", "one"]


async def _until(predicate: Callable[[], object]) -> None:
    async with asyncio.timeout(15):
        while not predicate():  # noqa: ASYNC110 - the agent tells nobody
            await asyncio.sleep(0.01)


@awaited
async def test_cancel_is_answered_at_once_in_the_middle_of_a_tool(location: str) -> None:
    going_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "next":
            yield Text("the next answer")
            return
        yield ToolCall("c1", "shell")
        # It does not look whether it was cancelled, for a while.
        await going_on.wait()
        yield ToolResult("c1", "too late")
        yield Text("nobody hears this")

    async with opened(location, ScriptedAgent(script)) as editor:
        session = await editor.new()
        asked = editor.prompt(session, "go")
        await editor.until(lambda: "tool_call" in kinds(editor.updates))
        editor.tell("session/cancel", sessionId=session)
        assert (await asyncio.wait_for(asked, 3))["stopReason"] == "cancelled"
        heard = len(editor.heard)
        following = editor.prompt(session, "next")
        going_on.set()
        assert (await asyncio.wait_for(following, 15))["stopReason"] == "end_turn"
        later = [message["params"]["update"] for message in editor.heard[heard:] if "params" in message]
        assert kinds(later)[:1] == ["agent_message_chunk"]
        assert editor.texts() == ["the next answer"]


@awaited
async def test_a_prompt_that_is_cancelled_at_once_is_not_answered_later(store: str) -> None:
    async with opened(store, EchoAgent(pause=0.2)) as editor:
        session = await editor.new()
        for number in range(5):
            asked = editor.prompt(session, f"drop {number} this please now")
            editor.tell("session/cancel", sessionId=session)
            assert (await asyncio.wait_for(asked, 5))["stopReason"] == "cancelled"
        before = len(editor.updates)
        assert (await editor.said(session, "keep"))["stopReason"] == "end_turn"
        assert "".join(editor.texts(since=before)) == "keep"


@awaited
async def test_a_cancelled_request_is_answered_as_a_cancelled_prompt(store: str) -> None:
    async with opened(store, ScriptedAgent()) as editor:
        session = await editor.new()
        asked = editor.prompt(session, "go")
        number = editor._asked
        editor.tell("$/cancel_request", requestId=number)
        assert (await asyncio.wait_for(asked, 5))["stopReason"] == "cancelled"


@awaited
async def test_cancel_without_a_prompt_is_nothing(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        editor.tell("session/cancel", sessionId=session)
        editor.tell("session/cancel", sessionId="nobody")
        editor.tell("session/cancel")
        assert (await editor.said(session, "hi"))["stopReason"] == "end_turn"


@awaited
async def test_commands_are_answered_and_end(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "first")
        assert (await editor.said(session, "/status"))["stopReason"] == "end_turn"
        assert (await editor.said(session, "/title My work"))["stopReason"] == "end_turn"
        named = [u.get("title") for u in editor.updates if u["sessionUpdate"] == "session_info_update"]
        assert named[-1] == "My work"
        before = len(editor.updates)
        assert (await editor.said(session, "/retry"))["stopReason"] == "end_turn"
        assert "".join(editor.texts(since=before)) == "first"
        await editor.said(session, "/undo")
        told = await editor.load(session)
        # Nothing is left of what the agent said; what was done is still told.
        asked = [u["content"]["text"] for u in told if u["sessionUpdate"] == "user_message_chunk"]
        assert asked == ["/status", "/title My work", "/undo"]
        assert "first" not in [u["content"]["text"] for u in told]


@awaited
async def test_a_new_conversation_keeps_the_id(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "before")
        await editor.said(session, "/status")
        await editor.said(session, "/new")
        await editor.said(session, "after")
        listed = (await editor.call("session/list"))["sessions"]
        assert [one["sessionId"] for one in listed] == [session]
        told = [update["content"]["text"] for update in await editor.load(session)]
    assert told[0] == "/new"
    assert told[2:] == ["after", "after"]


@awaited
async def test_notices_are_told_apart_where_the_editor_has_a_place_for_them(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Notice("a new session of the agent began")
        yield Text("yes")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        await editor.said(session, "hi")
        await editor.until(lambda: len(editor.texts()) == 2)
        assert sorted(text.strip() for text in editor.texts()) == ["a new session of the agent began", "yes"]
    async with opened(store, ScriptedAgent(script), begun=False) as editor:
        await editor.call("initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})
        session = await editor.new()
        await editor.said(session, "hi")
        await editor.until(lambda: "notice" in kinds(editor.updates))
        assert editor.texts() == ["yes"]
        assert kinds(await editor.load(session)) == ["user_message_chunk", "notice", "agent_message_chunk"]
    async with opened(store, ScriptedAgent(script)) as editor:
        told = await editor.load(session)
        assert [update["content"]["text"] for update in told] == [
            "hi",
            "\n\na new session of the agent began\n\n",
            "yes",
        ]


@awaited
async def test_an_untitled_session_is_called_by_its_first_words_until_the_agent_names_it(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("yes")
        if turn.text == "name it":
            yield Titled("A fine name")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        await editor.said(session, "hello there")
        await editor.said(session, "name it")
        await editor.until(lambda: editor.updates[-1].get("title") == "A fine name")
        named = [u for u in editor.updates if u["sessionUpdate"] == "session_info_update"]
        assert named[0]["title"] == "hello there"
        assert named[0]["updatedAt"].endswith("Z")


@awaited
async def test_no_name_is_told_behind_the_answer_to_a_cancelled_prompt(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("yes")
        if turn.text == "name it":
            yield Titled("A fine name")
        if turn.text == "wait":
            await turn.cancelled.wait()

    def names_behind(answered: int) -> list[Any]:
        behind = [message.get("params", {}).get("update", {}) for message in editor.heard[answered:]]
        return [update["title"] for update in behind if update.get("sessionUpdate") == "session_info_update"]

    async def cancelled() -> int:
        """Cancels a prompt that is being answered; how much was heard up to the answer to it."""
        before = len(editor.texts())
        asked = editor.prompt(session, "wait")
        await editor.until(lambda: len(editor.texts()) > before)
        editor.tell("session/cancel", sessionId=session)
        assert (await asyncio.wait_for(asked, 5))["stopReason"] == "cancelled"
        answers = [one.get("result", {}).get("stopReason") == "cancelled" for one in editor.heard]
        return len(answers) - answers[::-1].index(True)

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        answered = await cancelled()
        assert [u["title"] for u in editor.updates if u["sessionUpdate"] == "session_info_update"] == ["wait"]
        await editor.call("session/list")
        assert names_behind(answered) == []
        # The look for the agent's name is still to come when the next prompt is cancelled.
        await editor.said(session, "name it")
        answered = await cancelled()
        await asyncio.sleep(0.6)
        assert names_behind(answered) == []
        await editor.said(session, "go on")
        await editor.until(lambda: names_behind(answered))
        assert names_behind(answered)[0] == "A fine name"


@awaited
async def test_pictures_and_files_go_with_a_prompt_and_come_back(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        link = {"type": "resource_link", "name": "notes", "uri": "file:///home/ada/notes.md"}
        await editor.said(session, "look at", link, picture)
        told = [u["content"] for u in editor.updates if u["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(one.get("text", "") for one in told) == "look at [@notes](file:///home/ada/notes.md) "
        assert [one for one in told if one["type"] == "image"] == [picture]
        replayed = await editor.load(session)
        assert [u["content"] for u in replayed if u["content"]["type"] == "image"] == [picture, picture]


@awaited
async def test_what_is_too_much_is_refused_with_a_reason(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        answer = await editor.said(session, "x" * 1_000_001)
        assert answer["stopReason"] == "refusal"
        assert "too much for one message" in editor.texts()[0]
        assert (await editor.said(session, "less"))["stopReason"] == "end_turn"


@awaited
async def test_prompts_with_nothing_or_sound_or_broken_files_are_wrong(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        wrong: list[tuple[dict[str, Any], ...]] = [
            (),
            ({"type": "text", "text": "  "},),
            ({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},),
            ({"type": "image", "mimeType": "image/png", "data": "not base64!"},),
            ({"type": "image", "mimeType": "image/png", "data": ""},),
            ({"type": "telepathy"},),
        ]
        for blocks in wrong:
            with pytest.raises(RpcFailure) as refused:
                await editor.said(session, *blocks)
            assert refused.value.code == -32602, blocks
        assert (await editor.said(session, "still here"))["stopReason"] == "end_turn"


@awaited
async def test_the_agent_is_told_where_the_editor_lets_it_work(store: str, tmp_path: Path) -> None:
    agent = ScriptedAgent(lambda turn: _words(turn, "yes"))
    servers = [
        {"name": "fs", "command": "fs-server", "args": ["-x"], "env": [{"name": "KEY", "value": "hush-4711"}]},
        {"type": "http", "name": "web", "url": "https://x", "headers": [{"name": "Auth", "value": "hush-4712"}]},
    ]
    async with opened(store, agent) as editor:
        made = await editor.call("session/new", cwd=CWD, mcpServers=servers, additionalDirectories=["/home/ada/shared"])
        await editor.said(made["sessionId"], "hi")
        place = agent.turns[0].workplace
        assert place is not None
        assert (place.cwd, place.directories) == (CWD, ("/home/ada/shared",))
        assert [(s.name, s.kind, s.command, s.url) for s in place.mcp_servers] == [
            ("fs", "stdio", "fs-server", ""),
            ("web", "http", "", "https://x"),
        ]
        assert place.mcp_servers[0].pairs == (("KEY", "hush-4711"),)
        assert "hush" not in repr(place)
    assert b"hush-47" not in _all_bytes(tmp_path)


def _all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def _words(_turn: Turn, *said: str) -> AsyncIterator[Event]:
    for text in said:
        yield Text(text)


@pytest.mark.parametrize("method", ["session/cancel", "$/cancel_request"])
@awaited
async def test_a_cancel_counts_also_while_its_prompt_opens_the_session(location: str, method: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "before")
    async with opened(location, EchoAgent(pause=0)) as editor:
        answer = editor.prompt(session, "unwanted")
        if method == "session/cancel":
            editor.tell(method, sessionId=session)
        else:
            editor.tell(method, requestId=2)
        assert (await answer)["stopReason"] == "cancelled"
        assert (await editor.said(session, "wanted"))["stopReason"] == "end_turn"
        assert [u["content"]["text"] for u in await editor.load(session)] == ["before", "before", "wanted", "wanted"]


@pytest.mark.parametrize("place", ["first", "last", "alone", "twice"])
@awaited
async def test_what_a_turn_tells_besides_comes_before_its_answer_and_apart_from_it(location: str, place: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        if place in ("first", "alone", "twice"):
            yield Notice("NOTE!")
        if place != "alone":
            yield Text("ok")
        if place in ("last", "twice"):
            yield Notice("NOTE!" if place == "last" else "MORE!")

    async with opened(location, ScriptedAgent(script)) as editor:
        session = await editor.new()
        for _ in range(3):
            start = len(editor.heard)
            await editor.said(session, "go")
            answered = next(n for n, message in enumerate(editor.heard) if n >= start and "result" in message)
            await asyncio.sleep(0.1)
            told = [
                (n, message["params"]["update"]["content"]["text"])
                for n, message in enumerate(editor.heard)
                if n >= start and message.get("params", {}).get("update", {}).get("sessionUpdate", "").endswith("chunk")
            ]
            assert all(n < answered for n, _ in told)
            words = {"alone": ["NOTE!"], "twice": ["MORE!", "NOTE!", "ok"]}.get(place, ["NOTE!", "ok"])
            pieces = "".join(text for _, text in told).split("\n\n")
            assert sorted(piece for piece in pieces if piece) == words


@awaited
async def test_a_notice_that_does_not_come_holds_no_answer_up_for_ever(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Notice("NOTE!")
        yield Text("ok")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        editor.gateway.outbox.send_due = _nothing  # type: ignore[method-assign]
        assert (await asyncio.wait_for(editor.prompt(session, "go"), 10))["stopReason"] == "end_turn"
        assert editor.texts() == ["ok"]


async def _nothing() -> None:
    return
