"""What people install: the wheel alone, in a fresh environment, far from this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "wheel-test"

KEEPS_A_MESSAGE = """
import sys
from threadline import SessionSource, SessionStore
with SessionStore.open(sys.argv[1]) as store:
    entry = store.get_or_create_session(SessionSource(platform="local"))
    store.append_to_transcript(entry.session_id, {"role": "user", "content": "from a wheel"})
    assert len(store.search("wheel")) == 1
    assert store.check().ok
print(sys.modules["threadline"].__file__)
"""

NAMES_POSTGRES = """
from threadline import InvalidLocation, SessionStore
try:
    SessionStore.open("postgresql://nobody@localhost/nowhere")
except InvalidLocation as told:
    print(told)
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs of an environment that holds the wheel and what it asks for, nothing else."""
    (wheel,) = (ROOT / "build" / "dist").glob("threadline-*.whl")
    shutil.rmtree(HOME, ignore_errors=True)
    uv = shutil.which("uv") or shutil.which("uv", path=ROOT / "build" / "uv" / "bin")
    if uv is not None:
        run(Path(), uv, "venv", "--quiet", "--python", sys.executable, str(HOME))
        run(Path(), uv, "pip", "install", "--quiet", "--python", str(HOME / "bin" / "python"), str(wheel))
    else:
        run(Path(), sys.executable, "-m", "venv", str(HOME))
        run(Path(), str(HOME / "bin" / "pip"), "install", "--quiet", str(wheel))
    return HOME / "bin"


def run(folder: Path, *command: str) -> str:
    """What a command prints, run without anything that would lead it back into this repository."""
    cleared = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=folder, env=cleared, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_console_script_tells_its_version(programs: Path, tmp_path: Path) -> None:
    (wheel,) = (ROOT / "build" / "dist").glob("threadline-*.whl")
    version = wheel.name.split("-")[1]
    assert version in run(tmp_path, str(programs / "threadline"), "--version")


def test_the_console_script_explains_itself(programs: Path, tmp_path: Path) -> None:
    assert "--json" in run(tmp_path, str(programs / "threadline"), "sessions", "list", "--help")


def test_the_installed_package_keeps_messages(programs: Path, tmp_path: Path) -> None:
    used = run(tmp_path, str(programs / "python"), "-c", KEEPS_A_MESSAGE, str(tmp_path / "threadline.db"))
    assert Path(used.strip()).is_relative_to(HOME)


def test_without_its_extra_postgresql_says_what_to_install(programs: Path, tmp_path: Path) -> None:
    assert "threadline[postgres]" in run(tmp_path, str(programs / "python"), "-c", NAMES_POSTGRES)
