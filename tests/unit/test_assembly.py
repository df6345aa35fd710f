"""From a configuration to the parts of a gateway, and from one configuration to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadline.assembly import Agents, Platforms, with_agent
from threadline.config.load import load_config
from threadline.config.settings import Config
from threadline.errors import InvalidRequest
from threadline.model.source import SessionSource
from threadline.platforms.registry import UnknownPlatform

HERE = SessionSource(platform="telegram", chat_id="42", user_id="7")
BOUND = '[agents.other]\n[[bindings]]\nagent = "other"\nplatform = "telegram"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def configured(file: Path, text: str) -> Config:
    file.write_text(text)
    return load_config(file, {})


def platforms_at(address: str, more: str = "") -> str:
    return f'[platforms.one]\nkind = "scripted"\naddress = "{address}"\n{more}'


@pytest.mark.parametrize(("wanted", "name"), [(None, "other"), ("main", "main"), ("other", "other"), ("echo", "main")])
def test_an_agent_named_on_the_command_line_goes_before_every_binding(
    file: Path, wanted: str | None, name: str
) -> None:
    config = with_agent(configured(file, BOUND), wanted)
    assert Agents(config).answering(HERE)[0] == name


def test_a_function_named_on_the_command_line_takes_the_place_of_the_main_agent(file: Path) -> None:
    config = with_agent(configured(file, BOUND), "builtins:repr")
    assert (config.agents["main"].kind, config.agents["main"].call) == ("function", "builtins:repr")
    assert Agents(config).answering(HERE)[0] == "main"


def test_what_is_neither_an_agent_nor_a_kind_nor_a_function_is_told(file: Path) -> None:
    with pytest.raises(InvalidRequest, match="'mian' names no function"):
        Agents(with_agent(configured(file, BOUND), "mian")).make_all()


def test_a_platform_stays_as_long_as_nothing_about_it_changes(file: Path) -> None:
    first = Platforms(configured(file, platforms_at("127.0.0.1:1")))
    (one,) = first.all()
    second = Platforms(
        configured(file, platforms_at("127.0.0.1:1", '[platforms.two]\nkind = "scripted"\naddress = "a:2"')), first
    )
    assert second.all()[0] is one
    third = Platforms(configured(file, platforms_at("127.0.0.1:9")), second)
    assert third.all()[0] is not one


def test_a_platform_whose_secret_changed_or_that_has_ended_is_made_anew(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "address"
    secret.write_text("127.0.0.1:1")
    secret.chmod(0o600)
    text = platforms_at(f"file:{secret}")
    first = Platforms(configured(file, text))
    (one,) = first.all()
    same = Platforms(configured(file, text), first)
    assert same.all() == [one]
    assert Platforms(configured(file, text), first).all(lambda platform: platform is one) != [one]
    secret.write_text("127.0.0.1:2")
    assert Platforms(configured(file, text), first).all() != [one]


def test_a_platform_that_can_not_be_made_leaves_the_others_as_they_are(file: Path) -> None:
    first = Platforms(configured(file, platforms_at("127.0.0.1:1")))
    (one,) = first.all()
    broken = Platforms(configured(file, platforms_at("127.0.0.1:1", '[platforms.two]\nkind = "pigeon"\n')), first)
    with pytest.raises(UnknownPlatform, match="pigeon"):
        broken.all()
    assert Platforms(configured(file, platforms_at("127.0.0.1:1")), first).all() == [one]


def test_one_that_is_switched_off_is_not_made(file: Path) -> None:
    assert Platforms(configured(file, platforms_at("127.0.0.1:1", "enabled = false\n"))).all() == []
