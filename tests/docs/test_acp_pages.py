"""What the pages on editors and ACP agents show is what the code knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from threadline.agents.acp.settings import PRESETS
from threadline.assembly import Agents, with_agent
from threadline.cli.program import app
from threadline.config.load import load_config

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
AGENTS, EDITORS = ((HOWTO / name).read_text(encoding="utf-8") for name in ("acp-agents.md", "editors.md"))
_IN_CODE = re.compile(r"`([^`]+)`")
_ARGS = re.compile(r'`"args": (\[.*?\])`')
_LUA_COMMAND = re.compile(r"commands = \{ default = \{ (.*?) \} \}")
_AGENT = re.compile(r"--agent[\s\",]+([a-z][\w.]*(?::[a-z_]\w*)?)")


def table() -> dict[str, list[str]]:
    """The cells of the table of known agents, by the name of the preset."""
    rows = re.search(r"^\| `preset` \|.*?\n((?:\|.*\n)+)", AGENTS, re.MULTILINE)
    assert rows is not None
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.group(1).splitlines()[1:]]
    return {name.strip("`"): rest for name, *rest in cells}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", EDITORS, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[list[str]]:
    """Every command that an editor is told to start, with its arguments."""
    for text in blocks("json"):
        for server in json.loads(text)["agent_servers"].values():
            yield [server["command"], *server["args"]]
    for text in blocks("lua"):
        yield from (json.loads(f"[{words}]") for words in _LUA_COMMAND.findall(text))
    yield from (["threadline", *json.loads(args)] for args in _ARGS.findall(EDITORS))


def test_the_table_has_every_preset_and_no_other() -> None:
    assert list(table()) == list(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_row_says_what_is_started_and_which_variables_it_is_given(name: str) -> None:
    preset = PRESETS[name]  # type: ignore[index]
    command, install, login, variables = table()[name]
    assert command == f"`{' '.join(preset.command)}`"
    assert install == ("see its own pages" if preset.install.startswith("see ") else f"`{preset.install}`")
    assert [one for one in _IN_CODE.findall(login) if one not in preset.login] == []
    assert variables == ", ".join(f"`{one}`" for one in preset.env)


def test_every_command_for_an_editor_is_one_that_we_take() -> None:
    found = list(commands())
    # Zed, JetBrains and Neovim, and how an agent is named.
    assert len(found) == 4
    program: Any = get_command(app)
    for name, command, *rest in found:
        assert (name, command) == ("threadline", "acp")
        program.commands[command].make_context(command, rest).close()


def test_every_agent_that_an_editor_can_be_told_to_name_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_agents.py").write_text("def answer(text):\n    return text\n")
    program = tmp_path / PRESETS["claude"].command[0]
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings = tmp_path / "config.toml"
    settings.write_text('[agents.main]\nkind = "model"\nmodel = "openai:gpt-5"\n')
    named = set(_AGENT.findall(EDITORS))
    assert named == {"echo", "model", "main", "acp:claude", "my_agents:answer"}
    for name in named:
        config = with_agent(load_config(settings, {}), name)
        assert Agents(config).named(config.gateway.default_agent)
