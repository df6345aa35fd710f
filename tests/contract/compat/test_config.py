"""The configuration values: defaults, dictionaries and look-ups."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from threadline.compat import GatewayConfig, HomeChannel, Platform, PlatformConfig, SessionResetPolicy

PLATFORMS = (
    "local telegram discord whatsapp slack signal matrix mattermost email sms dingtalk feishu wecom homeassistant "
    "api_server webhook"
)


def test_the_platforms_are_those_of_the_original() -> None:
    assert issubclass(Platform, StrEnum)
    assert [platform.value for platform in Platform] == PLATFORMS.split()
    assert Platform("telegram") is Platform.TELEGRAM
    assert str(Platform.API_SERVER) == "api_server"


@pytest.mark.parametrize("value", ["irc", "", "Telegram", None])
def test_any_other_platform_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        Platform(value)


def test_a_policy_has_the_defaults_of_the_original() -> None:
    policy = SessionResetPolicy()
    assert (policy.mode, policy.at_hour, policy.idle_minutes, policy.notify) == ("both", 4, 1440, True)
    assert policy.notify_exclude_platforms == ("api_server", "webhook")


def test_a_platform_has_the_defaults_of_the_original() -> None:
    config = PlatformConfig()
    assert (config.enabled, config.token, config.api_key, config.home_channel) == (False, None, None, None)
    assert (config.reply_to_mode, config.extra) == ("first", {})


def test_a_gateway_has_the_defaults_of_the_original() -> None:
    config = GatewayConfig()
    assert (config.platforms, config.reset_by_type, config.reset_by_platform) == ({}, {}, {})
    assert config.default_reset_policy == SessionResetPolicy()
    assert (config.group_sessions_per_user, config.thread_sessions_per_user) == (True, False)
    assert isinstance(config.sessions_dir, Path)


def test_two_values_share_no_defaults() -> None:
    one, other = GatewayConfig(), GatewayConfig()
    one.platforms[Platform.SLACK] = PlatformConfig()
    one.default_reset_policy.mode = "none"
    PlatformConfig().extra["a"] = 1
    assert other.platforms == {}
    assert other.default_reset_policy.mode == "both"
    assert PlatformConfig().extra == {}


FULL = GatewayConfig(
    platforms={
        Platform.TELEGRAM: PlatformConfig(
            True, "t", None, HomeChannel(Platform.TELEGRAM, "99", "Home"), "all", {"a": [1]}
        ),
        Platform.SLACK: PlatformConfig(True, None, "k"),
    },
    default_reset_policy=SessionResetPolicy("idle", 7, 0, False, ("sms",)),
    reset_by_type={"group": SessionResetPolicy("none")},
    reset_by_platform={Platform.DISCORD: SessionResetPolicy("daily")},
    sessions_dir=Path("/var/old"),
    group_sessions_per_user=False,
    thread_sessions_per_user=True,
)


@pytest.mark.parametrize("value", [FULL, GatewayConfig(), FULL.platforms[Platform.TELEGRAM], SessionResetPolicy()])
def test_a_dictionary_gives_an_equal_value(value: Any) -> None:
    assert type(value).from_dict(value.to_dict()) == value


def test_a_dictionary_is_plain() -> None:
    plain = FULL.to_dict()
    assert plain["platforms"]["telegram"]["home_channel"] == {"platform": "telegram", "chat_id": "99", "name": "Home"}
    assert plain["sessions_dir"] == "/var/old"
    assert plain["reset_by_platform"]["discord"]["mode"] == "daily"
    assert {type(key) for key in plain["platforms"]} == {str}


@pytest.mark.parametrize("kind", [GatewayConfig, PlatformConfig, SessionResetPolicy])
def test_null_and_missing_mean_the_default(kind: Any) -> None:
    assert kind.from_dict({}) == kind()
    assert kind.from_dict(dict.fromkeys(kind().to_dict())) == kind()


def test_false_and_nought_are_kept() -> None:
    assert SessionResetPolicy.from_dict({"idle_minutes": 0, "at_hour": 0, "notify": False}) == SessionResetPolicy(
        at_hour=0, idle_minutes=0, notify=False
    )
    assert GatewayConfig.from_dict({"group_sessions_per_user": False}).group_sessions_per_user is False


def test_the_home_channel_of_a_platform() -> None:
    home = HomeChannel(Platform.TELEGRAM, "99", "Home")
    assert FULL.get_home_channel(Platform.TELEGRAM) == home
    assert FULL.get_home_channel(Platform.SLACK) is None
    assert FULL.get_home_channel(Platform.EMAIL) is None


def test_connected_are_the_enabled_platforms_with_what_they_need() -> None:
    config = GatewayConfig(
        platforms={
            Platform.TELEGRAM: PlatformConfig(True, "t"),
            Platform.DISCORD: PlatformConfig(False, "t"),
            Platform.SLACK: PlatformConfig(True),
            Platform.MATRIX: PlatformConfig(True, api_key="k"),
        }
    )
    assert config.get_connected_platforms() == [Platform.TELEGRAM, Platform.MATRIX]


def test_the_policy_of_the_platform_goes_before_that_of_the_type_before_the_default() -> None:
    by_platform, by_type = SessionResetPolicy("idle"), SessionResetPolicy("daily")
    config = GatewayConfig(reset_by_platform={Platform.TELEGRAM: by_platform}, reset_by_type={"group": by_type})
    assert config.get_reset_policy(Platform.TELEGRAM, "group") is by_platform
    assert config.get_reset_policy(platform=Platform.SLACK, session_type="group") is by_type
    assert config.get_reset_policy(Platform.SLACK, "dm") is config.default_reset_policy
    assert config.get_reset_policy() is config.default_reset_policy
    assert config.get_reset_policy(session_type="group") is by_type
