from __future__ import annotations

import pytest
from tests.unit.config.conftest import Load, Refused


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes", True),
        ("TRUE", True),
        ("1", True),
        (" on ", True),
        ("no", False),
        ("False", False),
        ("0", False),
        ("off", False),
    ],
)
def test_a_switch_is_said_in_many_ways(text: str, meaning: bool, load: Load) -> None:
    assert load(variables={"THREADLINE_GATEWAY__WELCOME": text}).gateway.welcome is meaning


def test_a_list_has_commas_or_is_a_toml_array(load: Load) -> None:
    for text in ("telegram:7, slack:U1 ,", '["telegram:7", "slack:U1"]'):
        assert load(variables={"THREADLINE_ACCESS__OWNERS": text}).access.owners == ("telegram:7", "slack:U1")


def test_names_are_read_without_regard_to_case(load: Load) -> None:
    assert load(variables={"threadline_web__Port": "9000"}).web.port == 9000


def test_a_variable_that_is_empty_counts_as_not_set(load: Load) -> None:
    assert load("[web]\nport = 1", {"THREADLINE_WEB__PORT": "", "THREADLINE_NONSENSE": ""}).web.port == 1


def test_other_variables_are_none_of_ours(load: Load) -> None:
    variables = dict.fromkeys(
        ("PATH", "THREADLINE_SOAK", "THREADLINE_SEED", "THREADLINE_SESSION_KEY", "THREADLINE_PROCESS_ID", "THREADLINE"),
        "1",
    )
    assert load(variables=variables).origins == {}


def test_a_variable_means_the_section_that_the_file_spells_otherwise(load: Load) -> None:
    config = load("[platforms.my-bot]\nPollSeconds = 1\n", {"THREADLINE_PLATFORMS__MY_BOT__POLLSECONDS": "5"})
    assert config.platforms["my-bot"].options == {"PollSeconds": 5}


def test_a_variable_makes_a_section_that_the_file_lacks(load: Load) -> None:
    variables = {
        "THREADLINE_AGENTS__WRITER__KIND": "model",
        "THREADLINE_AGENTS__WRITER__MODEL": "x:y",
        "THREADLINE_PLATFORMS__TELEGRAM__TOKEN": "env:T",
        "THREADLINE_PLATFORMS__TELEGRAM__PROXY__PORT": "1080",
        "THREADLINE_RESETS__TYPE__GROUP__MODE": "idle",
    }
    config = load(variables=variables)
    assert config.agents["writer"].model == "x:y"
    assert config.platforms["telegram"].options == {"token": "env:T", "proxy": {"port": 1080}}
    assert config.resets.type["group"].mode == "idle"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("5", 5),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"5"', "5"),
        ("plain words", "plain words"),
        ("1\nb = 2", "1\nb = 2"),
    ],
)
def test_where_no_type_is_declared_a_toml_value_is_one_and_all_else_is_text(
    text: str, meaning: object, load: Load
) -> None:
    config = load(variables={"THREADLINE_PLATFORMS__X__A": text})
    assert config.platforms["x"].options == {"a": meaning}


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("THREADLINE_WEB__PROT", "there is no such setting; did you mean THREADLINE_WEB__PORT?"),
        ("THREADLINE_WEB_PORT", "there is no such setting; did you mean THREADLINE_WEB__PORT?"),
        ("THREADLINE_GATEWY__WELCOME", "there is no such setting; did you mean THREADLINE_GATEWAY__WELCOME?"),
        (
            "THREADLINE_AGENTS__MAIN__MODL",
            "agents.main.modl: there is no such setting; did you mean agents.main.model?",
        ),
        (
            "THREADLINE_QQQQQQQQQQQQ",
            "there is no such setting; `threadline config init` writes a file with all there are",
        ),
        ("THREADLINE_WEB", "web is a section; set its settings, such as THREADLINE_WEB__HOST"),
        ("THREADLINE_AGENTS", "agents are sections; name one, such as THREADLINE_AGENTS__MAIN__…"),
        (
            "THREADLINE_AGENTS__MAIN",
            "agents.main is a section; set its settings, such as THREADLINE_AGENTS__MAIN__KIND",
        ),
        ("THREADLINE_WEB__PORT__X", "web.port is one setting: use THREADLINE_WEB__PORT"),
        ("THREADLINE_BINDINGS__AGENT", "bindings is one setting: use THREADLINE_BINDINGS"),
    ],
)
def test_a_variable_that_names_no_setting_is_told_with_the_nearest_name(
    variable: str, told: str, refused: Refused
) -> None:
    assert refused(variables={variable: "1"}) == [f"{variable}: {told}"]


def test_two_variables_for_one_setting_are_told_of(refused: Refused) -> None:
    assert refused(variables={"THREADLINE_WEB__PORT": "1", "threadline_web__port": "2"}) == [
        "threadline_web__port: THREADLINE_WEB__PORT sets web.port as well; keep one of them"
    ]


def test_a_value_that_is_no_text_is_told_of(refused: Refused) -> None:
    assert refused(variables={"THREADLINE_DB": "\udcff"}) == ["THREADLINE_DB: its value is no UTF-8 text; set it again"]


def test_what_a_list_of_sections_lacks_is_told_with_its_variable(refused: Refused) -> None:
    assert refused(variables={"THREADLINE_BINDINGS": "[{}]"}) == [
        "THREADLINE_BINDINGS: bindings#1: agent is missing; it has no default"
    ]
    assert refused(variables={"THREADLINE_BINDINGS": "nonsense"}) == [
        'THREADLINE_BINDINGS: bindings: found "nonsense"; write a section for each: [[bindings]]'
    ]


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("[platforms.x]\nproxy = 1", {"THREADLINE_PLATFORMS__X__PROXY__URL": "u"}),
        ("", {"THREADLINE_PLATFORMS__X__PROXY": "1", "THREADLINE_PLATFORMS__X__PROXY__URL": "u"}),
    ],
)
def test_a_value_where_a_variable_needs_a_section_is_told_of(
    text: str, variables: dict[str, str], refused: Refused
) -> None:
    assert refused(text, variables) == [
        "THREADLINE_PLATFORMS__X__PROXY__URL: platforms.x.proxy is set to a value and is no section; keep one of them"
    ]


def test_a_variable_for_a_section_that_the_file_made_something_else_is_told_of(refused: Refused) -> None:
    assert "this is a section" in refused("web = 1", {"THREADLINE_WEB__PORT": "1"})[0]
