"""Who is answered, turned away or ignored."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadline.gateway.access import Access, AccessRules, Allowed, Decision, Ignored, TurnedAway
from threadline.model.inbound import Inbound, Quote
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock, dm, group, thread

CODE = re.compile(r"pair approve ([A-Z]{8})`")
SECRET_WORDS = "the cellar is wet"


class Desk:
    """An open store with the access rules of a test."""

    def __init__(self, db: Path, clock: FakeClock) -> None:
        self._runner = asyncio.Runner()
        self.run = self._runner.run
        self.store = self.run(GatewayStore.open(db, clock=clock, timezone="UTC"))

    def decide(self, source: SessionSource, rules: AccessRules | None = None, **more: Any) -> Decision:
        """The decision on one event."""
        return self.run(Access(self.store, rules or AccessRules()).decide(event(source, **more)))

    def code_for(self, source: SessionSource) -> str:
        """The code that a stranger is told."""
        turned_away = self.decide(source)
        assert isinstance(turned_away, TurnedAway)
        found = CODE.search(turned_away.tell or "")
        assert found is not None
        return found.group(1)

    def close(self) -> None:
        """Closes the store and its loop."""
        self.run(self.store.close())
        self._runner.close()


def event(source: SessionSource, **more: Any) -> Inbound:
    """A message that says something in private."""
    fields: dict[str, Any] = {"dedupe_key": "1", "message_id": "1", "text": SECRET_WORDS} | more
    return Inbound(source=source, sent_at=FakeClock().now(), **fields)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    opened = Desk(tmp_path / "threadline.db", FakeClock())
    yield opened
    opened.close()


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[tuple[Desk, FakeClock]]:
    clock = FakeClock()
    opened = Desk(tmp_path / "threadline.db", clock)
    yield opened, clock
    opened.close()


OURS = Quote(message_id="9", is_ours=True)
THEIRS = Quote(message_id="9")
LISTS = AccessRules(
    owners=frozenset({"telegram:1"}),
    trusted=frozenset({"telegram:2", "matrix:@ada:example.org"}),
    guests=frozenset({"telegram:3", "telegram@work:4"}),
)


def test_whoever_sits_at_the_machine_is_its_owner(desk: Desk) -> None:
    decision = desk.decide(SessionSource.local_cli(), AccessRules(pairing=False))
    assert isinstance(decision, Allowed)
    assert decision.role == "owner"


@pytest.mark.parametrize(
    ("source", "role"),
    [
        (dm("1"), "owner"),
        (dm("2"), "trusted"),
        (dm("3"), "guest"),
        (dm("4", account="work"), "guest"),
        (dm("@ada:example.org", platform="matrix"), "trusted"),
        (dm("+49", user_id_alt="1"), "owner"),
    ],
)
def test_people_on_a_list_have_their_role(desk: Desk, source: SessionSource, role: str) -> None:
    decision = desk.decide(source, LISTS)
    assert isinstance(decision, Allowed)
    assert decision.role == role


@pytest.mark.parametrize(
    "source",
    [
        dm("99", user_handle="1"),
        dm("99", user_name="telegram:1"),
        dm("99", chat_id="1"),
        dm("1", user_id_alt="99"),
        dm("1", account="work"),
        dm("1", platform="signal"),
        dm("", user_handle="1", chat_id="1"),
    ],
)
def test_what_somebody_chose_or_has_elsewhere_gives_no_role(desk: Desk, source: SessionSource) -> None:
    assert not isinstance(desk.decide(source, LISTS), Allowed)


def test_paired_people_have_their_role_and_lose_it(desk: Desk) -> None:
    desk.run(desk.store.people.approve_pairing(desk.code_for(dm("7"))))
    assert desk.decide(dm("7")) == Allowed("guest", "telegram:7")
    desk.run(desk.store.people.revoke("telegram:7"))
    assert isinstance(desk.decide(dm("7")), TurnedAway)


def test_of_a_list_and_a_pairing_the_more_holds(desk: Desk) -> None:
    desk.run(desk.store.people.set_role("telegram:3", "trusted"))
    desk.run(desk.store.people.set_role("telegram:2", "guest"))
    assert desk.decide(dm("3"), LISTS) == Allowed("trusted", "telegram:3")
    assert desk.decide(dm("2"), LISTS) == Allowed("trusted", "telegram:2")


def test_a_stranger_in_a_dm_is_told_a_code_and_nothing_of_theirs_is_kept(desk: Desk, tmp_path: Path) -> None:
    decision = desk.decide(dm("7", user_name="Ada"))
    assert isinstance(decision, TurnedAway)
    assert decision.person == "telegram:7"
    assert SECRET_WORDS not in f"{decision.note} {decision.tell}"
    desk.run(desk.store.backup(tmp_path / "copy.db"))
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"telegram:7" in stored
    assert SECRET_WORDS.encode() not in stored
    found = CODE.search(decision.tell or "")
    assert found is not None
    assert found.group(1).encode() not in stored


def test_a_stranger_who_writes_on_gets_no_second_code(timed: tuple[Desk, FakeClock]) -> None:
    desk, clock = timed
    first = desk.code_for(dm("7"))
    assert isinstance(desk.decide(dm("7"), text="hello?"), Ignored)
    clock.advance(timedelta(minutes=10))
    assert desk.code_for(dm("7")) != first


def test_with_pairing_off_a_stranger_hears_nothing(desk: Desk) -> None:
    assert isinstance(desk.decide(dm("7"), AccessRules(pairing=False)), Ignored)
    assert desk.run(desk.store.people.list_pairings()) == []


@pytest.mark.parametrize("kind", ["edit", "delete", "button"])
def test_only_a_message_asks_for_a_code(desk: Desk, kind: str) -> None:
    assert isinstance(desk.decide(dm("7"), kind=kind), Ignored)
    assert desk.run(desk.store.people.list_pairings()) == []
    assert desk.decide(dm("3"), LISTS, kind=kind) == Allowed("guest", "telegram:3")


def test_an_event_of_nobody_knows_whom_makes_no_request(desk: Desk) -> None:
    assert isinstance(desk.decide(SessionSource(platform="telegram")), Ignored)
    assert desk.run(desk.store.people.list_pairings()) == []


def test_a_dm_whose_sender_is_not_told_is_known_by_its_chat(desk: Desk) -> None:
    source = SessionSource(platform="telegram", chat_id="5")
    desk.run(desk.store.people.approve_pairing(desk.code_for(source)))
    assert isinstance(desk.decide(source), Allowed)
    assert isinstance(desk.decide(SessionSource(platform="telegram", chat_id="6")), TurnedAway)


@pytest.mark.parametrize("source", [group("3"), group("3", chat_type="channel"), thread("3")])
@pytest.mark.parametrize(
    ("said", "is_for_us"),
    [
        ({}, False),
        ({"mentions_us": True}, True),
        ({"reply_to": OURS}, True),
        ({"reply_to": THEIRS}, False),
        ({"text": "/status"}, True),
        ({"text": "/status@other_bot"}, False),
        ({"text": "/status", "is_forward": True}, False),
        ({"text": "/status", "kind": "edit"}, True),
        ({"text": "/sudo"}, False),
        ({"kind": "edit"}, True),
        ({"kind": "edit", "mentions_us": True}, True),
        ({"kind": "button", "button": "yes"}, True),
        ({"kind": "delete"}, True),
    ],
)
def test_in_a_group_we_answer_those_who_speak_to_us(
    desk: Desk, source: SessionSource, said: dict[str, Any], is_for_us: bool
) -> None:
    decision = desk.decide(source, LISTS, **said)
    assert isinstance(decision, Allowed if is_for_us else Ignored)
    assert not is_for_us or decision == Allowed("guest", "telegram:3")


@pytest.mark.parametrize(
    ("answered", "source", "is_answered"),
    [
        ({"telegram:g1"}, group("99"), True),
        ({"telegram:g1"}, thread("99"), True),
        ({"telegram:g1"}, group("99", "g2"), False),
        ({"telegram:g1"}, group("99", account="work"), False),
        ({"telegram@work:g1"}, group("99", account="work"), True),
        ({"matrix:!room:example.org"}, group("99", "!room:example.org", platform="matrix"), True),
        ({"*"}, group("99", "g2"), True),
        (set(), group("99"), False),
    ],
)
def test_strangers_are_answered_in_groups_that_are(
    desk: Desk, answered: set[str], source: SessionSource, is_answered: bool
) -> None:
    rules = AccessRules(answer_groups=frozenset(answered))
    decision = desk.decide(source, rules, mentions_us=True)
    assert isinstance(decision, Allowed if is_answered else Ignored)
    assert not isinstance(decision, Allowed) or decision.role == "group"


@pytest.mark.parametrize("stranger", ["99", ""])
@pytest.mark.parametrize("answered", [set(), {"*"}])
def test_what_strangers_delete_in_a_group_counts_only_where_something_was_heard(
    desk: Desk, stranger: str, answered: set[str]
) -> None:
    rules = AccessRules(answer_groups=frozenset(answered))
    place = group(stranger, "a:b", account="work")
    assert isinstance(desk.decide(place, rules, kind="delete"), Ignored)
    assert isinstance(desk.decide(place, rules, kind="edit"), Ignored)
    desk.run(desk.store.get_or_create_session(group("3", "other", account="work")))
    desk.run(desk.store.get_or_create_session(group("3", "a:b")))
    assert isinstance(desk.decide(place, rules, kind="delete"), Ignored)
    desk.run(desk.store.get_or_create_session(group("3", "a:b", account="work")))
    decision = desk.decide(place, rules, kind="delete")
    assert isinstance(decision, Allowed)
    assert decision.role == "group"
    assert isinstance(desk.decide(place, rules, kind="edit"), Allowed if answered else Ignored)


def test_a_group_member_who_is_not_told_is_answered_as_one_of_the_group(desk: Desk) -> None:
    rules = AccessRules(answer_groups=frozenset({"*"}))
    source = SessionSource(platform="telegram", chat_type="group", chat_id="g1")
    assert desk.decide(source, rules, mentions_us=True) == Allowed("group", None)


def test_nobody_is_given_a_code_in_a_group(desk: Desk) -> None:
    assert isinstance(desk.decide(group("99"), mentions_us=True), Ignored)
    assert desk.run(desk.store.people.list_pairings()) == []


def test_a_known_person_keeps_their_role_in_an_answered_group(desk: Desk) -> None:
    rules = AccessRules(owners=frozenset({"telegram:1"}), answer_groups=frozenset({"*"}))
    assert desk.decide(group("1"), rules, mentions_us=True) == Allowed("owner", "telegram:1")


def test_bots_are_ignored_unless_somebody_listed_them(desk: Desk) -> None:
    rules = AccessRules(guests=frozenset({"telegram:3"}), answer_groups=frozenset({"*"}))
    assert isinstance(desk.decide(dm("99"), rules, from_bot=True), Ignored)
    assert isinstance(desk.decide(group("99"), rules, from_bot=True, mentions_us=True), Ignored)
    assert desk.run(desk.store.people.list_pairings()) == []
    assert desk.decide(dm("3"), rules, from_bot=True) == Allowed("guest", "telegram:3")
    assert isinstance(desk.decide(group("3"), rules, from_bot=True), Ignored)


def test_a_fourth_stranger_hears_nothing_until_there_is_room(timed: tuple[Desk, FakeClock]) -> None:
    desk, clock = timed
    for stranger in ("7", "8", "9"):
        desk.code_for(dm(stranger))
    assert isinstance(desk.decide(dm("10")), Ignored)
    assert isinstance(desk.decide(dm("10", platform="signal")), TurnedAway)
    clock.advance(timedelta(hours=1))
    assert isinstance(desk.decide(dm("10")), TurnedAway)
