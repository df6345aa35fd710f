from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.conftest import Cli

from threadline import SessionStore, UnknownSession
from threadline.model.message import encode_message
from threadline.testing import FakeClock, assistant, dm, user


def _talk(store: SessionStore, person: str = "7", *texts: str, platform: str = "telegram") -> str:
    entry = store.get_or_create_session(dm(person, platform=platform, user_name=f"Ada {person}"))
    for text in texts or ("is the garden dry?",):
        store.append_to_transcript(entry.session_id, [user(text), assistant(f"about {text}")])
    return entry.session_id


def test_a_list_shows_the_most_recently_updated_session_first(store: SessionStore, clock: FakeClock, cli: Cli) -> None:
    first = _talk(store, "7")
    clock.advance(timedelta(hours=1))
    second = _talk(store, "8")
    shown = cli("sessions", "list")
    assert shown.code == 0
    assert shown.out.index(second) < shown.out.index(first)
    assert "DM with Ada 7" in shown.out
    assert [entry["session_id"] for entry in cli("sessions", "list", "--json").json()["sessions"]] == [second, first]


def test_a_list_is_narrowed_by_platform_person_and_activity(store: SessionStore, clock: FakeClock, cli: Cli) -> None:
    telegram = _talk(store, "7")
    matrix = _talk(store, "8", platform="matrix")

    def ids(*options: str) -> list[str]:
        return [entry["session_id"] for entry in cli("sessions", "list", "--json", *options).json()["sessions"]]

    assert ids("--platform", "matrix") == [matrix]
    assert ids("--person", "telegram:7") == [telegram]
    # The store's clock stands in the past; the command's is the machine's.
    assert ids("--active-minutes", "5") == []


def test_ended_sessions_are_listed_only_when_asked_for(store: SessionStore, cli: Cli) -> None:
    old = _talk(store)
    store.get_or_create_session(dm("7"), force_new=True)
    assert old not in cli("sessions", "list").out
    everything = cli("sessions", "list", "--all").out
    assert old in everything
    assert "ended" in everything


