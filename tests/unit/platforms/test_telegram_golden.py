"""Every kind of update is read as the files in `telegram_golden` say, and nothing that Telegram can say goes unseen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from telegram import Message, Update

from threadline.platforms.telegram import wire
from threadline.platforms.telegram.codec import BotAccount, BotIdentity, read_update

GOLDEN = Path(__file__).parent / "telegram_golden"
PASSED_OVER = "passed_over_updates"
SERVICE = "service_messages"
US = BotIdentity(110000001, "our_bot")
# Fields that say where, when and by whom, and those that only go with others.
_ABOUT = {"message_id", "chat", "date", "from", "sender_chat", "edit_date", "message_thread_id", "is_topic_message"}
_BESIDE = {"entities", "caption", "caption_entities", "quote", "external_reply", "reply_to_message", "text"}


def cases() -> Iterator[tuple[str, Any]]:
    for file in sorted(GOLDEN.glob("*.json")):
        content = json.loads(file.read_text())
        if file.stem in (PASSED_OVER, SERVICE):
            yield from content.items()
        else:
            yield file.stem, content


def golden(stem: str) -> Any:
    return json.loads((GOLDEN / f"{stem}.json").read_text())


@pytest.mark.parametrize(("case"), [pytest.param(case, id=name) for name, case in cases()])
def test_an_update_is_read_as_its_file_says(case: dict[str, Any]) -> None:
    raw = json.dumps(case["update"])
    here = BotAccount("telegram", "main", US)
    read = read_update(raw.encode(), here, topics={}, at=datetime(2026, 1, 5, 13, tzinfo=UTC))
    outcome = {"is": type(read.event).__name__} | msgspec.json.decode(msgspec.json.encode(read.event))
    if "raw" in outcome:
        assert outcome["raw"] == raw
        outcome["raw"] = "(as it came)"
    assert outcome == case["outcome"]
    assert read.number == case["update"]["update_id"]
    assert read.chat == case["chat"]
    assert read.press == case.get("press")
    assert msgspec.to_builtins(read.topic) == case.get("topic")


def test_every_kind_of_update_has_a_file() -> None:
    stems = {file.stem for file in GOLDEN.glob("*.json")}
    assert set(wire.ALLOWED_UPDATES) - stems == set()
    assert set(golden(PASSED_OVER)) == set(wire.PASSED_OVER_UPDATES)


def test_every_kind_of_message_has_a_file() -> None:
    contents = wire.READ_FIELDS - wire.SERVICE_FIELDS.keys() - _ABOUT - _BESIDE
    stems = {file.stem for file in GOLDEN.glob("*.json")}
    assert (contents | wire.SHARED_FIELDS) - stems == set()
    assert set(golden(SERVICE)) == set(wire.SERVICE_FIELDS)


def test_a_file_holds_the_kind_that_it_is_named_after() -> None:
    for kind in wire.ALLOWED_UPDATES:
        assert kind in golden(kind)["update"]
    for field in wire.READ_FIELDS - wire.SERVICE_FIELDS.keys() - _ABOUT - _BESIDE | wire.SHARED_FIELDS:
        assert field in golden(field)["update"]["message"]
    for field, case in golden(SERVICE).items():
        assert field in case["update"]["message"]


def test_every_field_that_the_library_knows_of_an_update_is_read_or_passed_over_for_a_reason() -> None:
    assert fields_of(Update) - {"update_id"} - set(wire.ALLOWED_UPDATES) == wire.PASSED_OVER_UPDATES.keys()


def test_every_field_that_the_library_knows_of_a_message_is_read_or_passed_over_for_a_reason() -> None:
    known = wire.READ_FIELDS | wire.SHARED_FIELDS | wire.SERVICE_FIELDS.keys() | wire.UNUSED_FIELDS.keys()
    assert fields_of(Message) - known == set()
    assert known - fields_of(Message) == set()


def test_no_field_is_both_read_and_passed_over() -> None:
    assert wire.UNUSED_FIELDS.keys() & (wire.READ_FIELDS | wire.SHARED_FIELDS | wire.SERVICE_FIELDS.keys()) == set()
    assert set(wire.ALLOWED_UPDATES) & wire.PASSED_OVER_UPDATES.keys() == set()


def test_every_reason_says_something() -> None:
    reasons = [*wire.PASSED_OVER_UPDATES.values(), *wire.SERVICE_FIELDS.values(), *wire.UNUSED_FIELDS.values()]
    assert all(len(reason.split()) > 2 for reason in reasons)


def fields_of(kind: type) -> set[str]:
    """The names that the library's class has on the wire."""
    slots = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
    return {"from" if name == "from_user" else name for name in slots if not name.startswith("_")} - {"api_kwargs"}


def test_the_fields_of_a_message_are_told_by_their_names_on_the_wire() -> None:
    assert "from" in wire.Message.__struct_encode_fields__
    assert "from" in fields_of(Message)
