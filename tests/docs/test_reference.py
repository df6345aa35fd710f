"""The reference is what the code says now, and what the pages tell people to type can be typed."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from threadline.cli.program import app

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(threadline\b.*)$")
_SHELL = {"|", ">", ">>", "<", "&&", "||", ";", "&", "2>"}


def _load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load_generator()


def _typed_in_help() -> Iterator[str]:
    for _, command in reference.walk("threadline", get_command(app)):
        yield from reference.examples_of(command)


def _typed_in_pages() -> Iterator[str]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        blocks = "\n".join(_FENCE.findall(page.read_text(encoding="utf-8")))
        calls = (_CALL.match(line.strip()) for line in blocks.replace("\\\n", " ").splitlines())
        yield from (call.group(1) for call in calls if call)


def test_the_reference_is_what_the_code_says_now() -> None:
    for name, text in reference.pages().items():
        path = ROOT / "docs" / "reference" / name
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run `make docs`"


def test_the_reference_is_the_same_every_time() -> None:
    assert reference.pages() == reference.pages()


@pytest.mark.parametrize("path", [path for path, _ in reference.walk("threadline", get_command(app))])
def test_every_command_says_what_it_does(path: str) -> None:
    command = dict(reference.walk("threadline", get_command(app)))[path]
    assert command.help
    assert len(command.get_short_help_str(1000)) < 80
    if not hasattr(command, "commands"):
        assert reference.examples_of(command)
        assert all(getattr(parameter, "help", None) for parameter in command.params)


@pytest.mark.parametrize("line", sorted({*_typed_in_help(), *_typed_in_pages()}))
def test_what_people_are_told_to_type_can_be_typed(line: str) -> None:
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in _SHELL), len(words))
    command: Any = get_command(app)
    rest = words[1:end]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no `threadline {rest[0]}`"
        command, rest = command.commands[rest[0]], rest[1:]
    if not {"--help", "-h", "--version"} & set(rest):
        command.make_context("threadline", rest).close()
