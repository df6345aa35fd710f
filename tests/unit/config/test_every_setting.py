from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from tests.unit.config.cases import Case, companions, document, every_case, joined, value_at, values_of
from tests.unit.config.conftest import settings_of

from threadline.config.load import load_config
from threadline.config.schema import all_settings, fields_of, variable_of
from threadline.config.settings import DB, SETTINGS, Settings
from threadline.config.write import render_config, toml_value

CASES = list(every_case())
# The values of these are names of something else that must be there, too.
FREE_CASES = [case for case in CASES if companions(case.place, "x") == {} and not {0} & set(case.place)]


def _written(file: Path, raw: dict[str, Any]) -> Path:
    file.write_text("\n".join(f"{name} = {toml_value(value)}" for name, value in raw.items()), encoding="utf-8")
    return file


def _as_variable(case: Case, raw: dict[str, Any]) -> str:
    inner: Any = raw
    for part in case.place:
        if isinstance(part, int):
            break
        inner = inner[part]
    return inner if isinstance(inner, str) else toml_value(inner)


@pytest.mark.parametrize("case", CASES, ids=str)
@effort(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data())
def test_the_file_and_a_variable_set_the_same(case: Case, choice: st.DataObject, tmp_path: Path) -> None:
    value = choice.draw(values_of(case.value_type))
    beside, raw = companions(case.place, value), document(case.place, value)
    by_file = load_config(_written(tmp_path / "file.toml", joined(beside, raw)), {})
    variables = {variable_of(case.place): _as_variable(case, raw)}
    by_variable = load_config(_written(tmp_path / "variable.toml", beside), variables)
    assert settings_of(by_file) == settings_of(by_variable)
    assert value_at(by_file, case.place) == value


@effort(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data())
def test_what_is_shown_means_the_same_when_it_is_read_again(choice: st.DataObject, tmp_path: Path) -> None:
    raw: dict[str, Any] = {}
    for case in choice.draw(st.lists(st.sampled_from(FREE_CASES), max_size=12, unique=True)):
        if case.place[0] != "access" or case.value_type.kind == "switch":
            raw = joined(raw, document(case.place, choice.draw(values_of(case.value_type))))
    options = choice.draw(
        st.dictionaries(st.text("abc -.é", min_size=1), st.booleans() | st.integers() | st.text("a\"'\\\n\u202eé"))
    )
    raw = joined(raw, {"platforms": {"telegram": options}})
    config = load_config(_written(tmp_path / "one.toml", raw), {})
    again = tmp_path / "two.toml"
    again.write_text(render_config(config), encoding="utf-8")
    assert settings_of(load_config(again, {})) == settings_of(config)


@pytest.mark.parametrize("setting", list(all_settings(Settings)), ids=lambda setting: setting.name)
def test_every_setting_is_explained_in_one_line(setting: Any) -> None:
    assert setting.help
    assert "\n" not in setting.help
    assert not setting.help.endswith(".")
    assert setting.allowed


def test_every_setting_without_a_default_has_an_example_that_it_takes() -> None:
    for kind in _sections(Settings):
        for field in fields_of(kind):
            if isinstance(field.shape, type(CASES[0].value_type)) and (field.is_required or field.default is None):
                field.shape.read(str(field.example) if field.shape.kind == "secret" else field.example)


def test_every_default_is_a_value_that_the_setting_takes() -> None:
    for case in CASES:
        if 0 not in case.place and case.place[0] != "platforms" and case.place[1:2] not in (("platform",), ("type",)):
            default = value_at(Settings(), case.place)
            assert default is None or case.value_type.read(default) is not None


def test_the_setting_of_every_command_is_the_database() -> None:
    assert SETTINGS == (DB,)
    assert (DB.name, DB.variable) == ("db", "THREADLINE_DB")
    assert DB.help
    assert DB.default


def _sections(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    inner = [field.shape.kind for field in fields_of(kind) if hasattr(field.shape, "kind")]
    return [kind, *(found for section in inner if isinstance(section, type) for found in _sections(section))]
