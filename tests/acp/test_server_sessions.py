"""The life of sessions before an editor: begun, loaded, resumed, forked, listed, closed, deleted; and every refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import CWD, Editor, GivenAgents, RpcFailure, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.assembly import with_agent
from threadline.config.settings import AgentSettings, Config
from threadline.editor import EditorAgents
from threadline.model.source import SessionSource
from threadline.ports.agent import Event, Notice, Text, Turn
from threadline.testing.agents import ScriptedAgent

UNKNOWN = "20200101_000000_0123456789ab"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/threadline.db"


def texts(updates: list[dict[str, Any]]) -> list[tuple[str, str]]:
    # What is told behind the answer before, such as a title, may come in between.
    said = [update for update in updates if "content" in update]
    return [(update["sessionUpdate"].split("_")[0], update["content"]["text"]) for update in said]


async def refused(editor: Editor, method: str, **params: Any) -> RpcFailure:
    with pytest.raises(RpcFailure) as failure:
        await editor.call(method, **params)
    return failure.value


@awaited
async def test_nothing_is_answered_before_initialize(store: str) -> None:
    async with opened(store, EchoAgent(pause=0), begun=False) as editor:
        failure = await refused(editor, "session/new", cwd=CWD, mcpServers=[])
        assert failure.code == -32600
        assert "initialize" in failure.message
        answer = await editor.call("initialize", protocolVersion=1)
        assert answer["protocolVersion"] == 1
        can = answer["agentCapabilities"]
        assert can["loadSession"] is True
        assert can["promptCapabilities"] == {"image": True, "embeddedContext": True}
        assert can["sessionCapabilities"].keys() >= {"list", "delete", "resume", "close", "fork"}
        assert answer["agentInfo"]["name"] == "threadline"
        assert answer["authMethods"] == []


@pytest.mark.parametrize(
    ("answers", "servers"),
    [
        ("echo", {}),
        ("model", {}),
        ("acp:claude", {"http": True, "sse": True}),
        ("os:getcwd", {"http": True, "sse": True}),
    ],
)
@awaited
async def test_servers_are_asked_for_where_the_agent_may_use_them(store: str, answers: str, servers: Any) -> None:
    agents = EditorAgents(with_agent(Config(), answers))
    async with opened(store, agents, begun=False) as editor:
        answer = await editor.call("initialize", protocolVersion=1)
        assert answer["agentCapabilities"].get("mcpCapabilities", {}) == servers


@pytest.mark.parametrize("wanted", [0, 2, 99])
@awaited
async def test_who_speaks_another_version_is_told_ours(store: str, wanted: int) -> None:
    async with opened(store, EchoAgent(pause=0), begun=False) as editor:
        assert (await editor.call("initialize", protocolVersion=wanted))["protocolVersion"] == 1


@awaited
async def test_what_does_not_exist_or_does_not_fit_is_refused(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        assert (await refused(editor, "authenticate", methodId="key")).code == -32602
        for method in ("session/dance", "logout", "_mine/own", "session/update", "session/set_model"):
            assert (await refused(editor, method, sessionId="x", modelId="y")).code == -32601, method
        for method, params in (
            ("initialize", {}),
            ("session/new", {"mcpServers": []}),
            ("session/new", {"cwd": "relative", "mcpServers": []}),
            ("session/new", {"cwd": "/a\0b", "mcpServers": []}),
            ("session/new", {"cwd": CWD, "mcpServers": [{"name": "half"}]}),
            ("session/new", {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["relative"]}),
            ("session/load", {"sessionId": UNKNOWN, "cwd": "relative", "mcpServers": []}),
            ("session/list", {"cwd": "relative"}),
            ("session/list", {"cursor": "not one of ours"}),
            ("session/prompt", {"sessionId": UNKNOWN}),
        ):
            assert (await refused(editor, method, **params)).code == -32602, (method, params)


@awaited
async def test_unknown_sessions_are_not_found_and_nothing_is_made(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        chat = await editor.store.get_or_create_session(SessionSource(platform="telegram", chat_id="1", user_id="1"))
        for unknown in (UNKNOWN, "nothing like an id", chat.session_id):
            for method, params in (
                ("session/load", {"cwd": CWD, "mcpServers": []}),
                ("session/resume", {"cwd": CWD}),
                ("session/fork", {"cwd": CWD}),
                ("session/close", {}),
                ("session/set_mode", {"modeId": "ask"}),
                ("session/set_config_option", {"configId": "mode", "value": "ask"}),
                ("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}),
            ):
                failure = await refused(editor, method, sessionId=unknown, **params)
                assert (failure.code, failure.context) == (-32002, {"sessionId": unknown}), method
            assert await editor.call("session/delete", sessionId=unknown) == {}
        assert (await editor.call("session/list"))["sessions"] == []
        assert (await editor.store.get_session(chat.session_id)).session_id == chat.session_id


@awaited
async def test_a_session_is_told_of_only_after_it_was_answered(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.until(lambda: editor.updates)
        assert "result" in editor.heard[-2]
        assert [command["name"] for command in editor.updates[0]["availableCommands"]].count("undo") == 1
        assert not {"approve", "deny", "stop"} & {c["name"] for c in editor.updates[0]["availableCommands"]}
        assert (await editor.call("session/list"))["sessions"][0]["sessionId"] == session


@awaited
async def test_load_tells_everything_before_it_answers_and_resume_tells_nothing(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        for text in ("one", "two"):
            await editor.said(session, text)
    async with opened(location, EchoAgent(pause=0)) as editor:
        told = await editor.load(session)
        assert texts(told) == [("user", "one"), ("agent", "one"), ("user", "two"), ("agent", "two")]
    async with opened(location, EchoAgent(pause=0)) as editor:
        answer = await editor.call("session/resume", sessionId=session, cwd=CWD)
        assert answer["modes"]["currentModeId"] == "ask"
        await editor.said(session, "three")
        assert "".join(editor.texts()) == "three"
        assert len(editor.texts("user_message_chunk")) == 0
        named = [u for u in editor.updates if u["sessionUpdate"] == "session_info_update"]
        assert {u["title"] for u in named} == {"one"}


@awaited
async def test_load_tells_commands_and_their_answers_where_they_were(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session, other = await editor.new(), await editor.new()
        seen: list[tuple[str, str]] = []
        for text in ("/help", "one", "/status", "/title Plans", "two", "three", "/usage"):
            before = len(editor.updates)
            await editor.said(session, text)
            seen += [("user", text), ("agent", "".join(editor.texts(since=before)))]
        assert all(text for _, text in seen)
        assert texts(await editor.load(session)) == seen
        assert texts(await editor.load(other)) == []
    async with opened(location, EchoAgent(pause=0)) as editor:
        assert texts(await editor.load(session)) == seen
        fork = (await editor.call("session/fork", sessionId=session, cwd=CWD, mcpServers=[]))["sessionId"]
        assert texts(await editor.load(fork)) == [
            (who, text) for text in ("one", "two", "three") for who in ("user", "agent")
        ]
        await editor.call("session/delete", sessionId=session)
        assert "Plans" not in str(await editor.store.outbox.list_page())


@awaited
async def test_a_command_that_is_answered_while_a_session_is_loaded_is_told_once(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "one")
        where = {"sessionId": session, "cwd": CWD, "mcpServers": []}
        for answered in range(15):
            start = len(editor.updates)
            loads = [editor.ask("session/load", where) for _ in range(4)]
            await asyncio.gather(*loads, editor.prompt(session, "/status"))
            told = texts(editor.updates[start:])
            begun = [place for place, one in enumerate(told) if one == ("user", "one")]
            # Of each load what was told from its beginning to that of the next: its first words are the transcript's.
            each = [told[lo:hi] for lo, hi in zip(begun, [*begun[1:], len(told)], strict=True)]
            answers = [len([who for who, _ in one if who == "agent"]) - 1 for one in each]
            assert len(each) == 4
            assert answers == sorted(answers)
            assert {answered, answered + 1} >= set(answers)
            assert answers[-1] == answered + 1


@awaited
async def test_a_session_that_was_not_opened_here_goes_on_when_it_is_prompted(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "one")
    async with opened(store, EchoAgent(pause=0)) as editor:
        assert (await editor.said(session, "two"))["stopReason"] == "end_turn"
        assert len(texts(await editor.load(session))) == 4


@awaited
async def test_load_of_a_session_that_is_being_answered_does_it_no_harm(location: str) -> None:
    going_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half ")
        await going_on.wait()
        yield Text("whole")

    async with opened(location, ScriptedAgent(script)) as editor:
        session = await editor.new()
        running = editor.prompt(session, "go")
        await editor.until(editor.texts)
        assert texts(await editor.load(session)) == [("user", "go"), ("agent", "half ")]
        assert not running.done()
        going_on.set()
        assert (await running)["stopReason"] == "end_turn"
        assert editor.texts() == ["half ", "half ", "whole"]
        assert texts(await editor.load(session)) == [("user", "go"), ("agent", "half whole")]


@awaited
async def test_what_a_running_turn_tells_besides_stands_behind_the_words_that_it_answers(location: str) -> None:
    going_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Notice("made ready")
        yield Text("half ")
        await going_on.wait()
        yield Text("whole")

    async with opened(location, ScriptedAgent(script)) as editor, opened(location, ScriptedAgent(script)) as other:
        session = await editor.new()
        await editor.said(session, "/status")
        running = editor.prompt(session, "go")
        await editor.until(lambda: "half " in editor.texts() and any("made ready" in t for t in editor.texts()))
        for window in (editor, other):
            told = texts(await window.load(session))
            assert told[0] == ("user", "/status")
            assert [(who, text.strip()) for who, text in told[2:]] == [
                ("user", "go"),
                ("agent", "made ready"),
                ("agent", "half"),
            ]
        going_on.set()
        await running
        told = texts(await editor.load(session))
        assert [(who, text.strip()) for who, text in told[2:]] == [
            ("user", "go"),
            ("agent", "made ready"),
            ("agent", "half whole"),
        ]


@awaited
async def test_loads_while_an_answer_grows_tell_each_word_once(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        for number in range(60):
            yield Text(f"{number} ")
            await asyncio.sleep(0.01)

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        running = editor.prompt(session, "go")
        await editor.until(editor.texts)
        while not running.done():
            start = len(editor.updates)
            await editor.load(session)
            await asyncio.sleep(0.05)
            since = editor.updates[start:]
            # What was told before the load was taken up belongs to the one before.
            began = [update["sessionUpdate"] for update in since].index("user_message_chunk")
            chunks = [u for u in since[began:] if u["sessionUpdate"] == "agent_message_chunk"]
            words = "".join(chunk["content"]["text"] for chunk in chunks).split()
            assert words == [str(number) for number in range(len(words))]
        await running


@awaited
async def test_a_fork_goes_on_apart_and_tells_nothing(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "shared")
        await editor.call("session/set_mode", sessionId=session, modeId="deny")
        before = len(editor.updates)
        answer = await editor.call("session/fork", sessionId=session, cwd="/home/ada/other", mcpServers=[])
        fork = answer["sessionId"]
        assert answer["modes"]["currentModeId"] == "deny"
        assert fork != session
        await editor.said(fork, "apart")
        assert [u for u in editor.updates_of(fork) if u["sessionUpdate"] == "user_message_chunk"] == []
        assert len(editor.updates) > before
        assert texts(await editor.load(session)) == [("user", "shared"), ("agent", "shared")]
        assert len(texts(await editor.load(fork))) == 4
        here = await editor.call("session/list", cwd=CWD)
        assert {one["sessionId"] for one in here["sessions"]} >= {session}


@awaited
async def test_lists_come_in_pages_and_by_folder(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        made = [await editor.new() for _ in range(60)]
        found: list[str] = []
        page = await editor.call("session/list")
        while True:
            found += [one["sessionId"] for one in page["sessions"]]
            if "nextCursor" not in page:
                break
            page = await editor.call("session/list", cursor=page["nextCursor"])
        assert sorted(found) == sorted(made)
        assert (await editor.call("session/list", cwd="/nowhere"))["sessions"] == []
        await editor.said(made[0], "the words of the first")
        first = (await editor.call("session/list", cwd=CWD))["sessions"][0]
        assert (first["sessionId"], first["title"]) == (made[0], "the words of the first")
        assert first["updatedAt"].endswith("Z")


@awaited
async def test_close_cancels_what_runs_and_keeps_what_was_said(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"to {turn.text} ")
        if turn.text == "go":
            await asyncio.get_running_loop().create_future()

    async with opened(location, ScriptedAgent(script)) as editor:
        session = await editor.new()
        running = editor.prompt(session, "go")
        await editor.until(editor.texts)
        assert await editor.call("session/close", sessionId=session) == {}
        assert (await asyncio.wait_for(running, 3))["stopReason"] == "cancelled"
        assert texts(await editor.load(session))[:2] == [("user", "go"), ("agent", "to go ")]
        assert (await editor.said(session, "on"))["stopReason"] == "end_turn"
        assert await editor.call("session/close", sessionId=session) == {}
        assert await editor.call("session/close", sessionId=session) == {}


@awaited
async def test_delete_ends_what_runs_and_takes_everything_away(location: str) -> None:
    async with opened(location, ScriptedAgent()) as editor:
        session = await editor.new()
        running = editor.prompt(session, "go")
        await asyncio.sleep(0.1)
        assert await editor.call("session/delete", sessionId=session) == {}
        assert (await running)["stopReason"] == "cancelled"
        assert (await editor.call("session/list"))["sessions"] == []
        assert (await refused(editor, "session/load", sessionId=session, cwd=CWD, mcpServers=[])).code == -32002
        assert await editor.call("session/delete", sessionId=session) == {}


@awaited
async def test_a_session_whose_agent_cannot_be_made_opens_with_its_history(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.said(session, "one")
    broken = EditorAgents(Config(agents={"main": AgentSettings(kind="function", call="no_such_module:answer")}))
    async with opened(store, broken) as editor:
        assert texts(await editor.load(session)) == [("user", "one"), ("agent", "one")]
        with pytest.raises(RpcFailure, match="can't be started") as failure:
            await editor.said(session, "two")
        assert failure.value.code == -32603
        assert "no_such_module" in failure.value.message
    async with opened(store, GivenAgents(EchoAgent(pause=0))) as editor:
        assert (await editor.said(session, "three"))["stopReason"] == "end_turn"


@awaited
async def test_the_folder_of_a_session_is_the_one_that_the_editor_named_last(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        session = await editor.new()
        await editor.call("session/resume", sessionId=session, cwd="/home/ada/moved")
        listed = (await editor.call("session/list"))["sessions"]
        assert [one["cwd"] for one in listed] == ["/home/ada/moved"]


@awaited
async def test_when_the_editor_hangs_up_what_was_said_is_kept(location: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half")
        await asyncio.get_running_loop().create_future()

    async with opened(location, ScriptedAgent(script)) as editor:
        session = await editor.new()
        editor.prompt(session, "go").add_done_callback(lambda done: done.exception())
        await editor.until(editor.texts)
    async with opened(location, EchoAgent(pause=0)) as editor:
        assert texts(await editor.load(session)) == [("user", "go"), ("agent", "half")]
        assert (await asyncio.wait_for(editor.prompt(session, "on"), 2))["stopReason"] == "end_turn"
