"""Time zones of people, chosen models, home channels and handing over, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from tests.contract.gateways import OpenGateway, Run

from threadline import ResetPolicies, SessionEntry, SessionResetPolicy, SessionSource
from threadline.errors import InvalidRequest, NotYours, UnknownSession
from threadline.model.context import HomeChannel, NamedHomeChannel
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound
from threadline.store.conversations.records import PersonTimezone
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest
from threadline.testing import FakeClock, dm, exchange, group, thread, user
from threadline.testing.contracts.storage.fixtures import OpenStore, StoredBytes

T = TypeVar("T")
DAILY = ResetPolicies(default=SessionResetPolicy(mode="daily", at_hour=4, timezone="person"))
# Four in the morning is at 19:00 UTC the day before in Tokyo, at 12:00 UTC in Los Angeles.
EVENING = datetime(2026, 1, 5, 18, 0, tzinfo=UTC)


async def heard(store: GatewayStore, source: SessionSource, key: str) -> str:
    """The id of the session that a message from there lands in."""
    at = store.resolve_request(source).at
    event = Inbound(dedupe_key=key, message_id=key, source=source, text="hello", sent_at=store.clock.now())
    admitted = await store.inbox.accept(
        AdmitRequest(
            event=event, resolve=store.resolve_request(source), lane="control", person=None, role="guest", at=at
        )
    )
    assert admitted.session is not None
    return admitted.session.session_id


# Time zones


def test_a_person_names_a_zone_and_takes_it_back(gateway: GatewayStore, run: Run) -> None:
    assert run(gateway.preferences.timezone_of("telegram:7")) == PersonTimezone("UTC", is_own=False)
    for zone in ("Europe/Berlin", "Asia/Tokyo"):
        run(gateway.preferences.set_timezone("telegram:7", zone))
    assert run(gateway.preferences.timezone_of("telegram:7")) == PersonTimezone("Asia/Tokyo", is_own=True)
    assert run(gateway.preferences.timezone_of("telegram:8")) == PersonTimezone("UTC", is_own=False)
    for _ in range(2):
        run(gateway.preferences.set_timezone("telegram:7", None))
    assert run(gateway.preferences.timezone_of("telegram:7")) == PersonTimezone("UTC", is_own=False)


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "installation", "\x00"])
def test_what_is_no_zone_is_not_kept(gateway: GatewayStore, run: Run, zone: str) -> None:
    with pytest.raises(InvalidRequest):
        run(gateway.preferences.set_timezone("telegram:7", zone))
    assert run(gateway.preferences.timezone_of("telegram:7")).is_own is False


@pytest.mark.parametrize(
    ("zone", "is_fresh"), [("Asia/Tokyo", True), ("America/Los_Angeles", False), (None, False)], ids=str
)
def test_where_the_policy_says_so_a_day_begins_in_the_persons_zone(
    open_gateway: OpenGateway, open_store: OpenStore, run: Run, clock: FakeClock, zone: str | None, is_fresh: bool
) -> None:
    gateway, embedded = open_gateway(policies=DAILY), open_store(policies=DAILY)
    run(gateway.preferences.set_timezone("telegram:7", zone))
    run(gateway.preferences.set_timezone("telegram:8", zone))
    clock.set(EVENING)
    before = run(heard(gateway, dm("7"), "1")), embedded.get_or_create_session(dm("8")).session_id
    clock.advance(timedelta(hours=2))
    after = run(heard(gateway, dm("7"), "2")), embedded.get_or_create_session(dm("8")).session_id
    assert [old != new for old, new in zip(before, after, strict=True)] == [is_fresh, is_fresh]


def test_a_vote_on_being_busy_is_asked_by_the_persons_day(
    open_gateway: OpenGateway, open_store: OpenStore, run: Run, clock: FakeClock
) -> None:
    asked: list[str] = []

    def is_busy(key: str) -> bool:
        asked.append(key)
        return True

    store = open_store(policies=DAILY, is_busy=is_busy)
    clock.set(EVENING)
    old = store.get_or_create_session(dm("7"))
    run(open_gateway().preferences.set_timezone("telegram:7", "Asia/Tokyo"))
    clock.advance(timedelta(hours=2))
    assert store.get_or_create_session(dm("7")).session_id == old.session_id
    assert asked == [old.session_key]


def test_a_shared_session_has_the_days_of_nobody_who_writes_in_it(
    open_gateway: OpenGateway, run: Run, clock: FakeClock
) -> None:
    gateway = open_gateway(policies=DAILY)
    run(gateway.preferences.set_timezone("telegram:7", "Asia/Tokyo"))
    clock.set(EVENING)
    old = run(heard(gateway, thread("7"), "1"))
    clock.advance(timedelta(hours=2))
    assert run(heard(gateway, thread("7"), "2")) == old


def test_another_policy_does_not_ask_for_anybodys_zone(open_gateway: OpenGateway, run: Run, clock: FakeClock) -> None:
    gateway = open_gateway(policies=ResetPolicies(default=SessionResetPolicy(mode="daily", at_hour=4)))
    run(gateway.preferences.set_timezone("telegram:7", "Asia/Tokyo"))
    assert gateway.resolve_request(dm("7")).person is None
    clock.set(EVENING)
    old = run(heard(gateway, dm("7"), "1"))
    clock.advance(timedelta(hours=2))
    assert run(heard(gateway, dm("7"), "2")) == old


# Models


def test_a_choice_stands_apart_from_what_answered(gateway: GatewayStore, run: Run) -> None:
    async def story() -> list[tuple[str | None, str | None]]:
        entry = await gateway.get_or_create_session(dm())
        await gateway.set_runtime(entry.session_id, runtime={"mode": "plan"})
        seen = []
        for name in ("openai:gpt-5", None):
            chosen = await gateway.sessions.choose_model(entry.session_id, name)
            seen.append((chosen.chosen_model, chosen.model))
            used = await gateway.record_usage(entry.session_id, str(name), model="gpt-5-2026", input_tokens=1)
            seen.append((used.chosen_model, used.model))
        assert (await gateway.get_session(entry.session_id)).runtime == {"mode": "plan"}
        return seen

    reported = "gpt-5-2026"
    assert run(story()) == [("openai:gpt-5", None), ("openai:gpt-5", reported), (None, reported), (None, reported)]


def test_a_fork_keeps_the_choice_and_a_fresh_start_does_not(gateway: GatewayStore, run: Run) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    run(gateway.sessions.choose_model(entry.session_id, "openai:gpt-5"))
    assert run(gateway.resume.continue_in_fork(entry.session_id)).chosen_model == "openai:gpt-5"
    fresh = run(gateway.resume.start_new(run(gateway.get_or_create_session(dm())).session_id))
    assert fresh.chosen_model is None
    back = run(gateway.resume.resume(fresh.session_id, entry.session_id))
    assert back.chosen_model == "openai:gpt-5"


@pytest.mark.parametrize("name", ["x" * 201, "a\x00b", "\ud800"], ids=["long", "nul", "half"])
def test_a_name_that_can_not_be_kept_is_refused(gateway: GatewayStore, run: Run, name: str) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    with pytest.raises(InvalidRequest):
        run(gateway.sessions.choose_model(entry.session_id, name))
    with pytest.raises(UnknownSession):
        run(gateway.sessions.choose_model("nobody", "m"))
    assert run(gateway.get_session(entry.session_id)).chosen_model is None


# Home channels


def test_each_account_has_one_home_and_the_last_word_counts(gateway: GatewayStore, run: Run) -> None:
    assert run(gateway.preferences.list_home_channels()) == []
    run(gateway.preferences.set_home_channel(dm("7", user_name="Ada")))
    run(gateway.preferences.set_home_channel(dm("7", account="work")))
    run(gateway.preferences.set_home_channel(thread("7", chat_name="Garden")))
    assert run(gateway.preferences.list_home_channels()) == [
        NamedHomeChannel(channel=HomeChannel("telegram", "g1", "Garden", "t1"), chat_type="group", person=None),
        NamedHomeChannel(
            channel=HomeChannel("telegram", "dm-7", "DM with 7", None, "work"),
            chat_type="dm",
            person="telegram@work:7",
        ),
    ]
    assert run(gateway.preferences.remove_home_channel("telegram", "main")) is True
    assert run(gateway.preferences.remove_home_channel("telegram", "main")) is False
    assert [home.channel.account for home in run(gateway.preferences.list_home_channels())] == ["work"]


def test_the_name_of_a_home_is_one_plain_line(gateway: GatewayStore, run: Run) -> None:
    home = run(gateway.preferences.set_home_channel(group(chat_name="Gar\n\u202eden\x00" + "x" * 300)))
    assert home.channel.name.startswith("Gar den")
    assert len(home.channel.name) == 120
    assert run(gateway.preferences.list_home_channels()) == [home]


@pytest.mark.parametrize("chat", ["", "a\x00b", "\ud800", "y" * 600], ids=["none", "nul", "half", "long"])
def test_what_names_no_chat_is_no_home(gateway: GatewayStore, run: Run, chat: str) -> None:
    with pytest.raises(InvalidRequest):
        run(gateway.preferences.set_home_channel(SessionSource(platform="telegram", chat_type="group", chat_id=chat)))
    assert run(gateway.preferences.list_home_channels()) == []


# What is known of somebody


def test_who_asks_is_told_their_zone_and_their_homes(gateway: GatewayStore, run: Run) -> None:
    run(gateway.preferences.set_timezone("telegram:7", "Asia/Tokyo"))
    run(gateway.preferences.set_home_channel(dm("7", thread="t1")))
    run(gateway.preferences.set_home_channel(group("7", platform="discord")))
    (record,) = run(gateway.export("telegram:7"))
    assert record.summary is not None
    assert (record.summary.timezone, record.summary.homes) == ("Asia/Tokyo", ["telegram:dm-7:t1"])
    (other,) = run(gateway.export("telegram:8"))
    assert other.to_dict().keys() == {"kind", "person", "addresses", "sessions", "messages", "usage"}


def test_of_who_is_erased_neither_zone_nor_home_is_left(
    gateway: GatewayStore, run: Run, stored_bytes: StoredBytes
) -> None:
    run(gateway.preferences.set_timezone("telegram:7", "Antarctica/Troll"))
    run(gateway.preferences.set_timezone("telegram:8", "Asia/Tokyo"))
    run(gateway.preferences.set_home_channel(dm("7", user_name="Ada Unmistakable")))
    run(gateway.preferences.set_home_channel(group("7", platform="discord", chat_name="Garden")))
    run(gateway.erase_person("telegram:7"))
    assert run(gateway.preferences.timezone_of("telegram:7")).is_own is False
    assert run(gateway.preferences.timezone_of("telegram:8")).is_own is True
    assert [home.channel.name for home in run(gateway.preferences.list_home_channels())] == ["Garden"]
    for word in (b"Antarctica/Troll", b"Unmistakable"):
        assert word not in stored_bytes()


# Handing over


async def talked(store: GatewayStore, source: SessionSource, text: str) -> SessionEntry:
    """A session in which something was said."""
    entry = await store.get_or_create_session(source)
    await store.append_to_transcript(entry.session_id, exchange(text, text.upper()))
    return await store.get_session(entry.session_id)


async def shown(store: GatewayStore, session_id: str) -> list[object]:
    return [message["content"] for message in await store.load_transcript(session_id)]


def test_a_place_is_found_where_something_was_said(gateway: GatewayStore, run: Run) -> None:
    there = run(talked(gateway, dm("7", thread="t1"), "hello"))
    addresses = [gateway.resolve_request(dm("7", thread=name)).address for name in ("t0", "t1")]
    found = run(gateway.resume.find_conversation(addresses))
    assert found is not None
    assert (found.session, found.is_dm, found.ownership.owner) == (there, True, "telegram:7")
    assert run(gateway.resume.find_conversation(addresses[:1])) is None
    assert run(gateway.resume.find_conversation([])) is None


def test_a_conversation_goes_on_elsewhere_and_stays_where_it_was(gateway: GatewayStore, run: Run) -> None:
    async def story() -> None:
        there = await talked(gateway, dm("7", platform="signal", user_name="Ada"), "old")
        here = await talked(gateway, dm("7"), "new")
        await gateway.sessions.choose_model(here.session_id, "openai:gpt-5")
        after = await gateway.resume.hand_over(here.session_id, there.session_key, "We go on here.", is_owners=True)
        assert isinstance(after, SessionEntry)
        assert await shown(gateway, after.session_id) == ["new", "NEW"]
        assert (after.parent_session_id, after.chosen_model) == (here.session_id, "openai:gpt-5")
        assert (after.session_key, after.platform, after.owner) == (there.session_key, "signal", "signal:7")
        assert (after.origin, after.display_name) == (there.origin, "Ada")
        assert (await gateway.get_session(there.session_id)).end_reason == "session_switch"
        assert (await gateway.get_session(here.session_id)).ended_at is None
        await gateway.append_to_transcript(after.session_id, user("only there"))
        await gateway.append_to_transcript(here.session_id, user("only here"))
        assert await shown(gateway, here.session_id) == ["new", "NEW", "only here"]
        assert (await gateway.get_or_create_session(there.origin)).session_id == after.session_id
        (told,) = await gateway.outbox.list_page()
        assert (told.target, told.text, told.state) == (
            Target(platform="signal", chat_id="dm-7"),
            "We go on here.",
            "pending",
        )

    run(story())


@pytest.mark.parametrize(
    ("here", "there", "is_owners"),
    [
        (dm("7"), dm("8"), False),
        (dm("7"), group("7"), True),
        (dm("7"), thread("7"), True),
        (group("7"), thread("7"), True),
        (thread("7"), dm("7"), True),
        (thread("7"), thread("7", "g2"), True),
    ],
    ids=["stranger", "group", "shared", "own to shared", "shared to dm", "other group"],
)
def test_what_is_not_for_that_place_does_not_go_on_there(
    gateway: GatewayStore, run: Run, here: SessionSource, there: SessionSource, is_owners: bool
) -> None:
    async def story() -> None:
        target, source = await talked(gateway, there, "old"), await talked(gateway, here, "new")
        with pytest.raises(NotYours):
            await gateway.resume.hand_over(source.session_id, target.session_key, "no", is_owners=is_owners)
        assert (await gateway.get_or_create_session(there)).session_id == target.session_id
        assert await gateway.outbox.list_page() == []

    run(story())


@pytest.mark.parametrize(
    ("here", "there"),
    [(group("7"), dm("7")), (dm("7", thread="t1"), dm("7")), (thread("7"), thread("7", name="t2"))],
    ids=["from a group", "from a thread", "within a group"],
)
def test_where_it_could_be_resumed_it_goes_on(
    gateway: GatewayStore, run: Run, here: SessionSource, there: SessionSource
) -> None:
    async def story() -> None:
        target, source = await talked(gateway, there, "old"), await talked(gateway, here, "new")
        after = await gateway.resume.hand_over(source.session_id, target.session_key, "yes", is_owners=False)
        assert isinstance(after, SessionEntry)
        assert (await shown(gateway, after.session_id))[-1] == "NEW"

    run(story())


def test_what_is_at_work_there_is_not_cut_short(gateway: GatewayStore, run: Run) -> None:
    async def story() -> None:
        source, target = await talked(gateway, dm("7", thread="t1"), "new"), await talked(gateway, dm("7"), "old")
        wanted = gateway.resolve_request(dm("7"))
        event = Inbound(dedupe_key="1", message_id="1", source=dm("7"), text="wait", sent_at=gateway.clock.now())
        await gateway.inbox.accept(
            AdmitRequest(event=event, resolve=wanted, lane="talk", person="telegram:7", role="guest", at=wanted.at)
        )
        assert await gateway.resume.hand_over(source.session_id, target.session_key, "no", is_owners=False) == "busy"
        assert (await gateway.get_session(target.session_id)).ended_at is None
        assert await gateway.outbox.list_page() == []

    run(story())


def test_it_can_not_go_on_nowhere_nor_where_it_is(gateway: GatewayStore, run: Run) -> None:
    here = run(talked(gateway, dm("7"), "new"))
    assert run(gateway.resume.hand_over(here.session_id, here.session_key, "no", is_owners=True)) == "here"
    assert run(gateway.resume.hand_over(here.session_id, "agent:main:signal:dm:x", "no", is_owners=True)) == "gone"
    with pytest.raises(UnknownSession):
        run(gateway.resume.hand_over("nobody", here.session_key, "no", is_owners=True))
    assert run(gateway.outbox.list_page()) == []


def test_a_handed_over_copy_keeps_no_name_of_whoever_it_came_from(
    gateway: GatewayStore, run: Run, stored_bytes: StoredBytes
) -> None:
    async def story() -> SessionEntry:
        # Nobody says what they are called there.
        there = await talked(gateway, dm("8", platform="signal"), "old")
        here = await talked(gateway, dm("7", user_name="Zebraline"), "new")
        after = await gateway.resume.hand_over(here.session_id, there.session_key, "We go on here.", is_owners=True)
        assert isinstance(after, SessionEntry)
        await gateway.erase_person("telegram:7")
        return await gateway.get_session(after.session_id)

    assert run(story()).display_name is None
    assert b"zebraline" not in stored_bytes().lower()
