from __future__ import annotations

import re
import tomllib
from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.config.cases import ACP
from tests.unit.config.conftest import Load, settings_of

from threadline.config.load import load_config
from threadline.config.read import line_numbers
from threadline.config.schema import all_settings
from threadline.config.settings import Settings
from threadline.config.write import config_reference, render_config, starter_text, toml_key, toml_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


# --- TOML -----------------------------------------------------------------------------------------


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: object) -> None:
    text = toml_value(value)
    assert tomllib.loads(f"value = {text}")["value"] == value
    assert text.isprintable()


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_a_name_is_read_as_it_was_written(names: list[str]) -> None:
    inner: object = tomllib.loads(f"[{toml_key(*names)}]")
    for name in names:
        assert isinstance(inner, dict)
        inner = inner[name]
    assert inner == {}


def test_dates_are_written_too() -> None:
    for value in (date(2026, 3, 1), time(14, 22), datetime(2026, 3, 1, 14, 22, tzinfo=UTC)):
        assert tomllib.loads(f"value = {toml_value(value)}") == {"value": value}


def test_what_has_no_toml_form_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType has no TOML form"):
        toml_value(None)


def test_every_value_has_a_line() -> None:
    text = '''\
# a comment = 1
top = """
[no.section]
"""
"quoted \\u202e name".inner = 1

[a.b]
list = [
  "[c]",  # ]
  { x = 1 },
]
[[rows]]
one = 1
[rows.part]
two = 2
[[rows]]

one = 1
[[rows.deep]]
x = 1
[[rows.deep]]
x = 1
'''
    lines = line_numbers(text)
    assert lines["top",] == 2
    assert lines["quoted \u202e name", "inner"] == 5
    assert lines["a", "b"] == 7
    assert lines["a", "b", "list"] == lines["a", "b", "list", 1, "x"] == 8
    assert (lines["rows", 0], lines["rows", 0, "one"]) == (12, 13)
    assert lines["rows", 0, "part", "two"] == 15
    assert (lines["rows", 1], lines["rows", 1, "one"]) == (16, 18)
    assert (lines["rows", 1, "deep", 0, "x"], lines["rows", 1, "deep", 1, "x"]) == (20, 22)
    assert ("no", "section") not in lines


# --- A file to start with -------------------------------------------------------------------------


def _uncommented(text: str) -> str:
    return re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE)


def test_a_starter_file_changes_nothing(load: Load) -> None:
    assert settings_of(load(starter_text())) == Settings()


def test_a_starter_file_names_every_setting_with_its_help() -> None:
    text = starter_text()
    for setting in all_settings(Settings):
        assert setting.help in text
        name = setting.name.rpartition(".")[2]
        assert name == "*" or f"\n#{name} = " in text


def test_a_line_of_the_starter_file_holds_the_default(load: Load) -> None:
    for line in re.findall(r"^#\w+ = .*", starter_text().partition("#[resets.platform")[0], flags=re.MULTILINE):
        section = re.findall(r"^\[.*\]$", starter_text().partition(line)[0], flags=re.MULTILINE)
        settings = settings_of(load(f"{section[-1] if section else ''}\n{line[1:]}"))
        # Those without a default show an example.
        assert (settings == Settings()) != line.startswith(("#db", '#timezone = "Eu', "#port", "#public_url"))


def test_every_line_of_the_starter_file_can_be_used(load: Load) -> None:
    text = _uncommented(starter_text())
    # Kinds of agents exclude each other.
    text = text.replace('kind = "echo"', 'kind = "model"').replace("\ncall = ", "\n#call = ")
    before, section, agents = text.partition("[agents.main]")
    for name in ACP:
        agents = agents.replace(f"\n{name} = ", f"\n#{name} = ", 1)
    config = load(before + section + agents)
    assert config.web.port == 8765
    assert config.agents["main"].model
    assert config.bindings[0].agent == "main"
    assert set(config.platforms) == {"telegram"}
    assert config.chats[0].role == "guest"


# --- What holds -----------------------------------------------------------------------------------


def test_what_is_no_default_is_shown_with_its_origin(load: Load, file: Path) -> None:
    text = '[web]\nport = 1\n[resets]\nat_hour = 5\n[resets.type.dm]\nmode = "idle"\n[platforms.x]\na = 1\n'
    variables = {"THREADLINE_LOG_LEVEL": "debug", "THREADLINE_ACCESS__OWNERS": "telegram:7"}
    lines = render_config(load(text, variables, {"web.host": "::1"})).splitlines()
    assert lines[0] == f"# {file}"
    assert 'log_level = "debug"  # from THREADLINE_LOG_LEVEL' in lines
    assert "port = 1  # from the file, line 2" in lines
    assert 'host = "::1"  # from the command line' in lines
    assert 'owners = ["telegram:7"]  # from THREADLINE_ACCESS__OWNERS' in lines
    assert "a = 1  # from the file, line 8" in lines
    assert "welcome = true" in lines
    assert "# timezone is not set: this machine's" in lines
    assert lines.count("at_hour = 5  # from the file, line 4") == 2


def test_of_a_secret_the_reference_is_shown_and_of_a_url_no_password(load: Load) -> None:
    shown = render_config(
        load(
            'db = "postgresql://me:s3cret@host/db"\n[agents.main]\napi_key = "env:API_KEY"\n'
            '[platforms.x]\nproxy = ["socks5://me:s3cret@host"]\ntoken = "file:/etc/token"',
            {"API_KEY": "s3cret"},
        )
    )
    assert "s3cret" not in shown
    assert 'api_key = "env:API_KEY"' in shown
    assert 'token = "file:/etc/token"' in shown
    assert 'db = "postgresql://me:…@host/db"' in shown


def test_sections_of_every_kind_are_shown_and_read_again(load: Load, tmp_path: Path) -> None:
    config = load(
        '[[bindings]]\nagent = "main"\n[[bindings]]\nagent = "main"\nplatform = "x"\nchat = 7\n'
        '[[chats]]\nplatform = "x"\nchat = 7\nrole = "guest"\n'
        '[[home_channels]]\nplatform = "x"\nchat_id = 1\nname = "a \\" b"\n'
        '[access]\nowners = ["x:1"]\nanswer_groups = ["*"]\n'
        '[agents.b]\nkind = "function"\ncall = "a:b"\n'
        '[platforms.x]\n"odd name" = { deep = [1, { a = "\\u202e" }] }\n'
        '[resets]\nmode = "both"\n[resets.platform.x]\nnotify = false\n[resets.type.thread]\n'
    )
    again = tmp_path / "again.toml"
    again.write_text(render_config(config), encoding="utf-8")
    assert settings_of(load_config(again, {})) == settings_of(config)


# --- The reference --------------------------------------------------------------------------------


def test_the_reference_names_every_setting() -> None:
    page = config_reference()
    for setting in all_settings(Settings):
        assert setting.help.replace("|", "\\|") in page
        assert setting.variable.replace("__*", "__…") in page
    assert page == config_reference()
    assert page.endswith("\n")


def test_every_table_of_the_reference_is_whole() -> None:
    rows = [line for line in config_reference().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
