"""The end of a connection, from either side and at any time: nothing hangs, nothing is raised where nobody asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

import pytest
from tests.gateway.world import awaited
from tests.rpc.wire import KINDS, ByItself, Waiting, call, echo, wired

from threadline.rpc.connection import CANCELLED, ConnectionEnded, Request

by_kind = pytest.mark.parametrize("kind", KINDS)


@by_kind
@awaited
async def test_at_the_end_of_input_work_is_cancelled_and_its_requests_are_answered(kind: str) -> None:
    work = Waiting()
    async with wired(work, kind=kind) as wire:
        wire.send(call(1), call(2))
        await work.began.wait()
        answers = await wire.rest()
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, CANCELLED), (2, CANCELLED)]
        assert work.cancelled.is_set()


@awaited
async def test_work_that_was_never_begun_is_answered_too() -> None:
    async with wired(echo) as wire:
        wire.send(*[call(n) for n in range(10)])
        answers = await wire.rest()
        assert [answer["id"] for answer in answers] == list(range(10))


@by_kind
@awaited
async def test_work_has_its_grace_after_the_end_of_input(kind: str) -> None:
    work = Waiting()
    async with wired(work, kind=kind, grace=20) as wire:
        wire.send(call(1))
        wire.hang_up()
        await work.began.wait()
        asyncio.get_running_loop().call_later(0.01, work.go_on.set)
        assert [answer["result"] for answer in await wire.rest()] == ["done"]


@awaited
async def test_what_is_answered_by_itself_has_its_grace_too_and_is_answered_at_its_end() -> None:
    work = ByItself()
    async with wired(work, grace=20) as wire:
        wire.send(call(1), call(2))
        wire.hang_up()
        answered, _ = await work.has(2)
        asyncio.get_running_loop().call_later(0.01, answered.answer, "done")
        asyncio.get_running_loop().call_later(0.02, wire.connection.close)
        first, second = await wire.rest()
        assert first["result"] == "done"
        assert second["error"]["code"] == CANCELLED


@awaited
async def test_the_end_does_not_wait_for_the_grace_when_all_is_answered() -> None:
    work = ByItself()
    async with wired(work, grace=3600) as wire:
        wire.send(call(1))
        wire.hang_up()
        [taken] = await work.has(1)
        asyncio.get_running_loop().call_later(0.01, taken.answer, "done")
        assert [answer["result"] for answer in await wire.rest()] == ["done"]


@awaited
async def test_what_is_left_for_behind_the_last_answer_is_told_before_the_end() -> None:
    work = ByItself()
    async with wired(work, grace=3600) as wire:
        wire.send(call(1))
        wire.hang_up()
        [taken] = await work.has(1)
        # The end of input is seen by then.
        await asyncio.sleep(0.01)
        taken.answer("done")
        asyncio.get_running_loop().call_soon(wire.connection.notify, "after", {})
        answer, after = await wire.rest()
        assert (answer["result"], after["method"]) == ("done", "after")


@awaited
async def test_a_close_ends_the_grace() -> None:
    work = Waiting()
    async with wired(work, grace=3600) as wire:
        wire.send(call(1))
        wire.hang_up()
        await work.began.wait()
        wire.connection.close()
        assert [answer["error"]["code"] for answer in await wire.rest()] == [CANCELLED]


@by_kind
@awaited
async def test_requests_of_ours_fail_at_the_end_of_input_and_after_it(kind: str) -> None:
    async with wired(kind=kind) as wire:

        async def asking() -> None:
            with pytest.raises(ConnectionEnded):
                await wire.connection.request("ask", {})
            asked.set()

        asked = asyncio.Event()
        wire.begin(asking())
        await wire.receive()
        wire.hang_up()
        await asked.wait()
        await wire.running
        with pytest.raises(ConnectionEnded):
            await wire.connection.request("ask", {})
        wire.connection.notify("tell", {})
        wire.connection.send_lines(b"{}\n")
        await wire.connection.drain()


@by_kind
@awaited
async def test_work_that_waits_for_the_other_side_ends_with_it(kind: str) -> None:
    ended = asyncio.Event()

    async def serve(request: Request) -> object:
        try:
            return await wire.connection.request("back", {})
        except ConnectionEnded:
            ended.set()
            raise

    async with wired(serve, kind=kind, grace=20) as wire:
        wire.send(call(1))
        await wire.receive()
        assert [answer["id"] for answer in await wire.rest()] == [1]
        assert ended.is_set()


@by_kind
@awaited
async def test_close_ends_everything_and_the_other_side_sees_it(kind: str) -> None:
    work = Waiting()
    async with wired(work, kind=kind) as wire:
        wire.send(call(1))
        await work.began.wait()
        wire.connection.close()
        wire.connection.close()
        assert (await wire.receive())["error"]["code"] == CANCELLED
        await wire.running
        assert not wire.running.cancelled()
        with pytest.raises(ConnectionEnded):
            await wire.connection.request("ask", {})


@awaited
async def test_close_from_inside_a_request_ends_the_connection_after_what_was_read_is_left() -> None:
    seen: list[str] = []

    def serve(request: Request) -> Awaitable[object]:
        seen.append(request.method)
        wire.connection.close()
        return echo(request)

    async with wired(serve) as wire:
        wire.writer.write(b'{"id":1,"method":"quit"}\n{"id":2,"method":"late"}\n')
        assert (await wire.receive())["error"]["code"] == CANCELLED
        await wire.running
        assert seen == ["quit"]


@awaited
async def test_who_cancels_the_reader_ends_it_and_all_work() -> None:
    work = Waiting()
    async with wired(work) as wire:
        wire.send(call(1))
        await work.began.wait()
        wire.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wire.running
        await work.cancelled.wait()
        wire.connection.notify("tell", {})


@by_kind
@awaited
async def test_when_nobody_reads_any_more_the_connection_ends_and_telling_raises_nothing(kind: str) -> None:
    async with wired(echo, kind=kind) as wire:
        wire.writer.get_extra_info("socket").shutdown(socket.SHUT_RD)
        while not wire.running.done():
            wire.connection.notify("tell", {"text": "x" * 1000})
            await asyncio.sleep(0)
        await wire.running
        await wire.connection.drain()
        with pytest.raises(ConnectionEnded):
            await wire.connection.request("ask", {})


@by_kind
@awaited
async def test_telling_never_blocks_and_drain_waits_for_the_other_side_to_read(kind: str) -> None:
    lines = 500
    async with wired(echo, kind=kind) as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(lines):
            wire.connection.notify("tell", {"number": number, "text": "x" * 20_000})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.connection.drain(), 0.05)
        wire.reader._transport.resume_reading()  # type: ignore[attr-defined]
        received = await wire.receive_all(lines)
        await wire.connection.drain()
        assert [line["params"]["number"] for line in received] == list(range(lines))


@awaited
async def test_a_peer_that_does_not_read_its_answers_is_not_read_from_for_ever() -> None:
    answered = 0

    async def serve(request: Request) -> object:
        nonlocal answered
        answered += 1
        return "x" * 1_000_000

    async with wired(serve) as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(1000):
            wire.send(b'{"id":%d,"method":"echo","params":{"pad":"%s"}}' % (number, b" " * 60_000))
        before = -1
        while before != answered:
            before = answered
            await asyncio.sleep(0.05)
        assert answered < 100
        wire.connection.close()
        wire.reader._transport.resume_reading()  # type: ignore[attr-defined]
        await wire.running


@by_kind
@awaited
async def test_a_peer_that_is_gone_while_its_answers_wait_ends_the_connection(kind: str) -> None:
    async def serve(request: Request) -> object:
        return "x" * 1_000_000

    async with wired(serve, kind=kind) as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(*[call(number, pad=" " * 2000) for number in range(500)])
        await asyncio.sleep(0.05)
        wire.writer.transport.abort()
        await wire.running
        assert not wire.running.cancelled()


@awaited
async def test_work_that_will_not_stop_does_not_hold_up_the_end() -> None:
    let_go = asyncio.Event()

    async def serve(request: Request) -> object:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return None

    async with wired(serve) as wire:
        wire.send(call(1))
        await asyncio.sleep(0.01)
        assert [answer["error"]["code"] for answer in await wire.rest()] == [CANCELLED]
        let_go.set()
