"""The page that ships is the one that its sources make, and it is small."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src" / "threadline" / "web"
FRESH = ROOT / "build" / "web-fresh"
SHIPPED = ("index.html", "app.js", "app.css", "icon.svg", "THIRD_PARTY.txt")
# What a browser fetches before somebody can write.
FETCHED = ("index.html", "app.js", "app.css", "icon.svg")
LIMIT = 60_000
FILE_LINES = 500


@pytest.fixture(scope="module")
def fresh() -> Path:
    """A folder with the page as it is built now."""
    shutil.rmtree(FRESH, ignore_errors=True)
    run("make", "--no-print-directory", "web", f"TO={FRESH.relative_to(ROOT)}")
    return FRESH


def run(*command: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_page_is_the_one_that_its_sources_make(fresh: Path, name: str) -> None:
    assert (fresh / name).read_bytes() == (WEB / "static" / name).read_bytes(), (
        "run `make web` and commit what it makes"
    )


def test_the_page_is_small() -> None:
    sizes = {name: len(gzip.compress((WEB / "static" / name).read_bytes(), 9, mtime=0)) for name in FETCHED}
    assert sum(sizes.values()) <= LIMIT, sizes


def test_the_page_carries_the_licences_of_what_is_in_it() -> None:
    told = (WEB / "static" / "THIRD_PARTY.txt").read_text()
    for library in ("preact", "htm", "marked", "dompurify"):
        assert f"\n{library} " in told


@pytest.mark.usefixtures("fresh")
def test_the_logic_of_the_page_keeps_its_promises() -> None:
    tests = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "peers" / "client").glob("*.test.mjs"))
    assert tests
    told = run("node", "--test", "--test-reporter=tap", *tests)
    assert "# fail 0" in told
    assert "# skipped 0" in told


def test_the_wheel_holds_the_page_and_nothing_of_node() -> None:
    (wheel,) = (ROOT / "build" / "dist").glob("threadline-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"threadline/web/static/{name}" for name in SHIPPED} <= set(names)
    assert [name for name in names if "node_modules" in name] == []


def test_no_source_of_the_page_is_longer_than_the_cap() -> None:
    sources = [file for file in (WEB / "client").rglob("*") if file.suffix in {".js", ".mjs", ".css"}]
    assert sources
    assert [str(file) for file in sources if len(file.read_text().splitlines()) > FILE_LINES] == []
