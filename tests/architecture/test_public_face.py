"""The names that others build on: all there, all documented, and nothing promised that is not there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT

import threadline
from threadline import errors

PROMISED = {
    "SessionStore",
    "AsyncSessionStore",
    "SessionSource",
    "SessionEntry",
    "SessionContext",
    "SessionResetPolicy",
    "ResetPolicies",
    "SessionScope",
    "HomeChannel",
    "build_session_key",
    "build_session_context",
    "build_session_context_prompt",
    "ThreadlineError",
}
# The reference is written from the code itself, signatures and all.
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.parent.name != "reference"
]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_public_name_is_there_once() -> None:
    assert len(threadline.__all__) == len(set(threadline.__all__))
    assert [name for name in threadline.__all__ if not hasattr(threadline, name)] == []


def test_the_promised_names_are_public() -> None:
    assert PROMISED - set(threadline.__all__) == set()


def test_every_error_is_public_and_says_what_to_do() -> None:
    raised = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert {kind.__name__ for kind in raised} - set(threadline.__all__) == set()
    assert [kind for kind in raised if not issubclass(kind, errors.ThreadlineError) or not kind.__doc__] == []
    drawn = set(re.findall(r"\b[A-Z]\w+", errors.__doc__ or ""))
    assert {kind.__name__ for kind in raised} - drawn == set()


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(client: type) -> set[str]:
        return {name for name in dir(client) if not name.startswith("_")}

    assert verbs(threadline.SessionStore) == verbs(threadline.AsyncSessionStore)


def test_the_reference_knows_every_public_name() -> None:
    reference = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert [name for name in threadline.__all__ if not re.search(rf"\b{name}\b", reference)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_only_what_is_public(page: Path) -> None:
    examples = [ast.parse(example) for example in FENCE.findall(page.read_text())]
    imported = {
        alias.name
        for example in examples
        for node in ast.walk(example)
        if isinstance(node, ast.ImportFrom) and node.module == "threadline"
        for alias in node.names
    }
    assert imported - set(threadline.__all__) == set()
