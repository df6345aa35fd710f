"""How an agent is found, signed in, and named in the configuration."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.agents.acp.world import SCRIPT, World, answered, is_alive, run

from threadline.agents.acp.settings import PRESETS, read_config
from threadline.agents.registry import AgentSetup, make_agent
from threadline.cli.doctor import run_checks
from threadline.config.load import load_config
from threadline.config.settings import AcpPreset
from threadline.errors import ConfigError, InvalidRequest
from threadline.ports.agent import AgentError
from threadline.testing.contracts.agents import PATIENCE, text_of

BY_ITSELF = {"id": "login", "name": "Log in"}
BY_KEY = {"id": "gemini-api-key", "name": "By key"}
BY_TERMINAL = {"id": "term", "name": "In a terminal", "type": "terminal"}


def test_the_one_way_to_sign_in_that_needs_nobody_is_used_when_it_is_asked_for(world: World) -> None:
    agent = world.agent(auth=[BY_ITSELF, BY_TERMINAL])
    assert text_of(run(agent, answered(agent, "hello"))) == "hello"
    assert [name for name, _ in world.log() if name in ("authenticate", "session/new")] == [
        "session/new",
        "authenticate",
        "session/new",
    ]


@pytest.mark.parametrize("methods", [[BY_TERMINAL], [BY_ITSELF, BY_KEY]])
def test_where_it_can_not_be_signed_in_its_owner_is_told(world: World, methods: list[Any]) -> None:
    agent = world.agent(auth=methods)
    with pytest.raises(AgentError, match="has to be signed in first") as fault:
        run(agent, answered(agent, "hello"))
    assert fault.value.is_owners
    assert ("login, gemini-api-key: its owner can name one in `auth_method`" in str(fault.value)) is (len(methods) > 1)
    assert world.told("authenticate") == []


def test_a_way_that_needs_a_terminal_is_never_asked_of_the_agent(world: World) -> None:
    world.settings["auth_method"] = "term"
    agent = world.agent(auth=[BY_ITSELF, BY_TERMINAL])
    with pytest.raises(AgentError, match="in a terminal alone"):
        run(agent, answered(agent, "hello"))
    assert world.told("authenticate") == []


def test_a_configured_way_is_used_before_anything_else(world: World) -> None:
    world.settings["auth_method"] = "gemini-api-key"
    agent = world.agent(auth=[BY_ITSELF, BY_KEY])
    assert text_of(run(agent, answered(agent, "hello"))) == "hello"
    assert world.told("authenticate") == [{"methodId": "gemini-api-key"}]
    assert len(world.told("session/new")) == 1


def test_a_configured_way_that_there_is_not_is_told_with_those_there_are(world: World) -> None:
    world.settings["auth_method"] = "password"
    agent = world.agent(auth=[BY_ITSELF])
    with pytest.raises(AgentError, match="can't be signed in by 'password'; it knows login"):
        run(agent, answered(agent, "hello"))


def test_a_key_that_is_refused_is_told(world: World) -> None:
    agent = world.agent(auth=[BY_ITSELF], no_auth_works=True)
    with pytest.raises(AgentError, match="could not be signed in by 'login'"):
        run(agent, answered(agent, "hello"))


def test_a_prompt_that_wants_a_login_is_told(world: World) -> None:
    agent = world.agent()
    with pytest.raises(AgentError, match="has to be signed in first"):
        run(agent, answered(agent, "fail -32000"))


def test_a_presets_key_signs_it_in_where_it_is_set(tmp_path: Path) -> None:
    program = tmp_path / "gemini"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    settings = AgentSetup(kind="acp", preset="gemini")
    environment = {"PATH": str(tmp_path), "GEMINI_API_KEY": "k", "OPENAI_API_KEY": "another's"}
    wanted = read_config(settings, environment)
    assert wanted.command == (str(program), "--acp")
    assert wanted.key_method == "gemini-api-key"
    assert dict(wanted.env) == {"PATH": str(tmp_path), "GEMINI_API_KEY": "k"}
    assert read_config(settings, {"PATH": str(tmp_path)}).key_method is None
    assert "k" not in repr(wanted).replace("AcpAgentConfig", "")


def test_every_known_agent_can_be_named_in_the_configuration() -> None:
    assert set(PRESETS) == set(get_args(AcpPreset))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_program_that_is_not_there_is_told_with_how_to_get_it(preset: AcpPreset) -> None:
    with pytest.raises(AgentError, match="is not on the PATH") as fault:
        read_config(AgentSetup(kind="acp", preset=preset), {"PATH": "/nowhere"})
    assert PRESETS[preset].install in str(fault.value)
    assert fault.value.is_owners


def test_an_agent_without_a_program_is_none() -> None:
    with pytest.raises(InvalidRequest, match="needs `preset`, one of claude"):
        make_agent(AgentSetup(kind="acp"))


def test_the_configuration_makes_one(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        textwrap.dedent("""
        [agents.main]
        kind = "acp"
        command = ["my-agent", "--acp"]
        env = ["MY_KEY"]
        cwd = "/srv"
        permissions = "deny"
        mode = "plan"
        model = "large"
        auth_method = "key"
        """)
    )
    agent = load_config(file, {}).agents["main"]
    assert (agent.command, agent.env, agent.cwd) == (("my-agent", "--acp"), ("MY_KEY",), "/srv")
    assert (agent.permissions, agent.mode, agent.model, agent.auth_method) == ("deny", "plan", "large", "key")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('kind = "acp"', "preset or command is missing"),
        ('kind = "acp"\npreset = "clod"', "use one of claude, codex"),
        ('kind = "acp"\npreset = "claude"\ncwd = "here"', "a whole path"),
        ('kind = "acp"\npreset = "claude"\nenv = ["A=B"]', "the name of a variable"),
        ('kind = "acp"\npreset = "claude"\npermissions = "always"', "use one of ask, allow, deny"),
        ('kind = "echo"\ncommand = ["x"]', 'never used with kind = "echo"; set kind = "acp"'),
    ],
)
def test_what_can_not_be_meant_is_told(tmp_path: Path, lines: str, told: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[agents.main]\n{lines}\n")
    with pytest.raises(ConfigError, match=told):
        load_config(file, {})


DYING = """
import asyncio, json, os, sys
from pathlib import Path
from threadline.agents.acp import AcpAgent
from threadline.agents.registry import AgentSetup
from threadline.ports.agent import Text
from threadline.testing.contracts.agents import a_turn

async def main(script, folder):
    setup = json.dumps({"folder": folder, "stubborn": True})
    settings = AgentSetup(kind="acp", command=(sys.executable, script, setup))
    agent = AcpAgent(settings, dict(os.environ), Path(folder) / "people")
    said = [event.text async for event in agent.run(a_turn("breed")) if isinstance(event, Text)]
    print("".join(said), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_gateway_that_is_killed_leaves_nothing_of_its_agents_behind(world: World, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DYING, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE
    )
    child = int(ran.stdout)
    (agent,) = world.told("started")
    # The agent does not end with its input, and what it has started never reads any.
    ends = time.monotonic() + PATIENCE
    while (is_alive(child) or is_alive(agent)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not is_alive(child)
    assert not is_alive(agent)


def test_doctor_says_when_the_program_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'db = "{tmp_path}/t.db"\n[agents.main]\nkind = "acp"\ncommand = ["no-such-agent"]\n')
    faults = {finding.subject: finding.problem for finding in run_checks(config=file)}
    assert faults["agent main"].startswith("The program no-such-agent of the agent no-such-agent is not on the PATH.")
