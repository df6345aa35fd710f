"""What a trial installs is what running needs, and growing `.venv` never changes or removes it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(name: str) -> dict[str, str]:
    """The locked lines by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {re.split(r"[=\[ ]", line)[0].lower(): line for line in lines}


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=; ]", one)[0].lower().replace("_", "-") for one in requirements}


def make(folder: Path, *arguments: str) -> str:
    """Runs `make` with an installer that does nothing."""
    command = ["make", "--no-print-directory", "-C", str(folder), *arguments, "UV=true"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-serve.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def test_a_trial_has_what_running_needs_and_no_tools() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    needed = packages([*PROJECT["project"]["dependencies"], *extras["model"], *extras["telegram"]])
    assert needed <= pins("requirements-serve.lock").keys()
    tools = packages(PROJECT["dependency-groups"]["dev"]) - needed - {"httpx"}
    assert "pytest" in tools
    assert not tools & pins("requirements-serve.lock").keys()


def test_a_trial_has_the_versions_that_are_tested() -> None:
    assert pins("requirements-serve.lock").items() <= pins("requirements.lock").items()


def test_serving_installs_from_its_own_lock(folder: Path) -> None:
    assert re.findall(r"-r (\S+)", make(folder, "-n", "serve")) == ["requirements-serve.lock"]


def test_after_a_trial_the_rest_is_added(folder: Path) -> None:
    make(folder, ".venv/.serve")
    assert make(folder, "-n", "serve").split() == [".venv/bin/threadline", "serve"]
    assert re.findall(r"-r (\S+)", make(folder, "-n", "setup")) == ["requirements.lock"]


def test_where_everything_is_installed_serving_installs_nothing(folder: Path) -> None:
    make(folder, "setup")
    assert make(folder, "-n", "serve").split() == [".venv/bin/threadline", "serve"]
