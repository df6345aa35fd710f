"""A session that is loaded while something happens in it: whatever comes when, everything is told once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor_world import CWD, Opened, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.ports.agent import AskPermission, Event, Notice, Text, Turn
from threadline.testing.agents import ScriptedAgent


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/threadline.db"


def chunks(updates: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Who said what, pieces of one text together."""
    told: list[tuple[str, str]] = []
    for update in updates:
        if update["sessionUpdate"].endswith("message_chunk"):
            who, text = update["sessionUpdate"].split("_")[0], update["content"]["text"]
            if told and told[-1][0] == who:
                text = told.pop()[1] + text
            told.append((who, text))
    return told


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody tells when it does
            await asyncio.sleep(0.002)


class Steps:
    """Where a load can be interrupted: before or after each of its questions to the store."""

    def __init__(self, editor: Opened, at: int, do: Callable[[], Awaitable[None]]) -> None:
        self._passed = 0
        self._at = at
        self._do = do
        bridge: Any = editor.server.platform._bridge
        sessions: Any = editor.store.editor_sessions
        bridge.snapshot = self._around(bridge.snapshot)
        sessions.history_plan = self._around(sessions.history_plan)
        sessions.history_page = self._around(sessions.history_page)

    def _around(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def stepwise(*args: Any, **named: Any) -> Any:
            await self._step()
            found = await call(*args, **named)
            await self._step()
            return found

        return stepwise

    async def _step(self) -> None:
        self._passed += 1
        if self._passed == self._at:
            await self._do()


@pytest.mark.parametrize("is_over", [True, False], ids=["over", "running"])
@pytest.mark.parametrize("at", range(1, 10))
@awaited
async def test_a_prompt_in_the_middle_of_a_load_is_told_once(store: str, at: int, *, is_over: bool) -> None:
    go_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"to {turn.text}: ")
        await go_on.wait()
        yield Text("all")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        go_on.set()
        await editor.said(session, "hi")
        opened_session = editor.server.open_sessions.find(session)
        assert opened_session is not None
        running: list[asyncio.Future[Any]] = []

        async def interrupt() -> None:
            if not is_over:
                go_on.clear()
            began = opened_session.last_turn_id
            running.append(editor.prompt(session, "Q"))
            await until(lambda: opened_session.last_turn_id != began)
            await until(lambda: not is_over or opened_session.prompt is None or opened_session.prompt.is_over)
            # Its first words have to be told.
            await asyncio.sleep(0.0 if is_over else 0.1)

        Steps(editor, at, interrupt)
        start = len(editor.updates)
        await editor.call("session/load", sessionId=session, cwd=CWD, mcpServers=[])
        go_on.set()
        assert (await running[0])["stopReason"] == "end_turn"
        assert chunks(editor.updates[start:]) == [
            ("user", "hi"),
            ("agent", "to hi: all"),
            ("user", "Q"),
            ("agent", "to Q: all"),
        ]


@pytest.mark.parametrize("is_first", [True, False], ids=["prompt first", "load first"])
@awaited
async def test_a_prompt_and_a_load_in_consecutive_lines_tell_everything_once(store: str, *, is_first: bool) -> None:
    async with opened(store, EchoAgent(pause=0)) as editor:
        where = {"cwd": CWD, "mcpServers": []}
        for number in range(25):
            session = await editor.new()
            await editor.said(session, "hi")
            start = len(editor.updates)
            asked = [editor.prompt(session, f"Q{number}")] if is_first else []
            asked.append(editor.ask("session/load", {"sessionId": session, **where}))
            asked += [] if is_first else [editor.prompt(session, f"Q{number}")]
            await asyncio.gather(*asked)
            told = chunks(editor.updates[start:])
            # What was told before the load was taken up was told live.
            assert told[told.index(("user", "hi")) :] == [
                ("user", "hi"),
                ("agent", "hi"),
                ("user", f"Q{number}"),
                ("agent", f"Q{number}"),
            ]


@awaited
async def test_a_command_in_the_middle_of_a_load_is_told_once_with_its_answer(store: str) -> None:
    for at in range(1, 9):
        async with opened(store, EchoAgent(pause=0)) as editor:
            session = await editor.new()
            await editor.said(session, "hi")
            running: list[asyncio.Future[Any]] = []

            async def interrupt(
                editor: Opened = editor, session: str = session, running: list[asyncio.Future[Any]] = running
            ) -> None:
                running.append(editor.prompt(session, "/title Plans"))
                await asyncio.sleep(0.1)

            Steps(editor, at, interrupt)
            start = len(editor.updates)
            await editor.call("session/load", sessionId=session, cwd=CWD, mcpServers=[])
            await running[0]
            who = [(who, "Plans" in text) for who, text in chunks(editor.updates[start:])]
            assert who == [("user", False), ("agent", False), ("user", True), ("agent", True)], at


@awaited
async def test_what_a_turn_tells_besides_during_a_load_stands_in_its_place(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "Q":
            yield Notice("made ready")
        yield Text(f"to {turn.text}")

    async with opened(store, ScriptedAgent(script)) as editor:
        session = await editor.new()
        await editor.said(session, "hi")
        running: list[asyncio.Future[Any]] = []

        async def interrupt() -> None:
            running.append(editor.prompt(session, "Q"))
            await asyncio.sleep(0.3)

        Steps(editor, 1, interrupt)
        start = len(editor.updates)
        await editor.call("session/load", sessionId=session, cwd=CWD, mcpServers=[])
        await running[0]
        told = "".join(text for _, text in chunks(editor.updates[start:])).split()
        assert " ".join(told) == "hi" + "to hi" + "Q made ready to Q"


@awaited
async def test_what_was_told_from_a_journal_is_told_by_the_next_load_too(store: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Event]:
        yield Text("half ")
        yield AskPermission(ask_id="a", tool="remove")

    async def never(_params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with opened(store, ScriptedAgent(script)) as editor, opened(store, ScriptedAgent(script)) as other:
        editor.decide = never
        session = await editor.new()
        editor.prompt(session, "go").add_done_callback(lambda done: done.exception())
        await editor.until(lambda: [one for one in editor.heard if one.get("method") == "session/request_permission"])
        for _ in range(3):
            assert chunks(await other.load(session)) == [("user", "go"), ("agent", "half ")]
