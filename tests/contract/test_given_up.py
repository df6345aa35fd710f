"""An id that was given up is somebody else's later: it leads nobody into the conversation of who had it before. On both engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.contract.test_moves import move, pages, talk
from tests.gateway.world import awaited

from threadline.clock import to_instant
from threadline.model.delivery import Target
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.conversations import id_changes
from threadline.store.engine.database import read
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock, dm, group

DAY = timedelta(days=1)
MONTHS = 90 * DAY

Place = Callable[[str], SessionSource]


def by_sender(who: str) -> SessionSource:
    return dm(who, chat_id=None)


def in_own_chat(who: str) -> SessionSource:
    return dm(who, chat_id=who)


def in_group(who: str) -> SessionSource:
    return group(who, "g")


places = pytest.mark.parametrize("at", [by_sender, in_own_chat, in_group])


async def moved(store: GatewayStore, old: str, new: str) -> None:
    """The platform tells that a person, and the direct chat that is named after them, has another id."""
    await store.id_changes.apply(move("user", old, new))
    await store.id_changes.apply(move("chat", old, new))


async def shown(store: GatewayStore, entry: SessionEntry) -> list[str]:
    """What was said to us in a session."""
    return [str(m["content"]) for m in await store.load_transcript(entry.session_id) if m["role"] == "user"]


async def current(store: GatewayStore, source: SessionSource) -> list[str]:
    """What the conversation shows that somebody finds there."""
    return await shown(store, await store.get_or_create_session(source))


@places
@pytest.mark.parametrize("has_written_since", [True, False])
@awaited
async def test_who_gets_a_number_later_starts_afresh(
    location: str, clock: FakeClock, at: Place, has_written_since: bool
) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        adas = await talk(store, at("+491"), "in Ada's words")
        await moved(store, "+491", "ada")
        if has_written_since:
            await talk(store, at("ada"), "still Ada")
        clock.advance(MONTHS)
        bobs = await talk(store, at("+491"), "in Bob's words")
        assert bobs.session_id != adas.session_id
        assert (await shown(store, bobs), bobs.owner) == (["in Bob's words"], "telegram:+491")
        assert (await store.get_or_create_session(at("+491"))).session_id == bobs.session_id
        again = await store.get_or_create_session(at("ada"))
        assert (again.session_id, again.owner) == (adas.session_id, "telegram:ada")
        assert (await store.check()).faults == []


@places
@awaited
async def test_what_is_late_by_less_than_a_day_follows(location: str, clock: FakeClock, at: Place) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        before = await talk(store, at("+491"), "before")
        await moved(store, "+491", "ada")
        assert (await store.get_or_create_session(at("ada"))).session_id == before.session_id
        clock.advance(DAY - timedelta(minutes=1))
        assert (await store.get_or_create_session(at("+491"))).session_id == before.session_id
        clock.advance(timedelta(minutes=2))
        assert (await store.get_or_create_session(at("+491"))).session_id != before.session_id


@places
@awaited
async def test_what_is_late_and_the_first_begins_under_the_new_id(location: str, clock: FakeClock, at: Place) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        await moved(store, "+491", "ada")
        late = await talk(store, at("+491"), "late")
        assert late.owner == "telegram:ada"
        clock.advance(MONTHS)
        assert await current(store, at("+491")) == []
        assert await current(store, at("ada")) == ["late"]


@places
@pytest.mark.parametrize("has_written_since", [True, False])
@awaited
async def test_two_who_had_one_number_are_two(
    location: str, clock: FakeClock, at: Place, has_written_since: bool
) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        await talk(store, at("+491"), "in Ada's words")
        await moved(store, "+491", "ada")
        if has_written_since:
            await talk(store, at("ada"), "still Ada")
        clock.advance(MONTHS)
        await talk(store, at("+491"), "in Bob's words")
        await moved(store, "+491", "bob")
        assert await current(store, at("bob")) == ["in Bob's words"]
        assert (await current(store, at("ada")))[0] == "in Ada's words"
        (known, *_) = [record async for record in pages(store, "telegram:bob")]
        assert known.summary.also_known_as == ["telegram:+491"]
        await store.erase_person("telegram:bob")
        assert (await current(store, at("ada")))[0] == "in Ada's words"
        assert await current(store, at("bob")) == []


@places
@awaited
async def test_who_moves_on_without_a_word_takes_nothing_along(location: str, clock: FakeClock, at: Place) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        await talk(store, at("+491"), "in Ada's words")
        await moved(store, "+491", "ada")
        clock.advance(MONTHS)
        await moved(store, "+491", "bob")
        assert await current(store, at("bob")) == []
        assert await current(store, at("ada")) == ["in Ada's words"]


@awaited
async def test_what_somebody_began_under_a_number_is_not_taken_by_who_had_it(location: str, clock: FakeClock) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        await moved(store, "+491", "ada")
        clock.advance(MONTHS)
        bobs = await talk(store, in_group("+491"), "in Bob's words")
        assert await current(store, in_group("ada")) == []
        assert (await store.get_or_create_session(in_group("+491"))).session_id == bobs.session_id


@pytest.mark.parametrize(("erased", "left"), [("ada", "+491"), ("+491", "ada")])
@awaited
async def test_who_is_erased_takes_nobody_else_along(location: str, clock: FakeClock, erased: str, left: str) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        await talk(store, by_sender("+491"), "in Ada's words")
        await moved(store, "+491", "ada")
        clock.advance(MONTHS)
        await talk(store, by_sender("+491"), "in Bob's words")
        words = {"ada": ["in Ada's words"], "+491": ["in Bob's words"]}
        await store.erase_person(f"telegram:{erased}")
        assert await current(store, by_sender(left)) == words[left]
        assert await current(store, by_sender(erased)) == []


@pytest.mark.parametrize("name", ["+491", "bob"])
@awaited
async def test_who_is_erased_leaves_the_way_to_what_is_others(location: str, clock: FakeClock, name: str) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        adas = await talk(store, in_group("+491"), "in Ada's words")
        await moved(store, "+491", "ada")
        clock.advance(MONTHS)
        await talk(store, by_sender("+491"), "in Bob's words")
        if name == "bob":
            await moved(store, "+491", "bob")
        await store.erase_person(f"telegram:{name}")
        assert await current(store, in_group("+491")) == []
        assert (await store.get_or_create_session(in_group("ada"))).session_id == adas.session_id


@awaited
async def test_who_comes_back_to_an_id_is_the_same(location: str, clock: FakeClock) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        before = await talk(store, by_sender("1"), "before")
        for old, new in (("1", "2"), ("2", "1")):
            await store.id_changes.apply(move("user", old, new))
            clock.advance(MONTHS)
            assert (await store.get_or_create_session(by_sender(new))).session_id == before.session_id
        await store.id_changes.apply(move("user", "1", "2", dedupe_key="again"))
        assert (await store.get_or_create_session(by_sender("2"))).session_id == before.session_id
        assert (await store.get_or_create_session(by_sender("1"))).session_id == before.session_id


@awaited
async def test_an_answer_follows_its_chat_for_a_day_alone(location: str, clock: FakeClock) -> None:
    async with await GatewayStore.open(location, clock=clock) as store:
        for old, new in (("1", "2"), ("2", "3")):
            await store.id_changes.apply(move("chat", old, new))
            clock.advance(timedelta(hours=1))

        async def goes_to(chat: str) -> str | None:
            target = Target(platform="telegram", chat_id=chat)
            plan = read(id_changes.current_target, to_instant(clock.now()), target)
            return (await store.perform_async(plan)).chat_id

        assert [await goes_to(chat) for chat in "123"] == ["3", "3", "3"]
        clock.advance(MONTHS)
        assert [await goes_to(chat) for chat in "123"] == ["1", "2", "3"]


@awaited
async def test_who_writes_at_once_under_the_old_and_the_new_id_are_two(location: str, clock: FakeClock) -> None:
    async with (
        await GatewayStore.open(location, clock=clock) as one,
        await GatewayStore.open(location, clock=clock) as other,
    ):
        before = {n: (await talk(one, in_group(f"old-{n}"))).session_id for n in range(6)}
        for number in before:
            await one.id_changes.apply(move("user", f"old-{number}", f"new-{number}"))
        clock.advance(MONTHS)
        for number, session_id in before.items():
            asked = [
                store.get_or_create_session(in_group(f"{which}-{number}"))
                for store in (one, other)
                for which in ("old", "new")
            ]
            bobs, adas, bobs_too, adas_too = [entry.session_id for entry in await asyncio.gather(*asked)]
            assert adas == adas_too == session_id
            assert bobs == bobs_too != session_id
        assert (await one.check()).faults == []
