"""The project's own files, read and parsed for the tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "threadline"
FOLDERS = ("src", "tests", "bench", "scripts")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """All modules below these folders of the repository."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(file.read_text(), str(file))


def functions(file: Path) -> Iterator[Function]:
    """All functions of a module, methods and inner ones included."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, Function):
            yield node


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """What belongs to a function itself: inner functions and classes answer for themselves."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def place(file: Path, line: int) -> str:
    """Where something is, as a terminal can open it."""
    return f"{file.relative_to(ROOT)}:{line}"