def test_a_long_list_comes_in_pages(store: SessionStore, clock: FakeClock, cli: Cli) -> None:
    made = []
    for person in "abc":
        made.append(_talk(store, person))
        clock.advance(timedelta(minutes=1))
    seen, cursor = [], None
    while True:
        page = cli("sessions", "list", "--json", "--limit", "2", *(["--cursor", cursor] if cursor else [])).json()
        seen += [entry["session_id"] for entry in page["sessions"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert "--cursor" in cli("sessions", "list", "--limit", "2").err


def test_a_session_is_shown_with_its_last_messages(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store, "7", "first question", "second question")
    shown = cli("sessions", "show", session_id, "--limit", "2").out
    assert "second question" in shown
    assert "first question" not in shown
    assert f"{session_id}:4" not in shown
    assert f"{session_id}:4" in cli("sessions", "show", session_id, "--ids").out


def test_what_was_undone_is_shown_only_with_all(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store, "7", "keep this", "take this back")
    store.rewind_session(session_id)
    assert "take this back" not in cli("sessions", "show", session_id).out
    assert "take this back" in cli("sessions", "show", session_id, "--all").out
    tail = cli("sessions", "show", session_id, "--all", "--limit", "1", "--json").json()["messages"]
    assert [message["message"] for message in tail] == [assistant("about take this back")]


def test_a_tool_call_is_shown_by_its_name_and_arguments(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store)
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"bed": 3}'}}
    blocks = [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": "x"}}]
    store.append_to_transcript(
        session_id, [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "user", "content": blocks}]
    )
    shown = cli("sessions", "show", session_id).out
    assert 'look_up({"bed": 3})' in shown
    assert "seen" in shown
    assert "(image_url)" in shown


def test_the_files_of_a_message_are_shown_by_their_names(store: SessionStore, cli: Cli) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    files = [{"handle": "file:1", "name": "plan\x1b[2J.txt"}, {"no": "file"}]
    store.append_to_transcript(session_id, {"role": "assistant", "content": None, "attachments": files})
    assert "(file: plan.txt)" in cli("sessions", "show", session_id).out


def test_a_search_shows_the_found_words_and_where_they_stand(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store, "7", "the roses want water")
    found = cli("sessions", "search", "roses", "--role", "user")
    assert "  the roses want water\n" in found.out
    assert "[[" not in found.out
    assert f"{session_id}:1" in found.out
    hits = cli("sessions", "search", "roses", "--json").json()
    assert {hit["message"]["id"] for hit in hits["hits"]} == {f"{session_id}:1", f"{session_id}:2"}
    assert hits["behind"] == 0
    assert "the [[roses]] want water" in [hit["snippet"] for hit in hits["hits"]]
    assert cli("sessions", "search", "tulips").out == "Nothing found.\n"


def test_a_search_is_narrowed_by_time_place_and_person(store: SessionStore, clock: FakeClock, cli: Cli) -> None:
    march = _talk(store, "7", "roses")
    clock.advance(timedelta(days=31))
    april = _talk(store, "8", "roses", platform="matrix")

    def found(*options: str) -> set[str]:
        hits = cli("sessions", "search", "roses", "--json", *options).json()["hits"]
        return {hit["session"]["session_id"] for hit in hits}

    assert found() == {march, april}
    assert found("--since", "2026-04-01") == {april}
    assert found("--until", "2026-03-01") == {march}
    assert found("--until", "2026-02-28") == set()
    assert found("--since", "2026-03-01T14:22:00+00:00", "--until", "2026-03-01T14:22:01Z") == {march}
    assert found("--platform", "matrix") == {april}
    assert found("--person", "telegram:7") == {march}
    assert found("--session", april) == {april}
    newest = cli("sessions", "search", "roses", "--json", "--newest", "--limit", "1").json()
    assert newest["hits"][0]["session"]["session_id"] == april
    assert newest["cursor"]


def test_a_title_is_set_and_taken_away(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store)
    assert "Garden plans" in cli("sessions", "title", session_id, "Garden plans").out
    assert store.get_session(session_id).title == "Garden plans"
    assert cli("sessions", "title", session_id, "--clear").code == 0
    assert store.get_session(session_id).title is None
    assert cli("sessions", "title", session_id).code == 2
    assert cli("sessions", "title", session_id, "Both", "--clear").code == 2


def test_an_export_has_one_message_a_line_exactly_as_stored(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store, "7", "naïve 日本 \x1b[31m \ud83c")
    messages = store.load_transcript(session_id)
    exported = cli("sessions", "export", session_id)
    assert exported.out == "".join(f"{encode_message(message).body}\n" for message in messages)
    assert [json.loads(line) for line in exported.out.splitlines()] == messages
    assert cli("sessions", "export", session_id, "--limit", "1").out.splitlines() == exported.out.splitlines()[-1:]


def test_a_long_log_is_exported_whole(store: SessionStore, cli: Cli) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    messages = [user(f"line {number}") for number in range(1_201)]
    store.append_to_transcript(session_id, messages)
    assert [json.loads(line) for line in cli("sessions", "export", session_id, "--all").out.splitlines()] == messages


def test_an_export_to_a_file_is_private_and_overwrites_nothing(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    session_id = _talk(store)
    target = tmp_path / "talk.jsonl"
    written = cli("sessions", "export", session_id, "-o", str(target))
    assert written.out == ""
    assert "2 messages" in written.err
    assert [json.loads(line) for line in target.read_text().splitlines()] == store.load_transcript(session_id)
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    again = cli("sessions", "export", session_id, "-o", str(target), "--format", "html")
    assert again.code == 1
    assert "exists" in again.err
    assert target.read_bytes() == before
    assert "can't be made" in cli("sessions", "export", session_id, "-o", str(tmp_path / "no" / "where")).err


def test_nothing_is_deleted_unasked(store: SessionStore, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = _talk(store)
    for command in (["delete", session_id], ["prune", "--older-than", "1h"]):
        refused = cli("sessions", *command)
        assert refused.code == 1
        assert "--yes" in refused.err
        assert store.get_session(session_id).message_count == 2


def test_a_deleted_session_is_gone(store: SessionStore, cli: Cli) -> None:
    session_id = _talk(store)
    assert cli("sessions", "delete", session_id, "--yes").code == 0
    with pytest.raises(UnknownSession):
        store.get_session(session_id)


def test_a_prune_takes_what_is_old_and_nothing_else(store: SessionStore, clock: FakeClock, cli: Cli) -> None:
    ended = _talk(store, "7")
    store.get_or_create_session(dm("7"), force_new=True)
    _talk(store, "8", platform="matrix")
    assert cli("sessions", "prune", "--older-than", "1h", "--dry-run", "--json").json() == {
        "sessions": 3,
        "dry_run": True,
    }
    assert cli("sessions", "prune", "--older-than", "1000y", "--yes").out == "Deleted 0 sessions.\n"
    assert cli("sessions", "prune", "--older-than", "1h", "--ended-only", "--yes").out == "Deleted 1 session.\n"
    with pytest.raises(UnknownSession):
        store.get_session(ended)
    assert cli("sessions", "prune", "--older-than", "1h", "--platform", "matrix", "--yes").code == 0
    assert [entry.platform for entry in store.list_sessions(include_ended=True)] == ["telegram"]
