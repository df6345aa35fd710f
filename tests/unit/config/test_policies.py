from __future__ import annotations

import pytest
from tests.unit.config.conftest import Load

from threadline.config.derived import (
    agent_for,
    chat_settings_for,
    home_channels,
    installation_timezone,
    reset_policies,
    session_scope,
)
from threadline.config.settings import BindingSettings, ChatSettings, Settings
from threadline.model.address import SessionScope
from threadline.model.context import HomeChannel
from threadline.model.policy import ResetPolicies, SessionResetPolicy

BINDINGS = (
    BindingSettings(agent="telegram", platform="telegram"),
    BindingSettings(agent="chat", platform="telegram", chat="1"),
    BindingSettings(agent="work", platform="telegram", account="work"),
    BindingSettings(agent="work-chat", platform="telegram", account="work", chat="1"),
)


def test_the_defaults_are_those_of_the_model() -> None:
    assert reset_policies(Settings()) == ResetPolicies(by_platform={"web": SessionResetPolicy(mode="none")})
    assert session_scope(Settings()) == SessionScope()


def test_reset_rules_become_policies(load: Load) -> None:
    text = (
        '[resets]\nmode = "daily"\nat_hour = 5\n[resets.platform.slack]\nmode = "none"\n[resets.type.dm]\nmode = "idle"'
    )
    policies = reset_policies(load(text))
    assert policies.policy_for("telegram", "group") == SessionResetPolicy(mode="daily", at_hour=5)
    assert policies.policy_for("telegram", "dm") == SessionResetPolicy(mode="idle", at_hour=5)
    assert policies.policy_for("slack", "dm") == SessionResetPolicy(mode="none", at_hour=5)


def test_the_scope_is_as_it_is_set(load: Load) -> None:
    text = "[sessions]\ngroup_sessions_per_user = false\nthread_sessions_per_user = true"
    assert session_scope(load(text)) == SessionScope(group_sessions_per_user=False, thread_sessions_per_user=True)


def test_home_channels_are_as_they_are_set(load: Load) -> None:
    text = '[[home_channels]]\nplatform = "telegram"\nchat_id = "1"\nname = "Family"\nthread_id = "2"\naccount = "work"'
    assert home_channels(load(text)) == (HomeChannel("telegram", "1", "Family", "2", "work"),)


def test_the_zone_is_the_one_that_is_set_else_the_machines() -> None:
    assert installation_timezone(Settings(timezone="Asia/Tokyo")) == "Asia/Tokyo"
    assert installation_timezone(Settings())


@pytest.mark.parametrize(
    ("platform", "account", "chat", "agent"),
    [
        ("slack", "main", "1", "fallback"),
        ("telegram", "main", "2", "telegram"),
        ("telegram", "main", None, "telegram"),
        ("telegram", "main", "1", "chat"),
        ("telegram", "work", "2", "work"),
        ("telegram", "work", "1", "work-chat"),
    ],
)
def test_the_most_exact_binding_holds(platform: str, account: str, chat: str | None, agent: str) -> None:
    assert agent_for(BINDINGS, "fallback", platform, account, chat) == agent
    assert agent_for(reversed(BINDINGS), "fallback", platform, account, chat) == agent


def test_a_chat_is_more_exact_than_an_account() -> None:
    assert agent_for(BINDINGS[:3], "fallback", "telegram", "work", "1") == "chat"


def test_a_binding_for_everywhere_replaces_the_default() -> None:
    assert agent_for([BindingSettings(agent="all")], "fallback", "slack", "main", None) == "all"


def test_an_entry_for_the_very_account_goes_before_one_for_all() -> None:
    for_all = ChatSettings(platform="x", chat="1", role="guest")
    for_work = ChatSettings(platform="x", chat="1", account="work", role="trusted")
    for chats in ((for_all, for_work), (for_work, for_all)):
        assert chat_settings_for(chats, "x", "work", "1") == for_work
        assert chat_settings_for(chats, "x", "main", "1") == for_all
        assert chat_settings_for(chats, "x", "main", "2") is None
        assert chat_settings_for(chats, "y", "main", "1") is None


def test_conversations_on_the_page_start_afresh_only_where_that_is_asked_for(load: Load) -> None:
    daily = reset_policies(load('[resets]\nmode = "daily"'))
    assert daily.policy_for("web", "dm").mode == "none"
    assert daily.policy_for("telegram", "dm").mode == "daily"
    asked = reset_policies(load('[resets]\nmode = "daily"\n[resets.platform.web]\nmode = "idle"'))
    assert asked.policy_for("web", "dm").mode == "idle"
