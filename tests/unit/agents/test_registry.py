"""Agents by their kind: those that come with Threadline, those of other packages, and those that nobody has."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from rich.pretty import pretty_repr

from threadline.agents.echo import EchoAgent
from threadline.agents.function import FunctionAgent
from threadline.agents.model import ModelAgent
from threadline.agents.registry import AgentSetup, agent_kinds, make_agent
from threadline.assembly import Agents
from threadline.config.load import load_config
from threadline.errors import InvalidRequest
from threadline.ports.agent import LimitsHistory

Install: TypeAlias = Callable[..., None]

PLUG_IN = """
class Parrot:
    replay = "safe"

    def __init__(self, settings):
        self.settings = settings

    async def run(self, turn):
        yield None

def not_an_agent(settings):
    return "squawk"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that offers agents, as pip would leave it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "parrots.py").write_text(PLUG_IN)
    monkeypatch.delitem(sys.modules, "parrots", raising=False)

    def installed(package: str, **kinds: str) -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{kind} = {value}" for kind, value in kinds.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[threadline.agents]", *lines]))

    return installed


def test_the_built_in_kinds_are_made() -> None:
    assert set(agent_kinds()) >= {"acp", "echo", "function", "model"}
    assert isinstance(make_agent(AgentSetup(kind="echo")), EchoAgent)
    assert isinstance(make_agent(AgentSetup(kind="function", call="builtins:repr")), FunctionAgent)
    model = AgentSetup(kind="model", model="openai:gpt-5", api_key="k")
    assert isinstance(make_agent(model), ModelAgent)


def test_an_agent_tells_how_much_history_it_reads() -> None:
    def limit_of(kind: str, limit: int | None) -> int | None:
        settings = AgentSetup(kind=kind, call="builtins:repr", model="openai:gpt-5", api_key="k", history_limit=limit)
        agent = make_agent(settings)
        assert isinstance(agent, LimitsHistory)
        return agent.history_limit

    assert [limit_of(kind, None) for kind in ("echo", "function", "model")] == [0, None, None]
    assert [limit_of(kind, 20) for kind in ("echo", "function", "model")] == [0, 20, 21]


def test_an_unknown_kind_is_told_with_the_nearest_and_how_to_get_another() -> None:
    with pytest.raises(InvalidRequest, match=r"'ehco'.*did you mean 'echo'\?.*echo, function, model.*pip"):
        make_agent(AgentSetup(kind="ehco"))
    with pytest.raises(InvalidRequest, match=r"'xyzzy' is installed; there are acp, echo, function, model"):
        make_agent(AgentSetup(kind="xyzzy"))


@pytest.mark.parametrize(("kind", "wanted"), [("function", "`call`"), ("model", "`model`")])
def test_what_a_kind_needs_is_asked_for(kind: str, wanted: str) -> None:
    with pytest.raises(InvalidRequest, match=wanted):
        make_agent(AgentSetup(kind=kind))


def test_another_package_brings_a_kind(install: Install) -> None:
    install("parrots", parrot="parrots:Parrot")
    assert "parrot" in agent_kinds()
    agent = make_agent(AgentSetup(kind="parrot", system_prompt="squawk", options={"perch": "oak"}))
    assert agent.replay == "safe"
    settings: AgentSetup = getattr(agent, "settings")  # noqa: B009
    assert (settings.system_prompt, settings.options) == ("squawk", {"perch": "oak"})


def test_a_configured_agent_of_another_package_gets_its_own_settings(install: Install, tmp_path: Path) -> None:
    install("parrots", parrot="parrots:Parrot")
    file = tmp_path / "config.toml"
    file.write_text('[agents.main]\nkind = "parrot"\nperch = "oak"\ntoken = "env:PATH"\n[agents.main.cage]\nbars = 7\n')
    agents = Agents(load_config(file, {}))
    settings: AgentSetup = getattr(agents.named("main"), "settings")  # noqa: B009
    assert settings.options == {"perch": "oak", "token": os.environ["PATH"], "cage": {"bars": 7}}
    again = Agents(load_config(file, {}), agents)
    assert again.named("main") is agents.named("main"), "nothing about it has changed"
    file.write_text(file.read_text().replace("oak", "elm"))
    assert Agents(load_config(file, {}), agents).named("main") is not agents.named("main")


def test_another_package_takes_no_built_in_kind_over(install: Install) -> None:
    install("parrots", echo="parrots:Parrot")
    assert isinstance(make_agent(AgentSetup(kind="echo")), EchoAgent)
    assert agent_kinds().count("echo") == 1


def test_a_kind_that_two_packages_bring_is_refused(install: Install) -> None:
    install("parrots", parrot="parrots:Parrot")
    install("cockatoos", parrot="parrots:not_an_agent")
    with pytest.raises(InvalidRequest, match="several packages"):
        make_agent(AgentSetup(kind="parrot"))


@pytest.mark.parametrize(
    ("value", "told"),
    [("parrots:Budgie", "AttributeError"), ("no_such_parrots:Parrot", "ModuleNotFoundError")],
)
def test_a_package_that_can_not_be_loaded_is_named(install: Install, value: str, told: str) -> None:
    install("parrots", parrot=value)
    with pytest.raises(InvalidRequest, match=told) as error:
        make_agent(AgentSetup(kind="parrot"))
    assert value in str(error.value)
    assert error.value.__cause__ is not None


def test_what_is_no_agent_is_refused(install: Install) -> None:
    install("parrots", parrot="parrots:not_an_agent")
    with pytest.raises(InvalidRequest, match="made a str"):
        make_agent(AgentSetup(kind="parrot"))


def test_settings_never_show_the_key() -> None:
    options = {"token": "sk-very-secret"}
    settings = AgentSetup(kind="model", model="openai:gpt-5", api_key="sk-very-secret", options=options)
    for shown in (repr(settings), str(settings), f"{settings}", pretty_repr(settings)):
        assert "sk-very-secret" not in shown
        assert "gpt-5" in shown
