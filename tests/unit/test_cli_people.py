from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.conftest import Cli, Outcome

from threadline import SessionStore
from threadline.agents.acp.pool import folder_name
from threadline.local_user import agents_folder
from threadline.model.message import REMOVED
from threadline.store.facade import GatewayStore
from threadline.testing import assistant, dm, thread, user

KINDS = ["person", "session", "message", "message", "message", "usage"]


def _known(store: SessionStore, text: str = "is the garden dry?") -> str:
    session_id = store.get_or_create_session(dm("7", user_name="Ada")).session_id
    store.append_to_transcript(session_id, [user(text), assistant("about that")])
    shared = store.get_or_create_session(thread("8")).session_id
    store.append_to_transcript(shared, user("seven was here"), author="telegram:7")
    store.append_to_transcript(shared, user("a secret of eight"), author="telegram:8")
    store.record_usage(session_id, "t1", input_tokens=3)
    return session_id


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_an_export_has_one_record_a_line_of_that_person_alone(store: SessionStore, cli: Cli) -> None:
    _known(store)
    exported = cli("people", "export", "telegram:7")
    assert exported.code == 0
    assert _lines(exported.out) == [record.to_dict() for record in store.export("telegram:7")]
    assert [line["kind"] for line in _lines(exported.out)] == KINDS
    assert "secret" not in exported.out
    assert exported.err == "Wrote 6 records.\n"


def test_what_was_said_comes_out_as_it_was_stored(store: SessionStore, cli: Cli) -> None:
    text = "naïve 日本 \x1b[31m \u2028 half \ud83c"
    session_id = _known(store, text)
    first = next(line for line in _lines(cli("people", "export", "telegram:7").out) if line["kind"] == "message")
    assert first["message"] == store.load_transcript(session_id)[0] == user(text)
    store.redact(f"{session_id}:1")
    again = next(line for line in _lines(cli("people", "export", "telegram:7").out) if line["kind"] == "message")
    assert (again["redacted"], again["message"]["content"]) == (True, REMOVED)


def test_a_long_export_is_written_whole(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    session_id = store.get_or_create_session(dm("7")).session_id
    store.append_to_transcript(session_id, [user(f"line {number}") for number in range(1_201)])
    target = tmp_path / "seven.jsonl"
    written = cli("people", "export", "telegram:7", "-o", str(target))
    assert "1,203 records" in written.err
    said = [line["message"]["content"] for line in _lines(target.read_text()) if line["kind"] == "message"]
    assert said == [f"line {number}" for number in range(1_201)]


def test_an_export_to_a_file_is_private_and_overwrites_nothing(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    _known(store)
    target = tmp_path / "seven.jsonl"
    written = cli("people", "export", "telegram:7", "--output", str(target))
    assert (written.code, written.out) == (0, "")
    assert written.err == f"Wrote 6 records to {target}.\n"
    assert [line["kind"] for line in _lines(target.read_text())] == KINDS
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    again = cli("people", "export", "telegram:8", "--output", str(target))
    assert again.code == 1
    assert "exists" in again.err
    assert target.read_bytes() == before


def test_of_somebody_unknown_it_says_that_nothing_is_known(store: SessionStore, cli: Cli) -> None:
    _known(store)
    exported = cli("people", "export", "telegram:77")
    assert exported.code == 0
    assert [(line["kind"], line["sessions"], line["messages"]) for line in _lines(exported.out)] == [("person", 0, 0)]
    assert "Nothing is known of telegram:77" in exported.err


def test_of_somebody_who_only_waits_to_be_let_in_it_does_not_say_so(db: Path, cli: Cli) -> None:
    async def ask() -> None:
        async with await GatewayStore.open(db) as gateway:
            await gateway.people.request_pairing(dm("77", user_name="Ada"))

    asyncio.run(ask())
    exported = cli("people", "export", "telegram:77")
    (line,) = _lines(exported.out)
    assert line["standing"]["name"] == "Ada"
    assert exported.err == "Wrote 1 record.\n"


def test_a_name_that_is_none_is_refused_and_leaves_no_file(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "nobody.jsonl"
    refused = cli("people", "export", "", "-o", str(target))
    assert refused.code == 1
    assert "telegram:7" in refused.err
    assert not target.exists()


def test_a_missing_database_is_told_of_and_not_made(cli: Cli, db: Path) -> None:
    refused = cli("people", "export", "telegram:7")
    assert (refused.code, refused.out) == (1, "")
    assert list(db.parent.iterdir()) == []


def test_the_group_and_its_command_show_examples(cli: Cli) -> None:
    def shown(outcome: Outcome) -> str:
        return outcome.out + outcome.err

    assert "export" in shown(cli("people"))
    assert "threadline people export telegram:7" in shown(cli("people", "export", "--help"))


def test_erasing_asks_first_and_then_leaves_nothing_of_a_person(store: SessionStore, cli: Cli) -> None:
    _known(store)
    unasked = cli("people", "erase", "telegram:7")
    assert (unasked.code, "add --yes" in unasked.err) == (1, True)
    assert "garden" in cli("people", "export", "telegram:7").out
    erased = cli("people", "erase", "telegram:7", "--yes", "--json")
    assert (erased.code, json.loads(erased.out)["person"]) == (0, "telegram:7")
    assert "garden" not in cli("people", "export", "telegram:7").out
    assert "a secret of eight" in cli("people", "export", "telegram:8").out


def test_erasing_somebody_unknown_says_so(store: SessionStore, cli: Cli) -> None:
    _known(store)
    unknown = cli("people", "erase", "telegram:nobody")
    assert unknown.code == 0
    assert "Nothing is known of telegram:nobody" in unknown.err


def test_erasing_takes_the_folders_along_in_which_agents_worked_for_them(
    store: SessionStore, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _known(store)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    theirs, others = (agents_folder() / "0123" / folder_name(person) for person in ("telegram:7", "telegram:8"))
    for folder in (theirs, others):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("words")
    cli("people", "erase", "telegram:7", "--yes")
    assert not theirs.exists()
    assert (others / "notes.txt").read_text() == "words"
