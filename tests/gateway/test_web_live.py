"""What the tabs of a conversation are told: as it happens, after they were away, and where they can't keep up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.gateway.pages import CONVERSATION, GUEST, Paged, Tab, Talker, paged
from tests.gateway.talk import echo, eventually
from tests.gateway.world import awaited

from threadline.model.client_sources import web_source
from threadline.ports.agent import Text, ToolCall
from threadline.ports.live import Growth
from threadline.testing.agents import ScriptedAgent
from threadline.web.live import LiveHub
from threadline.web.subscribers import MAX_BYTES, MAX_FRAMES, Subscriber

SOURCE = web_source("owner", CONVERSATION)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text")


def shown_of(tab: Tab) -> str:
    """The text of the running turn as a page shows it, by the events that it was told."""
    shown, upto, turn = "", 0, None
    for event, value in tab.events:
        live = value["live"] if event == "snapshot" else value if event == "live" else None
        if event == "settled":
            shown, upto, turn = "", 0, None
        if live is None:
            continue
        if event == "snapshot" or (live["turn_id"], live["attempt"]) != turn:
            shown, upto, turn = "", 0, (live["turn_id"], live["attempt"])
            assert live.get("first", 0) == 0
        if live["upto"] > upto:
            assert live.get("first", upto) == upto, "there is a gap"
            shown, upto = shown + text_of(live.get("events", [])), live["upto"]
    return shown


async def running_turn(here: Paged) -> tuple[str, int]:
    """The turn that runs, and its attempt, once there is one and the page was told that it began."""

    async def is_seen() -> bool:
        seen = await here.store.change_feed.snapshot(SOURCE)
        return seen is not None and seen.turn is not None and bool(here.hub._turns)

    await eventually(is_seen)
    seen = await here.store.change_feed.snapshot(SOURCE)
    assert seen is not None
    assert seen.turn is not None
    return seen.turn.turn_id, seen.turn.attempt


@awaited
async def test_the_first_event_is_the_whole_conversation(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        tab = await here.open()
        snapshot = await tab.next()
        assert tab.events[0][0] == "snapshot"
        assert [message["text"] for message in snapshot["messages"]] == ["one", "you said: one"]
        assert snapshot["conversation"] == {
            **snapshot["conversation"],
            "id": CONVERSATION,
            "title": None,
            "label": "one",
            "ended": False,
            "busy": False,
        }


@awaited
async def test_nobody_can_follow_what_is_not_there_or_not_theirs(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        assert await here.hub.subscribe("owner", "owner", "conversation-2") is None
        assert await here.hub.subscribe(GUEST, "guest", CONVERSATION) is None


@awaited
async def test_a_message_is_seen_to_wait_to_be_answered_and_to_be_settled(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent) as here:
        await here.say("one", key="m1")
        agent.says("first", None)
        await here.answered()
        tab, other = await here.open(), await here.open()
        await here.say("two", key="m2")
        live = await tab.next("live")
        assert [one["text"] for one in live["said"]] == ["two"]
        agent.says("second", None)
        for one in (tab, other):
            settled = await one.next("settled")
            assert settled["turn_id"] == live["turn_id"]
            assert [message["text"] for message in settled["messages"]] == ["two", "second"]
            assert not settled["conversation"]["busy"]


@awaited
async def test_what_a_turn_says_is_told_without_looking_at_the_store(location: str) -> None:
    agent = Talker("safe")
    async with paged(location, agent, poll_seconds=60.0) as here:
        await here.say("go", key="m1")
        turn_id, attempt = await running_turn(here)
        here.hub.turn_began(here.target, turn_id, attempt)
        tab = await here.open()
        await tab.next("snapshot")
        # The last is told once more, as one does who is not sure; and a tool, which is no text.
        for place in (0, 1, 2, 2):
            growth = Growth(turn_id=turn_id, attempt=attempt, first=place, upto=place + 1, events=(Text(f"{place} "),))
            here.hub.turn_grew(here.target, growth)
        call = Growth(turn_id=turn_id, attempt=attempt, first=3, upto=4, events=(ToolCall("c", "look"),))
        here.hub.turn_grew(here.target, call)
        while (await tab.next("live"))["upto"] < 4:
            pass
        assert shown_of(tab) == "0 1 2 "
        late = await here.open()
        whole = (await late.next("snapshot"))["live"]
        assert [event["type"] for event in whole["events"]] == ["text", "tool_call"]
        assert (whole["upto"], text_of(whole["events"])) == (4, "0 1 2 ")
        agent.says(None)
        await here.answered()


@awaited
async def test_who_was_away_is_told_exactly_what_is_missing_of_a_turn(location: str) -> None:
    agent = Talker("safe")
    async with paged(location, agent, poll_seconds=60.0) as here:
        await here.say("go", key="m1")
        turn_id, attempt = await running_turn(here)
        here.hub.turn_began(here.target, turn_id, attempt)
        tab = await here.open()
        await tab.next("snapshot")

        def grow(place: int) -> None:
            growth = Growth(turn_id=turn_id, attempt=attempt, first=place, upto=place + 1, events=(Text(f"{place} "),))
            here.hub.turn_grew(here.target, growth)

        grow(0)
        await tab.next("live")
        here.hub.unsubscribe(tab.reader)
        grow(1)
        grow(2)
        again = await here.open(last_id=tab.last_id)
        missing = await again.next()
        assert again.events[0][0] == "live"
        assert (missing["first"], missing["upto"], text_of(missing["events"])) == (1, 3, "1 2 ")
        grow(3)
        assert text_of((await again.next("live"))["events"]) == "3 "
        agent.says("0 1 2 3 ", None)
        await here.answered()
        here.hub.unsubscribe(again.reader)
        back = await here.open(last_id=again.last_id)
        settled = await back.next()
        assert back.events[0][0] == "settled"
        assert [message["text"] for message in settled["messages"]] == ["go", "0 1 2 3 "]


@awaited
async def test_a_turn_of_another_gateway_is_followed_by_its_journal(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Talker("until_tool")
    async with paged(location, agent, poll_seconds=0.05) as here:
        await here.say("go", key="m1")
        await running_turn(here)
        # What this process runs is told in memory; it is forgotten and not told any more, as if another ran it.
        here.hub._turns.clear()
        monkeypatch.setattr(here.hub, "turn_grew", lambda to, growth: None)
        tab = await here.open()
        await tab.next("snapshot")
        for piece in ("one ", "two ", "three "):
            agent.says(piece)
            while not shown_of(tab).endswith(piece):
                await tab.next()
        assert shown_of(tab) == "one two three "
        here.hub.unsubscribe(tab.reader)
        agent.says("four ")
        again = await here.open(last_id=tab.last_id)
        tab.events += again.events
        while not shown_of(tab).endswith("four "):
            await again.next()
            tab.events.append(again.events[-1])
        assert shown_of(tab) == "one two three four "
        agent.says(None)
        assert (await again.next("settled"))["messages"][-1]["text"] == "one two three four "


@awaited
async def test_after_an_undo_everything_is_told_anew(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        for text in ("one", "two"):
            await here.say(text, key=text)
            await here.answered()
        tab, away = await here.open(), await here.open()
        for one in (tab, away):
            await one.next("snapshot")
        here.hub.unsubscribe(away.reader)
        await here.say("/undo", key="u")
        undone = await tab.next("snapshot")
        assert [message["text"] for message in undone["messages"]] == ["one", "you said: one"]
        assert undone["can_redo"]
        again = await here.open(last_id=away.last_id)
        assert (await again.next())["messages"] == undone["messages"]
        assert again.events[0][0] == "snapshot"


@pytest.mark.parametrize("last_id", ["", "nonsense", "000000000000.1.0", "0.0.0", "é" * 50, "000000000000.1.1.t.1.1"])
@awaited
async def test_an_id_that_nobody_gave_is_answered_with_everything(location: str, last_id: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        tab = await here.open(last_id=last_id)
        await tab.next()
        assert tab.events[0][0] == "snapshot"


@awaited
async def test_after_the_server_was_killed_the_stream_goes_on_and_nothing_is_doubled(location: str) -> None:
    agent = Talker("until_tool")
    async with paged(location, agent) as here:
        await here.say("go", key="m1")
        turn_id, attempt = await running_turn(here)
        agent.says("half of ")
        tab = await here.open()
        while "half" not in shown_of(tab):
            await tab.next()
        # The process dies: nothing is ended in order, nothing more is begun, and its lease runs out.
        here.gateway.turns._draining = True
        held = here.gateway.turns.leases
        assert [one.turn_id for one in held] == [turn_id]
        await here.store.leases.expire_owned_by("serve:%")
        agent = Talker("until_tool")
        async with paged(location, agent) as next_one:
            again = await next_one.open(last_id=tab.last_id)
            agent.says("the whole answer", None)
            settled = await again.next("settled")
            assert [message["text"] for message in settled["messages"]] == ["go", "the whole answer"]
            assert settled["turn_id"] == turn_id
            tab.events += again.events
            assert shown_of(tab) == ""
            attempts = {value["attempt"] for event, value in again.events if event == "live"}
            assert attempt not in attempts
            refs = [m["ref"] for event, value in tab.events if event == "settled" for m in value["messages"]]
            assert len(refs) == len(set(refs)) == 2


@awaited
async def test_what_commands_say_comes_as_notices_once(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        tab = await here.open()
        await tab.next("snapshot")
        await here.say("/whoami", key="m2")
        notice = await tab.next("notice")
        assert notice["text"]
        await here.answered()
        await here.say("two", key="m3")
        await tab.next("settled", "messages")
        told = [value["id"] for event, value in tab.events if event == "notice"]
        assert told == [notice["id"]]


@awaited
async def test_what_others_change_is_found_by_looking(location: str) -> None:
    async with paged(location, ScriptedAgent(echo), poll_seconds=0.05) as here:
        await here.say("one", key="m1")
        await here.answered()
        tab = await here.open()
        session_id = (await tab.next("snapshot"))["conversation"]["session_id"]
        await here.store.append_to_transcript(session_id, {"role": "user", "content": "from outside"})
        assert (await tab.next("messages"))["messages"][0]["text"] == "from outside"
        await here.store.set_title(session_id, "Plans")
        while (await tab.next("state"))["conversation"]["title"] != "Plans":
            pass
        await here.store.delete_session(session_id)
        assert await tab.next("gone") == {"id": CONVERSATION, "session_id": session_id}


@awaited
async def test_every_tab_sees_the_list_change_and_only_its_own_persons(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        mine = await here.open(conversation=None)
        theirs = await here.open(user=GUEST, role="guest", conversation=None)
        await asyncio.sleep(0)
        await here.say("one", key="m1")
        row = await mine.next("conversation")
        assert row["id"] == CONVERSATION
        await here.say("two", key="m1", user=GUEST, conversation="conversation-2")
        assert (await theirs.next("conversation"))["id"] == "conversation-2"
        assert {value["id"] for _, value in theirs.events} == {"conversation-2"}
        assert {value["id"] for _, value in mine.events} == {CONVERSATION}


@awaited
async def test_what_changes_between_reading_the_list_and_listening_is_not_missed(location: str) -> None:
    async with paged(location, ScriptedAgent(echo), poll_seconds=60.0) as here:
        await here.say("one", key="m1")
        await here.answered()
        first = await here.open(conversation=None)
        assert (await first.next("conversation"))["title"] is None
        # The page has read its list by now; then another device gives a name, and the first tab is told so.
        seen = await here.store.change_feed.snapshot(SOURCE)
        assert seen is not None
        await here.store.set_title(seen.entry.session_id, "Plans")
        here.hub.changed("owner", CONVERSATION)
        assert (await first.next("conversation"))["title"] == "Plans"
        late = await here.open(conversation=None)
        assert (await late.next("conversation"))["title"] == "Plans"
        # A tab that knows it already is not told again.
        await here.say("two", key="m2", conversation="conversation-2")
        assert (await first.next("conversation"))["id"] == "conversation-2"


@awaited
async def test_a_reader_that_falls_behind_is_told_anew_and_costs_the_others_nothing(location: str) -> None:
    agent = Talker("safe")
    async with paged(location, agent, poll_seconds=60.0) as here:
        await here.say("go", key="m1")
        turn_id, attempt = await running_turn(here)
        here.hub.turn_began(here.target, turn_id, attempt)
        slow, quick = await here.open(), await here.open()
        await slow.next("snapshot")
        count, words = MAX_FRAMES + 50, "x" * (2 * MAX_BYTES // MAX_FRAMES)
        for place in range(count):
            growth = Growth(turn_id=turn_id, attempt=attempt, first=place, upto=place + 1, events=(Text(words),))
            here.hub.turn_grew(here.target, growth)
            while place % 100 == 0 and not quick.reader.is_empty:
                await quick.next()
        caught_up = await slow.next("snapshot")
        # What it had missed was never told piece by piece.
        assert "live" not in [event for event, _ in slow.events]
        assert text_of(caught_up["live"]["events"]) == words * count
        while shown_of(quick) != words * count:
            await quick.next()
        assert [event for event, _ in quick.events].count("snapshot") == 1
        agent.says(None)
        await here.answered()


@awaited
async def test_many_tabs_are_handed_what_happens_in_fewer_pieces_and_each_event_once(location: str) -> None:
    agent = Talker("safe")
    async with paged(location, agent) as here:
        await here.say("go", key="m1")
        turn_id, attempt = await running_turn(here)
        # So few that nothing but the first is handed on before somebody comes, or has lost their place.
        hub = LiveHub(here.store, lambda _source: "main", pieces_a_second=0.001)
        hub.turn_began(here.target, turn_id, attempt)

        async def opened() -> Tab:
            reader = await hub.subscribe("owner", "owner", CONVERSATION)
            assert reader is not None
            return Tab(reader)

        def grow(place: int) -> None:
            growth = Growth(turn_id=turn_id, attempt=attempt, first=place, upto=place + 1, events=(Text(f"{place} "),))
            hub.turn_grew(here.target, growth)

        tab = await opened()
        for place in range(3):
            grow(place)
        assert (await tab.next("live"))["upto"] == 1
        assert tab.reader.is_empty
        second = await opened()
        assert text_of((await second.next("snapshot"))["live"]["events"]) == "0 1 2 "
        grow(3)
        # The first has lost its place: it finds in the snapshot what waited, and the other is told it.
        tab.reader.send(b"x" * MAX_BYTES)
        assert text_of((await tab.next("snapshot"))["live"]["events"]) == "0 1 2 3 "
        grow(4)
        await opened()
        for one in (tab, second):
            while (await one.next("live"))["upto"] < 5:
                pass
        assert shown_of(tab) == shown_of(second) == "0 1 2 3 4 "
        assert [value["upto"] for event, value in second.events if event == "live"] == [4, 5]
        assert [value["upto"] for event, value in tab.events if event == "live"] == [1, 5]
        await hub.close()
        agent.says(None)
        await here.answered()


@awaited
async def test_what_waits_for_a_reader_is_bounded_by_bytes_too() -> None:
    reader = Subscriber(lambda: b"anew")
    for _ in range(20):
        reader.send(b"x" * (MAX_BYTES // 8))
    assert await reader.receive() == b"anew"
    reader.send(b"y" * (2 * MAX_BYTES))
    assert await reader.receive() == b"y" * (2 * MAX_BYTES), "what is larger than the bound comes alone"
    reader.close()
    assert await reader.receive() is None
