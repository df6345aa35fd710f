"""The caps that keep the tail short: no file, function, branching or nesting beyond what one can take in."""

from __future__ import annotations

import ast

from tests.architecture.sources import FOLDERS, Function, functions, own_nodes, place, python_files

FILE_LINES = 500
FUNCTION_LINES = 60
BRANCHES = 10
NESTING = 3

_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
_NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.With, ast.AsyncWith)


def test_no_file_is_longer_than_the_cap() -> None:
    lengths = {file: len(file.read_text().splitlines()) for file in python_files(*FOLDERS)}
    assert lengths
    assert [f"{place(file, length)}" for file, length in lengths.items() if length > FILE_LINES] == []


def test_no_function_is_longer_than_the_cap() -> None:
    def length(function: Function) -> int:
        return (function.end_lineno or function.lineno) - function.lineno + 1

    assert _beyond(length, FUNCTION_LINES) == []


def test_no_function_branches_more_than_the_cap() -> None:
    def branches(function: Function) -> int:
        return sum(isinstance(node, _BRANCHING) for node in own_nodes(function))

    assert _beyond(branches, BRANCHES) == []


def test_no_function_nests_deeper_than_the_cap() -> None:
    assert _beyond(lambda function: _depth(function.body), NESTING) == []


def _beyond(measure: object, cap: int) -> list[str]:
    assert callable(measure)
    return [
        f"{place(file, function.lineno)} {function.name}: {measure(function)}"
        for file in python_files(*FOLDERS)
        for function in functions(file)
        if measure(function) > cap
    ]


def _depth(body: list[ast.stmt]) -> int:
    return max((_depth_of(statement) for statement in body), default=0)


def _depth_of(node: ast.AST) -> int:
    if isinstance(node, Function | ast.ClassDef):
        return 0
    deeper = 1 if isinstance(node, _NESTING) else 0
    # An `elif` is an `if` in the other's `else`, and no deeper for the reader.
    chained = isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
    within = [
        _depth_of(child) - (1 if chained and isinstance(node, ast.If) and child is node.orelse[0] else 0)
        for child in ast.iter_child_nodes(node)
    ]
    return deeper + max(within, default=0)
