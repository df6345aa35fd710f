from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.config.conftest import Load, Refused, settings_of

from threadline.config.load import config_path, load_config
from threadline.config.read import read_settings
from threadline.config.secrets import Secret
from threadline.config.settings import AgentSettings, Config, Origin, Settings
from threadline.errors import ConfigError, InvalidRequest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without a configuration in it."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return tmp_path / "home"


# --- Which file -----------------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold(home: Path) -> None:
    assert load_config(environment={}) == Config()
    assert settings_of(load_config(environment={})) == Settings()


def test_the_users_own_file_is_read_where_none_is_named(home: Path) -> None:
    file = config_path(environment={})
    assert file.name == "config.toml"
    assert file.is_relative_to(home)
    file.parent.mkdir(parents=True)
    file.write_text('log_level = "debug"')
    config = load_config(environment={})
    assert (config.log_level, config.path) == ("debug", file)


def test_a_named_file_goes_before_the_variable_and_that_before_the_users_own(home: Path, tmp_path: Path) -> None:
    own = config_path(environment={})
    own.parent.mkdir(parents=True)
    for path, host in ((own, "own"), (tmp_path / "variable.toml", "variable"), (tmp_path / "named.toml", "named")):
        path.write_text(f'[web]\nhost = "{host}"')
    variables = {"THREADLINE_CONFIG": str(tmp_path / "variable.toml")}
    assert load_config(environment=variables).web.host == "variable"
    assert load_config(tmp_path / "named.toml", variables).web.host == "named"
    assert load_config(environment={"THREADLINE_CONFIG": ""}).web.host == "own"


def test_a_named_file_that_is_missing_is_told_of(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    for path, variables in ((missing, {}), (None, {"THREADLINE_CONFIG": str(missing)})):
        with pytest.raises(ConfigError, match=r"there is no file .*none\.toml; `threadline config init --path"):
            load_config(path, variables)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load_config(tmp_path, {})


def test_a_file_may_begin_with_a_byte_order_mark_and_end_its_lines_like_windows(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[web]\r\nport = 1\r\n")
    config = load_config(file, {})
    assert config.web.port == 1
    assert config.origins["web", "port"] == Origin(line=2)


# --- What goes before what ------------------------------------------------------------------------


def test_a_variable_goes_before_the_file_and_the_command_line_before_both(load: Load) -> None:
    text, variables = "[web]\nport = 1", {"THREADLINE_WEB__PORT": "2"}
    assert load(text).web.port == 1
    assert load(text, variables).web.port == 2
    assert load(text, variables, {"web.port": 3}).web.port == 3
    assert load(text, variables, {"web.port": None, "db": None}).web.port == 2


def test_every_value_knows_where_it_came_from(load: Load) -> None:
    config = load(
        '[web]\nhost = "a"\nport = 1\n\n[[bindings]]\nagent = "main"\nplatform = "telegram"\n',
        {"THREADLINE_WEB__PORT": "2"},
        {"log_level": "debug"},
    )
    assert str(config.origins["web", "host"]) == "from the file, line 2"
    assert str(config.origins["web", "port"]) == "from THREADLINE_WEB__PORT"
    assert str(config.origins["log_level",]) == "from the command line"
    assert config.origins["bindings", 0, "platform"].line == 7
    assert ("web", "nothing") not in config.origins


def test_a_variable_replaces_a_list_as_a_whole(load: Load) -> None:
    text = '[[bindings]]\nagent = "main"\nplatform = "slack"\n[[bindings]]\nagent = "main"'
    config = load(text, {"THREADLINE_BINDINGS": '[{agent = "main", platform = "discord"}]'})
    assert [binding.platform for binding in config.bindings] == ["discord"]
    assert [place for place in config.origins if place[0] == "bindings"] == [("bindings",)]


def test_the_main_agent_is_always_there(load: Load) -> None:
    assert load("").agents == {"main": AgentSettings()}
    agents = load('[agents.other]\nkind = "function"\ncall = "a.b:c"').agents
    assert set(agents) == {"main", "other"}
    assert agents["main"].kind == "echo"


def test_a_platform_is_of_the_kind_that_its_section_names(load: Load) -> None:
    platforms = load('[platforms.telegram]\n[platforms.work]\nkind = "slack"').platforms
    assert {name: platform.kind for name, platform in platforms.items()} == {"telegram": "telegram", "work": "slack"}


def test_the_further_settings_of_a_platform_are_kept_as_they_are(load: Load) -> None:
    platform = load('[platforms.x]\nenabled = false\ntoken = "env:T"\nrooms = [1, "a"]\n[platforms.x.proxy]\nurl = "u"')
    assert platform.platforms["x"].enabled is False
    assert platform.platforms["x"].options == {"token": "env:T", "rooms": [1, "a"], "proxy": {"url": "u"}}


def test_a_rule_takes_what_it_leaves_out_from_the_common_one(load: Load) -> None:
    text = '[resets]\nmode = "daily"\nat_hour = 5\n[resets.type.group]\nat_hour = 6\n[resets.platform.slack]\nmode = "none"'
    resets = load(text, {"THREADLINE_RESETS__NOTIFY": "no"}).resets
    group, slack = resets.type["group"], resets.platform["slack"]
    assert (group.mode, group.at_hour, group.notify) == ("daily", 6, False)
    assert (slack.mode, slack.at_hour, slack.notify) == ("none", 5, False)


def test_ids_may_be_written_as_numbers(load: Load) -> None:
    text = '[[home_channels]]\nplatform = "telegram"\nchat_id = -100123\nname = "Family"\nthread_id = 7'
    (home,) = load(text).home_channels
    assert (home.chat_id, home.thread_id) == ("-100123", "7")


def test_a_whole_number_of_seconds_is_a_number(load: Load) -> None:
    assert load("[gateway]\nburst_seconds = 2").gateway.burst_seconds == 2.0


def test_a_secret_is_a_reference(load: Load) -> None:
    assert load('[agents.main]\napi_key = "env:KEY"').agents["main"].api_key == Secret("env:KEY")


# --- Settings that others declare -----------------------------------------------------------------


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two numbers in order."""

    low: int
    high: int = 10
    key: Secret | None = None

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidRequest("low is above high; swap them")


def test_a_platform_reads_its_own_settings_in_the_same_way() -> None:
    assert read_settings(Pair, {"low": 1, "key": "env:K"}) == Pair(low=1, key=Secret("env:K"))
    with pytest.raises(ConfigError) as error:
        read_settings(Pair, {"high": "x", "lowe": 3}, ("platforms", "pair"))
    assert str(error.value).splitlines() == [
        'platforms.pair.high: found "x"; use a whole number',
        "platforms.pair.lowe: there is no such setting; did you mean platforms.pair.low?",
        "platforms.pair: low is missing; it has no default",
    ]
    with pytest.raises(ConfigError, match="pair: low is above high; swap them"):
        read_settings(Pair, {"low": 11}, ("pair",))


def test_a_section_is_read_again_after_it_was_refused(load: Load, refused: Refused) -> None:
    assert refused("[web]\nport = 70000")
    assert load("[web]\nport = 7000").web.port == 7000
