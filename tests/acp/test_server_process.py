"""`threadline acp` as an editor starts it: real pipes, stray prints, the end of input, signals."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.acp.editor_world import CWD, RpcFailure
from tests.acp.piped import Piped
from tests.gateway.world import awaited

_AGENT = """
import os, subprocess, sys, time
print("printed while it was imported")

def answer(turn):
    print("a stray print")
    sys.stdout.write("another\\n")
    os.write(1, b"past Python\\n")
    subprocess.run(["echo", "from a child"])
    if turn.text == "slow":
        yield "half "
        time.sleep(30)
    yield f"heard {turn.text}"
"""


_PLACED = """
def answer(turn):
    place = turn.workplace
    yield f"{place.cwd} {place.directories}\\n"
    for server in place.mcp_servers:
        yield f"{server.name} {server.kind} {server.command} {server.args} {server.url} {server.pairs}\\n"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "noisy_agent.py").write_text(_AGENT)
    return tmp_path


def command(folder: Path, agent: str = "noisy_agent:answer") -> Piped:
    line = [sys.executable, "-m", "threadline", "acp", "--agent", agent, "--db", str(folder / "threadline.db")]
    return Piped(line, PYTHONPATH=f"{folder}:{Path(__file__).parents[2]}")


@awaited
async def test_nothing_but_the_protocol_reaches_standard_output(folder: Path) -> None:
    async with command(folder) as editor:
        session = await editor.new()
        assert (await editor.said(session, "hi"))["stopReason"] == "end_turn"
        assert editor.texts()[-1] == "heard hi"
        editor.hang_up()
        assert await editor.ended() == 0
    assert editor.litter == []
    assert b"a stray print" in editor.log
    assert b"past Python" in editor.log
    assert b"from a child" in editor.log


@awaited
async def test_prompts_can_be_piped_in_and_are_answered(folder: Path) -> None:
    async with command(folder, "echo") as editor:
        session = await editor.new()
        asked = editor.prompt(session, "one two three")
        editor.hang_up()
        assert (await asyncio.wait_for(asked, 10))["stopReason"] == "end_turn"
        assert await editor.ended() == 0
        assert any(update["sessionUpdate"] == "session_info_update" for update in editor.updates)


@pytest.mark.parametrize("ends", ["end of input", "SIGTERM", "SIGINT"])
@awaited
async def test_what_runs_at_the_end_is_closed_with_what_it_said(folder: Path, ends: str) -> None:
    async with command(folder) as editor:
        session = await editor.new()
        editor.prompt(session, "slow").add_done_callback(lambda done: done.exception())
        await editor.until(editor.texts)
        if ends == "end of input":
            editor.hang_up()
        else:
            editor.agent.send_signal(signal.Signals[ends])
        assert await editor.ended() == 0
    async with command(folder, "echo") as editor:
        told = await editor.load(session)
        assert [update["content"]["text"] for update in told] == ["slow", "half "]
        # Closed when it ended: nothing has to be waited for.
        assert (await asyncio.wait_for(editor.prompt(session, "on"), 2))["stopReason"] == "end_turn"


@awaited
async def test_sessions_outlive_the_process_and_are_found_by_search(folder: Path) -> None:
    async with command(folder, "echo") as editor:
        session = await editor.new()
        await editor.said(session, "the quick brown fox")
        editor.hang_up()
        await editor.ended()
    found = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "threadline", "sessions", "search", "quick fox", "--db", str(folder / "threadline.db"),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    shown, _ = await found.communicate()
    assert session in shown.decode()


@awaited
async def test_an_agent_that_is_not_there_is_told_with_the_prompt(folder: Path) -> None:
    async with command(folder, "no_such_package:answer") as editor:
        session = await editor.new()
        with pytest.raises(RpcFailure, match="no_such_package"):
            await editor.said(session, "hi")
        assert await editor.call("session/resume", sessionId=session, cwd=CWD)


@awaited
async def test_an_acp_agent_that_nobody_knows_is_told_at_the_start(folder: Path) -> None:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "threadline", "acp", "--agent", "acp:nobody", "--db", str(folder / "threadline.db"),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, log = await started.communicate()
    assert (started.returncode, told) == (1, b"")
    assert b"'nobody'" in log
    assert b"claude" in log


@awaited
async def test_a_function_is_told_where_the_editor_lets_it_work(folder: Path) -> None:
    (folder / "placed_agent.py").write_text(_PLACED)
    local = {"name": "files", "command": "/bin/serve", "args": ["-v"], "env": [{"name": "KEY", "value": "secret"}]}
    remote = {"type": "http", "name": "wiki", "url": "https://wiki.example/mcp", "headers": []}
    async with command(folder, "placed_agent:answer") as editor:
        made = await editor.call(
            "session/new", cwd=CWD, additionalDirectories=["/srv/more"], mcpServers=[local, remote]
        )
        assert (await editor.said(made["sessionId"], "where?"))["stopReason"] == "end_turn"
        assert "".join(editor.texts()).splitlines() == [
            f"{CWD} ('/srv/more',)",
            "files stdio /bin/serve ('-v',)  (('KEY', 'secret'),)",
            "wiki http  () https://wiki.example/mcp ()",
        ]
