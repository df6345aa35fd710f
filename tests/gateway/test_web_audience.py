"""What the tabs of one conversation are handed, and when: without a store, without a network."""

from __future__ import annotations

import asyncio

from tests.gateway.world import awaited

from threadline.web.subscribers import AT_ONCE, MAX_BYTES, Subscriber, SubscriberGroup

NEVER = 1_000.0


def tab() -> Subscriber:
    return Subscriber(lambda: b"anew")


@awaited
async def test_what_comes_after_a_silence_is_handed_on_at_once() -> None:
    audience, one, other = SubscriberGroup(lambda: NEVER), tab(), tab()
    for reader in (one, other):
        audience.add(reader, b"begin ")
    audience.broadcast(b"first ")
    assert await one.receive() == await other.receive() == b"begin first "


@awaited
async def test_what_comes_in_quick_succession_is_one_piece_for_all_and_none_is_lost() -> None:
    audience, one, other = SubscriberGroup(lambda: 0.02), tab(), tab()
    for reader in (one, other):
        audience.add(reader, b"begin ")
    for number in range(100):
        audience.broadcast(b"%d " % number)
    assert [await one.receive(), await other.receive()] == [b"begin 0 "] * 2
    # By the clock alone: nothing else happens.
    pieces = await one.receive(), await other.receive()
    assert pieces[0] == b"".join(b"%d " % number for number in range(1, 100))
    assert pieces[0] is pieces[1]


@awaited
async def test_where_no_moment_need_pass_nothing_waits() -> None:
    audience, one = SubscriberGroup(lambda: 0.0), tab()
    audience.add(one, b"")
    audience.broadcast(b"first")
    assert await one.receive() == b"first"
    audience.broadcast(b"second")
    assert await one.receive() == b"second"


@awaited
async def test_who_comes_meanwhile_is_told_nothing_twice_and_the_others_nothing_too_late() -> None:
    audience, one, late = SubscriberGroup(lambda: NEVER), tab(), tab()
    audience.add(one, b"begin ")
    audience.broadcast(b"first ")
    audience.broadcast(b"second ")
    audience.add(late, b"all so far ")
    audience.broadcast(b"third ")
    audience.flush()
    assert await one.receive() == b"begin first second third "
    assert await late.receive() == b"all so far third "


@awaited
async def test_what_waits_for_a_moment_to_pass_is_bounded() -> None:
    audience, one = SubscriberGroup(lambda: NEVER), tab()
    audience.add(one, b"begin")
    audience.broadcast(b"first")
    assert await one.receive() == b"beginfirst"
    half = b"x" * (AT_ONCE // 2)
    audience.broadcast(half)
    assert one.is_empty
    audience.broadcast(half)
    assert await one.receive() == half + half


@awaited
async def test_a_reader_that_is_behind_finds_what_waited_in_what_it_is_told_anew() -> None:
    audience = SubscriberGroup(lambda: NEVER)

    def anew() -> bytes:
        audience.flush()
        return b"all so far"

    behind, other = Subscriber(anew), tab()
    audience.add(behind, b"x")
    audience.add(other, b"x")
    behind.send(b"y" * MAX_BYTES)
    audience.broadcast(b"first")
    audience.broadcast(b"second")
    assert await behind.receive() == b"all so far"
    assert await other.receive() == b"xfirstsecond"
    audience.broadcast(b"third")
    audience.flush()
    assert await behind.receive() == await other.receive() == b"third"


@awaited
async def test_a_reader_wakes_for_what_is_put_and_ends_when_it_is_closed() -> None:
    reader = tab()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(reader.receive())
        await asyncio.sleep(0)
        reader.send(b"one")
        reader.send(b"two")
    assert waiting.result() == b"onetwo"
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(reader.receive())
        await asyncio.sleep(0)
        reader.close()
    assert ended.result() is None
