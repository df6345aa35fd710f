"""The shape of the tree: no module needs itself to be imported, and no room is so full that nobody finds a thing in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.sources import PACKAGE, parsed, python_files

# The most modules of each part, those in its folders included.
MODULES = {"store": 48, "model": 20, "texts": 8, "config": 9}
# The most modules of one folder in these parts; `model` is flat, because it has no layers inside.
IN_A_FOLDER = 14


def test_no_module_imports_itself_through_others() -> None:
    names = {_name(file): file for file in python_files("src")}
    graph = {name: set(_imported(name, file, names)) for name, file in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        raise AssertionError(" → ".join(cycle.args[1])) from None
    assert "threadline.store.engine.database" in graph["threadline.store.verbs"]


def test_no_part_has_more_modules_than_it_may() -> None:
    counts = {part: len(list((PACKAGE / part).rglob("*.py"))) for part in MODULES}
    assert {part: count for part, count in counts.items() if count > MODULES[part]} == {}
    assert all(counts.values())


def test_no_folder_of_these_parts_is_overcrowded() -> None:
    folders = {file.parent for part in MODULES for file in (PACKAGE / part).rglob("*.py")} - {PACKAGE / "model"}
    counts = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > IN_A_FOLDER} == {}


def _name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, file: Path, names: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that a module needs while it is imported."""
    for node in _at_import(parsed(file).body):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [one if one in names else str(node.module) for one in whole]
        yield from (one for one in found if one in names and one != name)


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run with the module: none of functions, and none that are there for types alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _at_import([*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.ClassDef):
            yield from _at_import(node.body)
