"""Platforms by name: ours and others' through the same door, and errors that say which one and what to do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

import pytest

from threadline.errors import InvalidRequest
from threadline.platforms.local import make_terminal
from threadline.platforms.registry import (
    GROUP,
    BrokenPlatform,
    PlatformFactory,
    PlatformSetup,
    UnknownPlatform,
    known_platforms,
    make_platform,
)
from threadline.platforms.telegram import make_telegram
from threadline.testing.scripted import make_scripted

Install: TypeAlias = Callable[..., None]
_names = itertools.count()

_PIGEON = """
class Pigeon:
    def __init__(self, settings):
        self.name, self.account, self.loft = settings.name, settings.account, settings.options["loft"]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that offers one platform; module names are never used twice."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(
        kind: str, code: str, *, attribute: str = "Pigeon", package: str = "pigeon-post", more: str = ""
    ) -> None:
        module = f"pigeon_module_{next(_names)}"
        (tmp_path / f"{module}.py").write_text(code)
        folder = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n{more}")
        (folder / "entry_points.txt").write_text(f"[threadline.platforms]\n{kind} = {module}:{attribute}\n")

    return installed


# The types are checked: what these make is a `Platform`.
OURS: dict[str, PlatformFactory] = {
    "local": make_terminal,
    "scripted": make_scripted,
    "telegram": make_telegram,
}


def test_what_comes_with_threadline_enters_by_the_same_door() -> None:
    doors = {
        door.name: door.load() for door in entry_points(group=GROUP) if door.dist and door.dist.name == "threadline"
    }
    assert doors == OURS
    assert OURS.keys() <= set(known_platforms())
    options = {"address": "127.0.0.1:9"}
    made = make_platform("scripted", PlatformSetup("scripted", "work", options))
    assert (made.name, made.account) == ("scripted", "work")


def test_someone_elses_platform_is_made_from_its_settings(install: Install) -> None:
    install("pigeon", _PIGEON)
    assert "pigeon" in known_platforms()
    made = make_platform("pigeon", PlatformSetup(name="birds", account="work", options={"loft": "north"}))
    assert (made.name, made.account, vars(made)["loft"]) == ("birds", "work", "north")


def test_a_kind_that_nobody_offers_names_the_nearest() -> None:
    with pytest.raises(UnknownPlatform, match=r"'telegarm'.*did you mean 'telegram'\?"):
        make_platform("telegarm", PlatformSetup("x"))
    with pytest.raises(InvalidRequest, match="use one of these: telegram"):
        make_platform("zzz", PlatformSetup("x"))


def test_a_missing_extra_is_named(install: Install) -> None:
    install("pigeon", "import no_such_sdk", more="Provides-Extra: pigeon\n")
    with pytest.raises(BrokenPlatform, match=r"'pigeon'.*no_such_sdk.*pip install 'pigeon-post\[pigeon\]'"):
        make_platform("pigeon", PlatformSetup("pigeon"))


def test_an_extra_that_the_entry_point_names_goes_first(install: Install) -> None:
    install("pigeon", "import no_such_sdk", attribute="Pigeon [wings]", more="Provides-Extra: wings\n")
    with pytest.raises(BrokenPlatform, match=r"pip install 'pigeon-post\[wings\]'"):
        make_platform("pigeon", PlatformSetup("pigeon"))


@pytest.mark.parametrize("code", ["raise RuntimeError('no wings')", "pass", "import no_such_sdk", "def ("])
def test_a_package_that_can_not_be_loaded_is_named_with_the_reason(install: Install, code: str) -> None:
    install("pigeon", code)
    with pytest.raises(BrokenPlatform, match=r"'pigeon' of pigeon-post can't be loaded: \w+Error") as raised:
        make_platform("pigeon", PlatformSetup("pigeon"))
    assert raised.value.__cause__ is not None


def test_what_is_no_function_is_no_platform(install: Install) -> None:
    install("pigeon", "Pigeon = 3")
    with pytest.raises(BrokenPlatform, match="no function"):
        make_platform("pigeon", PlatformSetup("pigeon"))


def test_two_packages_with_one_kind_are_both_named(install: Install) -> None:
    install("pigeon", _PIGEON)
    install("pigeon", _PIGEON, package="other-post")
    assert known_platforms().count("pigeon") == 1
    with pytest.raises(BrokenPlatform, match="other-post and pigeon-post"):
        make_platform("pigeon", PlatformSetup("pigeon", options={"loft": ""}))


def test_the_name_of_the_page_is_nobodys(install: Install) -> None:
    with pytest.raises(InvalidRequest, match=r"only the page .* is called 'web'.*another name"):
        make_platform("scripted", PlatformSetup("web", options={"address": "127.0.0.1:9"}))
    install("pigeon", _PIGEON.replace("settings.name,", "'web',"))
    with pytest.raises(BrokenPlatform, match="'pigeon' of pigeon-post calls itself 'web'"):
        make_platform("pigeon", PlatformSetup("pigeon", options={"loft": ""}))


def test_the_name_of_the_terminal_is_nobody_elses(install: Install) -> None:
    with pytest.raises(InvalidRequest, match=r"only the terminal is called 'local'.*another name"):
        make_platform("scripted", PlatformSetup("local", options={"address": "127.0.0.1:9"}))
    install("pigeon", _PIGEON.replace("settings.name,", "'local',"))
    with pytest.raises(BrokenPlatform, match="'pigeon' of pigeon-post calls itself 'local'"):
        make_platform("pigeon", PlatformSetup("pigeon", options={"loft": ""}))


def test_the_name_of_editors_is_nobodys(install: Install) -> None:
    with pytest.raises(InvalidRequest, match=r"only editors .* are called 'acp'.*another name"):
        make_platform("scripted", PlatformSetup("acp", options={"address": "127.0.0.1:9"}))
    install("pigeon", _PIGEON.replace("settings.name,", "'acp',"))
    with pytest.raises(BrokenPlatform, match="'pigeon' of pigeon-post calls itself 'acp'"):
        make_platform("pigeon", PlatformSetup("pigeon", options={"loft": ""}))
    install("acp", _PIGEON, package="other-post")
    with pytest.raises(InvalidRequest, match="only editors"):
        make_platform("acp", PlatformSetup("acp", options={"loft": ""}))


def test_a_broken_package_is_no_harm_to_the_others(install: Install) -> None:
    install("pigeon", "raise RuntimeError")
    assert make_platform("scripted", PlatformSetup("scripted", options={"address": "127.0.0.1:9"})).name == "scripted"
