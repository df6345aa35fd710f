"""What may stand in one place only, or nowhere: hidden inputs, hidden output, hidden tasks, empty names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.architecture.sources import PACKAGE, ROOT, Function, parsed, place, python_files

# Each is written as it reads in the code after imports are resolved: `from time import time` is found too.
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv"}
WALL_CLOCK = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}
TASKS = {"asyncio.create_task", "asyncio.ensure_future", "asyncio.get_event_loop"}
TERMINAL = {"print", "input", "builtins.print", "builtins.input"}

EMPTY_WORDS = {"manager", "helper", "util", "handler", "data", "info", "misc"}
# The public managers of sessions, and the command `threadline db info`.
# Those of a protocol are not ours to choose.
ALLOWED_NAMES = {"SessionManager", "AsyncSessionManager", "info", "SessionInfo", "SessionInfoUpdate", "data_received"}

SEARCHED = {".py", ".md", ".toml", ".sql", ".txt", ".html", ".css", ".js", ".yml", ".yaml", ".json", ".lock", ""}
FOREIGN_FOLDERS = {".git", ".venv", "build", "dist", "node_modules", "__pycache__"}


@pytest.mark.parametrize(
    ("banned", "allowed_in"),
    [
        pytest.param(ENVIRONMENT, ("config/load.py",), id="the environment is read in one place"),
        pytest.param(WALL_CLOCK, ("clock.py",), id="the wall clock is read in one place"),
        pytest.param(TASKS, ("gateway/supervisor.py", "testing/"), id="only the supervisor starts tasks"),
        pytest.param(TERMINAL, ("cli/render.py",), id="only the renderer speaks to the terminal"),
    ],
)
def test_banned(banned: set[str], allowed_in: tuple[str, ...]) -> None:
    found = [
        f"{place(file, line)} {name}"
        for file in python_files("src")
        if not str(file.relative_to(PACKAGE)).startswith(allowed_in)
        for name, line in used_names(file)
        if name in banned
    ]
    assert found == []


def test_the_bans_see_through_imports() -> None:
    seen = used_names_in(ast.parse("from os import environ as e\nimport datetime as d\ne['x']; d.datetime.now()"))
    assert {name for name, _ in seen} >= {"os.environ", "datetime.datetime.now"}


def test_no_name_is_empty_of_meaning() -> None:
    named = [
        (place(file, getattr(node, "lineno", 1)), node.name)
        for file in python_files("src", "bench", "scripts")
        for node in ast.walk(parsed(file))
        if isinstance(node, Function | ast.ClassDef)
    ]
    named += [(place(file, 1), file.stem) for file in python_files("src", "tests", "bench", "scripts")]
    assert [(where, name) for where, name in named if name not in ALLOWED_NAMES and is_empty(name)] == []


@pytest.mark.parametrize(
    ("name", "empty"),
    [("DataStore", True), ("http_handlers", True), ("util", True), ("database", False), ("informed", False)],
)
def test_empty_names_are_told_by_their_words(name: str, empty: bool) -> None:
    assert is_empty(name) is empty


def test_no_file_names_a_place_on_its_authors_machine() -> None:
    machine = [str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2]
    pattern = re.compile("|".join([*map(re.escape, machine), r"/Users/\w+/", r"(?<![\w.])/[r]oot/\w"]))
    found = [
        f"{place(file, number)} {line.strip()[:80]}"
        for file in own_files()
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if file != Path(__file__) and pattern.search(line)
    ]
    assert found == []


def own_files() -> list[Path]:
    """Every text of the repository that is ours."""
    return [
        file
        for file in sorted(ROOT.rglob("*"))
        if file.suffix in SEARCHED
        and not any(part in FOREIGN_FOLDERS or part.endswith("_cache") for part in file.parts)
        and not any(part == ".hypothesis" for part in file.parts)
        and file.is_file()
    ]


def is_empty(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    return any(word.lower().removesuffix("s") in EMPTY_WORDS or word.lower() in EMPTY_WORDS for word in words)


def used_names(file: Path) -> list[tuple[str, int]]:
    return used_names_in(parsed(file))


def used_names_in(tree: ast.Module) -> list[tuple[str, int]]:
    """Dotted names as they are used, with what was imported under another name put back."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origin |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return [
        (resolved(dotted, origin), node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (dotted := dotted_name(node))
    ]


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def resolved(dotted: str, origin: dict[str, str]) -> str:
    first, dot, rest = dotted.partition(".")
    return origin.get(first, first) + dot + rest
