"""What a turn has said and done, and how much of it is on disk."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.gateway.broken import begun
from tests.gateway.world import awaited

from threadline.errors import LeaseLost
from threadline.gateway.composing import read_event
from threadline.gateway.journal import Journal, Pace
from threadline.ports.agent import Event, Text, Thought, ToolCall, ToolResult
from threadline.ports.live import Growth
from threadline.store.facade import GatewayStore
from threadline.store.work.turn_end import ClaimedTurn

CALL = ToolCall("c1", "look", "{}")
AFTERWARDS = "serve:afterwards"


def journal_of(store: GatewayStore, claimed: ClaimedTurn, so_far: tuple[Event, ...] = (), **options: Any) -> Journal:
    """The journal of a turn whose words are to be kept."""
    on_failure = options.get("on_failure", lambda: None)
    journal = Journal(store, claimed, so_far, options.get("pace", Pace()), lambda: False, on_failure)
    journal.keeps_words = True
    return journal


async def on_disk(store: GatewayStore) -> list[Event]:
    """What a gateway would find that takes the turn over; it has the turn then."""
    await store.leases.expire_owned_by("serve:%")
    (taken,) = await store.turns.take_over(AFTERWARDS, ["scripted"], 3_600_000_000)
    return [read_event(event) for event in taken.journal]


@awaited
async def test_what_a_chat_may_show_is_on_disk(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        for word in ("one ", "two ", "three"):
            journal.add(Text(word))
        assert await journal.shown() == "one two three"
        journal.add(Text(" four"))
        assert await on_disk(store) == [Text("one two three")]


@awaited
async def test_words_of_a_turn_that_may_run_again_are_shown_and_not_kept(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store))
        journal.keeps_words = False
        assert not journal.add(Text("one " * 1_000))
        assert (await journal.shown()).startswith("one one")
        assert await on_disk(store) == []


@awaited
async def test_pieces_are_joined_and_nothing_changes_places(location: str) -> None:
    said: list[Event] = [
        Thought("I "),
        Thought("think."),
        Text("Let "),
        Text("me "),
        CALL,
        ToolResult("c1", "42"),
        Text("It is 42."),
    ]
    joined = [Thought("I think."), Text("Let me "), CALL, ToolResult("c1", "42"), Text("It is 42.")]
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        assert [event for event in said if journal.add(event)] == [CALL, ToolResult("c1", "42")]
        assert list(journal.events) == joined
        await journal.keep()
        assert await on_disk(store) == joined


@awaited
async def test_what_is_kept_bit_by_bit_is_kept_once_and_in_order(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store, replay="never")
        journal = journal_of(store, claimed)
        for number in range(20):
            journal.add(Text(f"{number} "))
            await asyncio.gather(journal.keep(), journal.shown())
        found = await on_disk(store)
        assert "".join(event.text for event in found if isinstance(event, Text)) == "".join(f"{n} " for n in range(20))


@awaited
async def test_many_words_are_kept_before_the_agent_goes_on(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        assert not journal.add(Text("a" * 1_500))
        assert journal.add(Text("b" * 500))
        await journal.keep()
        assert not journal.add(Text("c"))


@awaited
async def test_words_are_kept_though_nobody_shows_them(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        keeping = asyncio.create_task(journal.keep_words())
        journal.add(Text("hello"))
        await asyncio.sleep(0.3)
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        assert await on_disk(store) == [Text("hello")]


@awaited
async def test_words_that_nobody_was_shown_are_written_together(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        keeping = asyncio.create_task(journal.keep_words())
        for number in range(20):
            journal.add(Text(f"{number} "))
            await asyncio.sleep(0.05)
        await journal.keep()
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        found = await on_disk(store)
        assert len(found) <= 10
        assert "".join(event.text for event in found if isinstance(event, Text)) == "".join(f"{n} " for n in range(20))


@awaited
async def test_words_that_somebody_watches_are_written_ten_times_a_second_at_most(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        journal = journal_of(store, await begun(store, replay="never"))
        writes: list[Growth] = []
        journal.tell(writes.append)
        keeping = asyncio.create_task(journal.keep_words())
        began = asyncio.get_running_loop().time()
        for number in range(40):
            journal.add(Text(f"{number} "))
            await asyncio.sleep(0.02)
        lasted = asyncio.get_running_loop().time() - began
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        assert 1 < len(writes) <= 2 + lasted * 10


@awaited
async def test_who_lost_the_turn_writes_nothing_and_is_told(location: str) -> None:
    told: list[str] = []
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store, replay="never", journal=[Text("before")])
        journal = journal_of(store, claimed, on_failure=lambda: told.append("lost"))
        assert await on_disk(store) == [Text("before")]
        journal.add(Text("after"))
        with pytest.raises(LeaseLost):
            await journal.keep()
        assert isinstance(journal.failure, LeaseLost)
        assert told
        assert await on_disk(store) == [Text("before")]


def test_the_more_turns_write_the_longer_each_waits() -> None:
    pace = Pace()
    with ExitStack() as turns:
        turns.enter_context(pace.taking_part())
        soon = pace.seconds
        for _ in range(999):
            turns.enter_context(pace.taking_part())
        assert soon < 0.1 < 1 <= pace.seconds
    assert pace.seconds == soon
