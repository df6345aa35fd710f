"""Naming on the command line who answers."""

from __future__ import annotations

import msgspec
import pytest

from threadline.assembly import with_agent
from threadline.config.settings import AgentSettings, Config
from threadline.errors import InvalidRequest

CONFIG = Config(
    agents={
        "main": AgentSettings(kind="echo"),
        "coder": AgentSettings(kind="acp", command=("coder", "--acp")),
        "claude": AgentSettings(kind="echo"),
    }
)


def answering(wanted: str) -> AgentSettings:
    config = with_agent(CONFIG, wanted)
    return config.agents[config.gateway.default_agent]


def test_an_agent_of_the_kind_acp_is_named_by_its_own_name() -> None:
    assert answering("acp:coder").command == ("coder", "--acp")


def test_a_preset_is_named_like_one_also_where_another_agent_has_its_name() -> None:
    assert (answering("acp:gemini").kind, answering("acp:gemini").preset) == ("acp", "gemini")
    assert (answering("acp:claude").kind, answering("acp:claude").preset) == ("acp", "claude")


def test_what_is_neither_is_told_with_what_there_is() -> None:
    for wanted in ("acp:nobody", "acp:main", "acp:"):
        with pytest.raises(InvalidRequest, match="claude, codex"):
            with_agent(CONFIG, wanted)


def test_a_kind_is_the_agent_that_is_configured_so_the_default_one_first() -> None:
    model = AgentSettings(kind="model", model="openai:gpt-5")
    config = Config(agents={"main": AgentSettings(kind="echo"), "smart": model, "other": AgentSettings(kind="model")})
    chosen = with_agent(config, "model")
    assert (chosen.gateway.default_agent, chosen.agents["smart"]) == ("smart", model)
    default = msgspec.structs.replace(config, gateway=msgspec.structs.replace(config.gateway, default_agent="other"))
    assert with_agent(default, "model").gateway.default_agent == "other"
    assert answering("model") == AgentSettings(kind="model")


def test_other_names_mean_what_they_did() -> None:
    assert answering("claude").kind == "echo"
    assert answering("echo").kind == "echo"
    assert answering("my_agents:answer").call == "my_agents:answer"
