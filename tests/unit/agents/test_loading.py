"""A function by its name, and the many ways in which a name can be wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from threadline.agents.function import FunctionTurn, load_callable
from threadline.errors import InvalidRequest


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that can be written into the current folder."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    return f"mine_{uuid4().hex}"


def write(name: str, text: str) -> None:
    path = Path(f"{name.replace('.', '/')}.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_function_of_the_current_folder_is_found(module: str) -> None:
    write(module, "def answer(turn):\n    return 'mine'\n")
    assert load_callable(f"{module}:answer").__name__ == "answer"


def test_what_it_imports_later_is_found_too(module: str) -> None:
    write(f"{module}_beside", "WORD = 'beside'")
    write(module, f"def answer(turn):\n    import {module}_beside as beside\n    return beside.WORD\n")
    view: FunctionTurn = None  # type: ignore[assignment]
    assert load_callable(f"{module}:answer")(view) == "beside"


def test_a_function_of_a_package_or_an_object_is_found(module: str) -> None:
    write(f"{module}.inner", "class Garden:\n    def water(self, turn): ...\nmine = Garden()\n")
    assert callable(load_callable(f"{module}.inner:mine.water"))


@pytest.mark.parametrize("name", ["", "answer", "mine:", ":answer", "mine.py:answer:x", "my-agent:answer", "../mine:a"])
def test_a_name_of_another_form_is_refused_with_the_right_form(name: str, module: str) -> None:
    with pytest.raises(InvalidRequest):
        load_callable(name)


def test_the_right_form_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"package\.module:name"):
        load_callable("answer")


def test_a_module_that_is_not_there_is_named(module: str) -> None:
    with pytest.raises(InvalidRequest, match=f"no module '{module}'"):
        load_callable(f"{module}:answer")
    with pytest.raises(InvalidRequest, match=f"no module '{module}'"):
        load_callable(f"{module}.inner:answer")


def test_what_the_module_itself_misses_is_named(module: str) -> None:
    write(module, "import no_such_thing_at_all")
    with pytest.raises(InvalidRequest, match=f"{module} needs the module 'no_such_thing_at_all'.*install it"):
        load_callable(f"{module}:answer")


def test_a_name_that_the_module_lacks_is_told(module: str) -> None:
    write(module, "def answer(turn): ...")
    with pytest.raises(InvalidRequest, match=f"{module} has no 'anwser'"):
        load_callable(f"{module}:anwser")


def test_what_can_not_be_called_is_refused(module: str) -> None:
    write(module, "answer = 42")
    with pytest.raises(InvalidRequest, match="is of type int and can't be called"):
        load_callable(f"{module}:answer")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nraise ValueError('sk-secret')", "ValueError in {}.py, line 2"),
        ("def answer(:\n", "SyntaxError in {}.py, line 1"),
        ("import sys\nsys.exit('sk-secret')", "SystemExit in {}.py, line 2"),
    ],
)
def test_an_import_that_fails_tells_where_and_not_with_what(module: str, text: str, told: str) -> None:
    write(module, text)
    with pytest.raises(InvalidRequest, match=told.format(module)) as error:
        load_callable(f"{module}:answer")
    assert "sk-secret" not in str(error.value)
    assert error.value.__cause__ is not None
