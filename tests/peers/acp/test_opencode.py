"""opencode, an agent that people use, answers behind our gateway; its model is a server of ours on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.peers.acp.schema import INSTALLED
from tests.peers.acp.world import PATIENCE, home

from threadline.testing.models import Asked, ModelServer, Reply, Says
from threadline.testing.scripted import ScriptedChat
from threadline.texts import acp_agents as texts

pytestmark = pytest.mark.peers

HELD = "wait for me"
CONFIG = """
log_level = "debug"
[gateway]
welcome = false
burst_seconds = 0.0
lease_seconds = 3.0
[access]
owners = ["scripted:ada"]
[agents.main]
kind = "acp"
preset = "opencode"
[platforms.scripted]
address = "{address}"
"""


def answer(asked: Asked) -> Reply:
    """What the model says: the last words again. Where it is told to wait, it begins and comes to no end."""
    words = asked.text.strip().rpartition("\n")[2]
    return Says(("I begin", " and end."), is_held=True) if words == HELD else Says((f"You said: {words}",))


def opencode(folder: Path, model: ModelServer) -> dict[str, str]:
    """An environment in which opencode knows one model, fetches nothing, and is found."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.openai_url, "apiKey": "none"},
        "models": {"parrot": {"name": "Parrot"}},
    }
    config = {"provider": {"loopback": provider}, "model": "loopback/parrot", "small_model": "loopback/parrot"}
    place = folder / "config" / "opencode" / "opencode.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(config))
    own = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return home(folder) | own | {"PATH": f"{counted(folder)}{os.pathsep}{os.environ['PATH']}"}


def counted(folder: Path) -> Path:
    """Where an `opencode` is that notes each of its starts in `folder`/starts, and is then the real one."""
    program = folder / "bin" / "opencode"
    program.parent.mkdir()
    real, starts = shlex.quote(str(INSTALLED / ".bin" / "opencode")), shlex.quote(str(folder / "starts"))
    program.write_text(f'#!/bin/sh\necho started >>{starts}\nexec {real} "$@"\n')
    program.chmod(0o755)
    return program.parent


@asynccontextmanager
async def serving(folder: Path, environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A gateway that is killed at the end, if it still runs."""
    command = ("-m", "threadline", "serve", "--config", str(folder / "config.toml"), "--db", str(folder / "our.db"))
    with (folder / "serve.log").open("a") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, "--port", "0"),
            cwd=folder,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(holds: Callable[[], object]) -> None:
    """Returns when it holds; whoever changes it tells nobody."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - a server in a thread of its own
            await asyncio.sleep(0.05)


def test_a_turn_a_stop_and_the_same_session_after_the_gateway_was_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with ModelServer(answer) as model:
            async with ScriptedChat() as chat:
                (tmp_path / "config.toml").write_text(CONFIG.format(address=chat.address))
                environment = opencode(tmp_path, model)

                def shown(text: str) -> bool:
                    return any(text in one.text for one in chat.messages())

                async with serving(tmp_path, environment) as gateway:
                    chat.say("my plant is called Basil", user="ada")
                    await chat.wait_for(lambda: shown("You said: my plant is called Basil"), PATIENCE)
                    chat.say(HELD, user="ada")
                    await chat.wait_for(lambda: shown("I begin"), PATIENCE)
                    chat.say("/stop", user="ada")
                    await until(model.hung_up.is_set)
                    chat.say("still there?", user="ada")
                    await chat.wait_for(lambda: shown("You said: still there?"), PATIENCE)
                    # It stopped because it was told to: one that does not listen is ended, and the next turn starts another.
                    assert (tmp_path / "starts").read_text().split() == ["started"]
                    gateway.kill()
                async with serving(tmp_path, environment):
                    chat.say("and now?", user="ada")
                    await chat.wait_for(lambda: shown("You said: and now?"), PATIENCE)
                # As its own words, not as what it was told of: it is the agent's session that went on.
                own = [one["content"] for one in model.requests[-1].messages if one["role"] == "assistant"]
                assert own[0] == "You said: my plant is called Basil"
                assert not shown(texts.GONE)

    asyncio.run(scenario())
