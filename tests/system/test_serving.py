"""`threadline serve` and `threadline chat` as people run them: side by side, killed, stopped, started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.system.test_serve import own_home, served

from threadline.testing.scripted import ScriptedChat

_AGENTS = """

def shout(turn):
    return turn.text.upper()

def count(turn):
    yield f"{len(turn.history)} before; "
    yield turn.text

async def slow(turn):
    import asyncio
    yield "slowly "
    await asyncio.sleep(1.5)
    yield "done"

async def stubborn(turn):
    import asyncio
    yield "begun"
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

def broken(turn):
    raise RuntimeError("a secret")
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "threadline.db"


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    (tmp_path / "my_agents.py").write_text(_AGENTS)
    return tmp_path


def chat(db: Path, text: str, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "threadline", "chat", "--db", str(db), *options]
    home = {"HOME": str(db.parent), "XDG_DATA_HOME": str(db.parent / "share")}
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=os.environ | home
    )


def start(command: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ | own_home(folder))


def answers(done: subprocess.CompletedProcess[str], code: int = 0) -> list[str]:
    """What was written, without the welcome of a first conversation."""
    assert done.returncode == code, done.stderr
    return [line for line in done.stdout.splitlines() if line and not line.startswith("Hello! I'm your agent")]


def told(db: Path, *command: str) -> object:
    done = subprocess.run(
        [sys.executable, "-m", "threadline", *command, "--db", str(db), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_pipe_gets_the_answers_and_nothing_else(db: Path) -> None:
    assert answers(chat(db, "one\ntwo\n")) == ["one", "two"]


def test_a_conversation_goes_on_in_the_next_process(db: Path, agents: Path) -> None:
    assert answers(chat(db, "first\n", "--agent", "my_agents:count", folder=agents)) == ["0 before; first"]
    assert answers(chat(db, "second\n", "--agent", "my_agents:count", folder=agents)) == ["2 before; second"]


def test_a_python_function_answers(db: Path, agents: Path) -> None:
    assert answers(chat(db, "quiet\n", "--agent", "my_agents:shout", folder=agents)) == ["QUIET"]


def test_a_function_that_fails_is_told_without_its_secrets(db: Path, agents: Path) -> None:
    done = chat(db, "hi\n", "--agent", "my_agents:broken", folder=agents)
    (line,) = answers(done, code=1)
    assert line.startswith("I could not answer that")
    assert "secret" not in done.stdout


@pytest.mark.parametrize(("name", "hint"), [("nowhere:call", "nowhere"), ("my_agents:missing", "missing")])
def test_an_agent_that_is_not_there_is_named(db: Path, agents: Path, name: str, hint: str) -> None:
    done = chat(db, "hi\n", "--agent", name, folder=agents)
    assert hint in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_terminal_and_a_gateway_share_a_file(db: Path) -> None:
    with served(db, "--port", "0"):
        assert answers(chat(db, "beside it\n")) == ["beside it"]
    assert [line["fate"] for line in told(db, "messages", "list")] == ["answered"]  # type: ignore[attr-defined]


def test_a_pipe_waits_for_the_one_before_it(db: Path) -> None:
    command = [sys.executable, "-m", "threadline", "chat", "--db", str(db)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    env = os.environ | own_home(db.parent)
    with subprocess.Popen(command, text=True, env=env, **pipes) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write("first\n")
        first.stdin.flush()
        while first.stdout.readline() != "first\n":
            pass
        with subprocess.Popen(command, text=True, env=env, **pipes) as second:
            assert second.stdin is not None
            assert second.stderr is not None
            second.stdin.write("second\n")
            second.stdin.flush()
            assert str(first.pid) in second.stderr.readline()
            assert first.communicate("more\n", timeout=30)[0].split() == ["more"]
            assert second.communicate(timeout=30)[0].split() == ["second"]


def test_a_second_gateway_on_a_file_is_told_who_serves_it(db: Path) -> None:
    with served(db, "--port", "0") as first:
        second = subprocess.run(
            [sys.executable, "-m", "threadline", "serve", "--db", str(db), "--port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1
        assert f"process {first.process.pid}" in second.stderr
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(10)
    # The kernel lets go of a dead holder's lock.
    with served(db, "--port", "0") as third:
        assert third.stop() == 0


def configured(folder: Path, world: ScriptedChat) -> Path:
    config = folder / "config.toml"
    options = f'kind = "scripted"\naddress = "{world.address}"\n'
    config.write_text(
        "[gateway]\nwelcome = false\nburst_seconds = 0.0\ndrain_seconds = 3\n"
        '[access]\nowners = ["scripted:ada"]\n'
        f"[platforms.scripted]\n{options}[platforms.scripted.capabilities]\nedit = true\nedit_interval = 0.1\n"
    )
    return config


@pytest.mark.parametrize(("agent", "last"), [("slow", "slowly done"), ("stubborn", "begun")])
def test_a_stop_lets_a_running_answer_finish_if_it_does(db: Path, agents: Path, agent: str, last: str) -> None:
    async def conversation() -> None:
        async with ScriptedChat() as world:
            command = [sys.executable, "-m", "threadline", "serve", "--db", str(db), "--port", "0"]
            command += ["--agent", f"my_agents:{agent}", "--config", str(configured(agents, world))]
            with start(command, agents) as process:
                try:
                    await world.wait_for(lambda: world.connected, timeout=20)
                    world.say("go")
                    await world.wait_for(lambda: world.messages("dm-ada"), timeout=20)
                    process.send_signal(signal.SIGTERM)
                    await world.wait_for(lambda: world.messages("dm-ada")[0].text.startswith(last), timeout=20)
                    assert await asyncio.to_thread(process.wait, 20) == 0
                finally:
                    process.kill()
            assert len(world.messages("dm-ada")) == 1

    asyncio.run(conversation())
