"""The names, parameters and defaults that code written for the original relies on."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from threadline import compat
from threadline.compat import GatewayConfig, SessionDB, SessionManager, SessionStore

NAMES = [
    "GatewayConfig HomeChannel Platform PlatformConfig SessionContext SessionDB SessionEntry SessionManager",
    "SessionResetPolicy SessionSource SessionState SessionStore build_session_context build_session_context_prompt",
    "build_session_key",
]
REQUIRED = inspect.Parameter.empty

# Each call as the original declares it: the parameters in order with their defaults; those behind `*` by name only.
CALLS: dict[str, list[Any]] = {
    "build_session_key": ["source", ("group_sessions_per_user", True), ("thread_sessions_per_user", False)],
    "build_session_context": ["source", "config", ("session_entry", None)],
    "build_session_context_prompt": ["context", "*", ("redact_pii", False)],
    "SessionStore.get_or_create_session": ["source", ("force_new", False)],
    "SessionStore.update_session": [
        "session_key",
        ("last_prompt_tokens", None),
        "*",
        ("input_tokens", 0),
        ("output_tokens", 0),
    ],
    "SessionStore.reset_session": ["session_key"],
    "SessionStore.switch_session": ["session_key", "target_session_id"],
    "SessionStore.list_sessions": [("active_minutes", None)],
    "SessionStore.has_any_sessions": [],
    "SessionStore.append_to_transcript": ["session_id", "message", ("skip_db", False)],
    "SessionStore.rewrite_transcript": ["session_id", "messages"],
    "SessionStore.load_transcript": ["session_id"],
    "SessionStore.get_transcript_path": ["session_id"],
    "SessionManager.create_session": [("cwd", ".")],
    "SessionManager.get_session": ["session_id"],
    "SessionManager.fork_session": ["session_id", ("cwd", ".")],
    "SessionManager.update_cwd": ["session_id", "cwd"],
    "SessionManager.list_sessions": [],
    "SessionManager.remove_session": ["session_id"],
    "SessionManager.save_session": ["session_id"],
    "SessionManager.cleanup": [],
    "SessionManager": [("agent_factory", None), ("db", None)],
    "SessionDB": [("db_path", None)],
}
FIELDS: dict[str, list[str]] = {
    "HomeChannel": ["platform", "chat_id", "name"],
    "PlatformConfig": ["enabled", "token", "api_key", "home_channel", "reply_to_mode", "extra"],
    "SessionResetPolicy": ["mode", "at_hour", "idle_minutes", "notify", "notify_exclude_platforms"],
    "GatewayConfig": [
        "platforms",
        "default_reset_policy",
        "reset_by_type",
        "reset_by_platform",
        "sessions_dir",
        "group_sessions_per_user",
        "thread_sessions_per_user",
    ],
    "SessionSource": [
        "platform",
        "chat_id",
        "chat_name",
        "chat_type",
        "user_id",
        "user_name",
        "thread_id",
        "chat_topic",
        "user_id_alt",
        "chat_id_alt",
    ],
    "SessionEntry": ["session_key", "session_id", "created_at", "updated_at"],
    "SessionState": ["session_id", "agent", "cwd", "model", "history", "cancel_event"],
    "SessionContext": ["source", "connected_platforms", "home_channels", "session_key", "session_id"],
}


def declared(call: Callable[..., Any]) -> list[Any]:
    """The parameters of a call as they stand in the tables above."""
    shown: list[Any] = []
    for one in inspect.signature(call).parameters.values():
        if one.name == "self":
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(one.name if one.default is REQUIRED else (one.name, one.default))
    return shown


def test_the_package_has_the_names_of_the_original() -> None:
    assert sorted(compat.__all__) == sorted(" ".join(NAMES).split())


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_parameters_of_the_original(name: str) -> None:
    call: Any = compat
    for part in name.split("."):
        call = getattr(call, part)
    assert declared(call) == CALLS[name]


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_has_the_positional_fields_of_the_original(name: str) -> None:
    fields = [one.name for one in dataclasses.fields(getattr(compat, name))]
    assert fields[: len(FIELDS[name])] == FIELDS[name]


def test_a_store_is_made_as_there() -> None:
    names = list(inspect.signature(SessionStore).parameters)
    assert names == ["sessions_dir", "config", "has_active_processes_fn", "on_auto_reset"]


def test_making_a_store_opens_and_writes_nothing(tmp_path: Path) -> None:
    config = GatewayConfig()
    store = SessionStore(tmp_path / "none", config)
    assert store.sessions_dir == tmp_path / "none"
    assert store.config is config
    assert not (tmp_path / "none").exists()


def test_a_folder_given_as_text_is_a_path(tmp_path: Path) -> None:
    assert SessionStore(str(tmp_path), GatewayConfig()).sessions_dir == tmp_path


def test_the_first_use_makes_the_store_file_in_the_folder(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "a" / "b", GatewayConfig()) as store:
        assert store.list_sessions() == []
    assert (tmp_path / "a" / "b" / "threadline.db").is_file()


def test_on_auto_reset_is_accepted_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="on_auto_reset"):
        SessionStore(tmp_path, GatewayConfig(), None, lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SessionStore(tmp_path, GatewayConfig())


def test_a_database_has_the_methods_that_the_original_calls() -> None:
    called = "create_session get_session append_message get_messages_as_conversation clear_messages search_sessions "
    for name in (called + "session_count end_session delete_session").split():
        assert callable(getattr(SessionDB, name))


def test_without_a_path_the_database_lies_in_the_data_folder_beside_the_gateways(data_folder: Path) -> None:
    with SessionDB() as db:
        assert db.session_count() == 0
    assert (data_folder / "compat.db").is_file()
    assert not (data_folder / "threadline.db").exists()


def test_a_manager_without_a_database_uses_that_one(data_folder: Path) -> None:
    manager = SessionManager()
    made = manager.create_session()
    manager._db.close()
    with SessionDB(data_folder / "compat.db") as db:
        assert [row["id"] for row in db.search_sessions()] == [made.session_id]
