"""What the tabs of one conversation are handed, and when: without a store, without a network."""

from __future__ import annotations

import asyncio

from tests.gateway.world import awaited

from threadline.web.subscribers import AT_ONCE, MOST_BYTES, Audience, Reader

NEVER = 1_000.0


def tab() -> Reader:
    return Reader(lambda: b"anew")


@awaited
async def test_what_comes_after_a_silence_is_handed_on_at_once() -> None:
    audience, one, other = Audience(lambda: NEVER), tab(), tab()
    for reader in (one, other):
        audience.add(reader, b"begin ")
    audience.tell(b"first ")
    assert await one.next() == await other.next() == b"begin first "


@awaited
async def test_what_comes_in_quick_succession_is_one_piece_for_all_and_none_is_lost() -> None:
    audience, one, other = Audience(lambda: 0.02), tab(), tab()
    for reader in (one, other):
        audience.add(reader, b"begin ")
    for number in range(100):
        audience.tell(b"%d " % number)
    assert [await one.next(), await other.next()] == [b"begin 0 "] * 2
    # By the clock alone: nothing else happens.
    pieces = await one.next(), await other.next()
    assert pieces[0] == b"".join(b"%d " % number for number in range(1, 100))
    assert pieces[0] is pieces[1]


@awaited
async def test_where_no_moment_need_pass_nothing_waits() -> None:
    audience, one = Audience(lambda: 0.0), tab()
    audience.add(one, b"")
    audience.tell(b"first")
    assert await one.next() == b"first"
    audience.tell(b"second")
    assert await one.next() == b"second"


@awaited
async def test_who_comes_meanwhile_is_told_nothing_twice_and_the_others_nothing_too_late() -> None:
    audience, one, late = Audience(lambda: NEVER), tab(), tab()
    audience.add(one, b"begin ")
    audience.tell(b"first ")
    audience.tell(b"second ")
    audience.add(late, b"all so far ")
    audience.tell(b"third ")
    audience.catch_up()
    assert await one.next() == b"begin first second third "
    assert await late.next() == b"all so far third "


@awaited
async def test_what_waits_for_a_moment_to_pass_is_bounded() -> None:
    audience, one = Audience(lambda: NEVER), tab()
    audience.add(one, b"begin")
    audience.tell(b"first")
    assert await one.next() == b"beginfirst"
    half = b"x" * (AT_ONCE // 2)
    audience.tell(half)
    assert one.is_quiet
    audience.tell(half)
    assert await one.next() == half + half


@awaited
async def test_a_reader_that_is_behind_finds_what_waited_in_what_it_is_told_anew() -> None:
    audience = Audience(lambda: NEVER)

    def anew() -> bytes:
        audience.catch_up()
        return b"all so far"

    behind, other = Reader(anew), tab()
    audience.add(behind, b"x")
    audience.add(other, b"x")
    behind.put(b"y" * MOST_BYTES)
    audience.tell(b"first")
    audience.tell(b"second")
    assert await behind.next() == b"all so far"
    assert await other.next() == b"xfirstsecond"
    audience.tell(b"third")
    audience.catch_up()
    assert await behind.next() == await other.next() == b"third"


@awaited
async def test_a_reader_wakes_for_what_is_put_and_ends_when_it_is_closed() -> None:
    reader = tab()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(reader.next())
        await asyncio.sleep(0)
        reader.put(b"one")
        reader.put(b"two")
    assert waiting.result() == b"onetwo"
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(reader.next())
        await asyncio.sleep(0)
        reader.close()
    assert ended.result() is None
