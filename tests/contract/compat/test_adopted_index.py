"""The index of an older folder: which session is current under which key, and that it is taken in once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.contract.compat.old_folders import REVISIONS, entry, fingerprints, origin, write_index, write_lines
from tests.contract.compat.talk import current, dm, group, texts

from threadline.compat import GatewayConfig, Platform, SessionSource, SessionStore

Open = Callable[..., SessionStore]
KEY = "agent:main:telegram:dm:7"


@pytest.fixture(autouse=True)
def files_stay(folder: Path) -> Iterator[None]:
    """Whatever a test does here, no older file is touched after the first opening."""
    yield
    assert (folder / "sessions.json").is_file()


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_entry_of_each_revision_is_current(folder: Path, open_store: Open, revision: str) -> None:
    fields = REVISIONS[revision]
    write_index(folder, entry("20250601_100000_ab12", **fields))
    write_lines(folder, "20250601_100000_ab12", "hello")
    before = fingerprints(folder)
    store = open_store()
    (found,) = store.list_sessions()
    assert (found.session_id, found.session_key) == ("20250601_100000_ab12", KEY)
    assert found.created_at == datetime(2025, 6, 1, 10, 0, 0, 123456)  # noqa: DTZ001
    assert found.updated_at == datetime(2025, 6, 2, 11)  # noqa: DTZ001
    for name, value in fields.items():
        if name not in ("origin", "total_tokens", "platform") and hasattr(found, name):
            assert getattr(found, name) == value, name
    assert found.platform is Platform.TELEGRAM
    assert found.memory_flushed == bool(fields.get("memory_flushed") or fields.get("expiry_finalized"))
    again = store.get_or_create_session(dm())
    assert again.session_id == "20250601_100000_ab12"
    assert not again.was_auto_reset
    assert texts(store, again.session_id) == ["hello"]
    store.close()
    assert fingerprints(folder) == before


def test_an_origin_is_kept(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **REVISIONS["newest"]))
    assert open_store().list_sessions()[0].origin == SessionSource(Platform.TELEGRAM, "7", user_id="7", user_name="Ada")


@pytest.mark.parametrize("old_key", ["agent:main:telegram:dm", "telegram:7", "ünlikely key", "agent:main:telegram:7"])
def test_an_older_key_and_the_key_of_the_origin_lead_to_the_session(
    folder: Path, open_store: Open, old_key: str
) -> None:
    write_index(folder, entry("s", old_key, **origin()))
    store = open_store()
    assert store.get_or_create_session(dm()).session_id == "s"
    store.update_session(old_key, 5)
    assert store.list_sessions()[0].last_prompt_tokens == 5
    new = store.reset_session(old_key)
    assert new is not None
    assert store.get_or_create_session(dm()).session_id == new.session_id
    back = store.switch_session(old_key, "s")
    assert back is not None
    assert back.session_id == "s"
    assert len(store.list_sessions()) == 1


def test_the_settings_decide_where_an_origin_leads(folder: Path, open_store: Open) -> None:
    fields = origin("-5", chat_type="group", user_id="7")
    write_index(folder, entry("s", "agent:main:telegram:group:-5", **fields))
    config = GatewayConfig(group_sessions_per_user=False)
    config.default_reset_policy.mode = "none"
    assert open_store(config).get_or_create_session(group(user="8")).session_id == "s"


def test_a_shared_entry_is_current_for_the_member_of_its_origin(folder: Path, open_store: Open) -> None:
    fields = origin("-5", chat_type="group", user_id="7")
    write_index(folder, entry("s", "agent:main:telegram:group:-5", **fields))
    store = open_store()
    assert store.get_or_create_session(group()).session_id == "s"
    assert store.get_or_create_session(group(user="8")).session_id != "s"
    assert store.get_or_create_session(group(user=None)).session_id == "s"


def test_without_an_origin_the_stored_key_leads_to_it(folder: Path, open_store: Open) -> None:
    write_index(
        folder, entry("a"), entry("b", "agent:main:telegram:group:-5:7"), entry("c", "agent:main:discord:forum:1:7")
    )
    store = open_store()
    assert store.get_or_create_session(dm()).session_id == "a"
    assert store.get_or_create_session(group()).session_id == "b"
    assert store.get_or_create_session(SessionSource(Platform.DISCORD, "1", None, "forum", "7")).session_id == "c"
    assert len(store.list_sessions()) == 3


@pytest.mark.parametrize("newer_first", [True, False])
def test_of_two_entries_for_one_origin_the_newest_is_current_and_the_other_listed(
    folder: Path, open_store: Open, newer_first: bool
) -> None:
    old = entry("old", "agent:main:telegram:dm", **origin())
    new = entry("new", KEY, **origin()) | {"updated_at": "2025-07-01T00:00:00"}
    write_index(folder, *((new, old) if newer_first else (old, new)))
    write_lines(folder, "old", "o")
    write_lines(folder, "new", "n")
    store = open_store()
    assert store.get_or_create_session(dm()).session_id == "new"
    assert {found.session_id for found in store.list_sessions()} == {"old", "new"}
    assert (texts(store, "old"), texts(store, "new")) == (["o"], ["n"])
    switched = store.switch_session(KEY, "old")
    assert switched is not None
    assert store.get_or_create_session(dm()).session_id == "old"


def test_an_entry_that_is_newer_than_a_session_of_ours_takes_its_place(folder: Path, open_store: Open) -> None:
    store = open_store()
    ours = store.get_or_create_session(dm())
    ours.updated_at = datetime(2025, 1, 1)  # noqa: DTZ001
    other = store.get_or_create_session(dm("8"))
    store.close()
    later, earlier = origin(), origin("8")
    write_index(folder, entry("s", **later), entry("t", "agent:main:telegram:dm:8", **earlier))
    again = open_store()
    assert again.get_or_create_session(dm()).session_id == "s"
    assert again.get_or_create_session(dm("8")).session_id == other.session_id
    assert {found.session_id for found in again.list_sessions()} == {"s", "t", ours.session_id, other.session_id}


def test_adoption_itself_resets_nothing_but_the_policy_does_later(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "hello")
    store = open_store(GatewayConfig())
    assert current(store) == {KEY: "s"}
    assert texts(store, "s") == ["hello"]
    assert current(store) == {KEY: "s"}
    new = store.get_or_create_session(dm())
    assert (new.was_auto_reset, new.auto_reset_reason, new.reset_had_activity) == (True, "idle", True)
    assert texts(store, "s") == ["hello"]


def test_loading_does_not_make_an_old_session_look_used(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()))
    write_lines(folder, "s", "hello")
    store = open_store()
    store.load_transcript("s")
    assert store.list_sessions()[0].updated_at == datetime(2025, 6, 2, 11)  # noqa: DTZ001
    assert store.list_sessions(active_minutes=60) == []


DAMAGED: dict[str, Any] = {
    "no-object": "text",
    "no-id": {"created_at": "2025-06-01T10:00:00", "updated_at": "2025-06-01T10:00:00"},
    "null": None,
    "no-times": {"session_id": "x1"},
    "bad-time": {"session_id": "x2", "created_at": "yesterday", "updated_at": "2025-06-01T10:00:00"},
    "path": {
        "session_id": "../../etc/passwd",
        "created_at": "2025-06-01T10:00:00",
        "updated_at": "2025-06-01T10:00:00",
    },
    "hidden": {"session_id": ".x", "created_at": "2025-06-01T10:00:00", "updated_at": "2025-06-01T10:00:00"},
    "number": {"session_id": 5, "created_at": "2025-06-01T10:00:00", "updated_at": "2025-06-01T10:00:00"},
}


def test_damaged_entries_are_skipped(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()), **DAMAGED)
    store = open_store()
    assert current(store) == {KEY: "s"}
    assert {place.place for place in store.adopt_all().skipped} == set(DAMAGED)


@pytest.mark.parametrize(
    "fields",
    [
        {"input_tokens": "many", "output_tokens": None, "total_tokens": -5, "estimated_cost_usd": "x"},
        {"display_name": 5, "chat_type": 7, "cost_status": ["?"], "memory_flushed": "yes"},
        {"origin": "telegram", "platform": 5},
        {"origin": {"platform": "telegram"}},
        {"origin": {"chat_id": "7"}},
        {"origin": {"platform": "telegram", "chat_id": 7, "user_id": 7}},
    ],
)
def test_odd_values_in_an_entry_cost_no_session(folder: Path, open_store: Open, fields: dict[str, Any]) -> None:
    write_index(folder, entry("s", **fields), entry("t", "agent:main:telegram:dm:8", **origin("8")))
    write_lines(folder, "s", "hello")
    store = open_store()
    assert "t" in {found.session_id for found in store.list_sessions()}
    assert texts(store, "s") == ["hello"]


@pytest.mark.parametrize("platform", ["irc", "my-plugin"])
def test_an_unknown_platform_is_listed_without_one(folder: Path, open_store: Open, platform: str) -> None:
    write_index(folder, entry("s", f"agent:main:{platform}:dm:7", **origin(platform=platform)))
    (found,) = open_store().list_sessions()
    assert (found.session_id, found.platform, found.origin) == ("s", None, None)
    assert found.session_key == f"agent:main:{platform}:dm:7"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"_README": "x"}', b"[" * 5000])
def test_an_index_that_can_not_be_read_is_no_index(folder: Path, open_store: Open, content: bytes) -> None:
    (folder / "sessions.json").write_bytes(content)
    store = open_store()
    assert store.list_sessions() == []
    assert store.get_or_create_session(dm()).session_id
    assert (folder / "sessions.json").read_bytes() == content


def test_a_second_opening_adds_nothing(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()), entry("t", "old", **origin()))
    write_lines(folder, "s", "hello")
    store = open_store()
    store.get_or_create_session(dm())
    store.adopt_all()
    before = [found.to_dict() for found in store.list_sessions()]
    store.close()
    for _ in range(2):
        again = open_store()
        assert [found.to_dict() for found in again.list_sessions()] == before
        assert texts(again, "s") == ["hello"]
        report = again.adopt_all()
        assert (report.sessions, report.transcripts, report.messages) == (0, 0, 0)
        again.close()


def test_an_index_that_was_touched_or_grew_brings_only_what_is_new(folder: Path, open_store: Open) -> None:
    write_index(folder, entry("s", **origin()))
    store = open_store()
    new = store.get_or_create_session(dm(), force_new=True)
    store.close()
    write_index(folder, entry("s", **origin()), entry("t", "agent:main:telegram:dm:8", **origin("8")))
    again = open_store()
    assert again.get_or_create_session(dm()).session_id == new.session_id
    assert again.get_or_create_session(dm("8")).session_id == "t"


def test_a_long_index_is_taken_in_whole(folder: Path, open_store: Open) -> None:
    entries = [entry(f"s{n}", f"agent:main:telegram:dm:{n}", **origin(str(n))) for n in range(250)]
    write_index(folder, *entries)
    store = open_store()
    assert {found.session_id for found in store.list_sessions()} == {f"s{n}" for n in range(250)}
    assert store.get_or_create_session(dm("249")).session_id == "s249"
    assert store.has_any_sessions() is True


def test_the_index_that_the_original_wrote_is_read_as_it_is(folder: Path, open_store: Open) -> None:
    """Two spaces of indentation, escaped text, a thread and a topic."""
    source = {
        "platform": "discord", "chat_id": "1", "chat_name": "Gärten / rosen", "chat_type": "thread", "user_id": "7",
        "user_name": "Ada", "thread_id": "1", "chat_topic": None, "user_id_alt": "a", "chat_id_alt": None,
    }  # fmt: skip
    key = "agent:main:discord:thread:1:1"
    one = entry("s", key, platform="discord", chat_type="thread", display_name="Gärten", origin=source)
    (folder / "sessions.json").write_text(json.dumps({key: one}, indent=2))
    store = open_store()
    (found,) = store.list_sessions()
    assert found.origin == SessionSource.from_dict(source)
    assert (found.session_key, found.display_name, found.chat_type) == (key, "Gärten", "thread")
    assert store.get_or_create_session(SessionSource.from_dict(source)).session_id == "s"
