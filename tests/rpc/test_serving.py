"""Requests that come in: answered once each, in our words where they fail, and cancelled where that is asked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable

import msgspec
import pytest
from tests.gateway.world import awaited
from tests.rpc.wire import KINDS, ByItself, Waiting, call, echo, said, wired

from threadline.rpc.connection import (
    CANCELLED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Request,
    RpcError,
)
from threadline.rpc.requests import MAX_OPEN

by_kind = pytest.mark.parametrize("kind", KINDS)


@by_kind
@awaited
async def test_a_request_is_answered_with_what_its_work_returns(kind: str) -> None:
    async with wired(echo, kind=kind) as wire:
        wire.send(call(7, text="hé"))
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 7, "result": {"text": "hé"}}


@pytest.mark.parametrize("written", [b'"params":null,', b""])
@awaited
async def test_params_that_are_not_given_are_an_empty_object(written: bytes) -> None:
    async with wired(echo) as wire:
        wire.send(b'{"jsonrpc":"2.0",' + written + b'"id":1,"method":"echo"}')
        assert (await wire.receive())["result"] == {}


@pytest.mark.parametrize("number", [0, -1, 1.5, "a", "", "\u20ac\n\\", None, True, [1, [2]], {"a": {}}, 10**30])
@awaited
async def test_an_id_of_any_type_comes_back_as_it_was(number: object) -> None:
    async with wired(echo) as wire:
        wire.send(b'{"id":%s,"method":"echo"}' % _json(number))
        assert (await wire.reader.readuntil(b"\n")).startswith(b'{"id":%s,' % _json(number))


def _json(value: object) -> bytes:
    return b"1" + b"0" * 30 if value == 10**30 else msgspec.json.encode(value)


@awaited
async def test_an_error_of_the_work_is_answered_as_it_is() -> None:
    def serve(request: Request) -> Awaitable[object]:
        raise RpcError(INVALID_PARAMS, "No.", {"why": [1]})

    async def serve_later(request: Request) -> object:
        await asyncio.sleep(0)
        return serve(request)

    for each in (serve, serve_later):
        async with wired(each) as wire:
            wire.send(call(1))
            assert (await wire.receive())["error"] == {"code": INVALID_PARAMS, "message": "No.", "data": {"why": [1]}}


@awaited
async def test_an_unforeseen_failure_is_answered_in_a_plain_sentence_and_the_next_request_is_served() -> None:
    async def serve(request: Request) -> object:
        if request.method == "fail":
            raise ZeroDivisionError("secret")
        return {"unsayable": object()} if request.method == "odd" else "fine"

    async with wired(serve) as wire:
        wire.send(call(1, "fail"), call(2, "odd"), call(3))
        first, second, third = await wire.receive_all(3)
        assert first["error"]["code"] == second["error"]["code"] == INTERNAL
        assert "secret" not in first["error"]["message"]
        assert third["result"] == "fine"


@pytest.mark.parametrize("error", [RpcError(1, "x", object()), RpcError(1, "\ud800")], ids=["object", "half"])
@awaited
async def test_an_error_that_has_no_json_is_answered_all_the_same(
    error: RpcError, caplog: pytest.LogCaptureFixture
) -> None:
    # The test's own report could not carry what is logged of half a character.
    caplog.set_level(logging.CRITICAL)

    def serve(request: Request) -> Awaitable[object]:
        raise error

    async with wired(serve) as wire:
        wire.send(call(1))
        assert (await wire.receive())["error"]["code"] == INTERNAL


@awaited
async def test_a_result_written_over_several_lines_is_sent_as_one() -> None:
    async def serve(request: Request) -> object:
        return msgspec.Raw(b'{\n"a": [1,\n2]}')

    async with wired(serve) as wire:
        wire.send(call(1))
        assert (await wire.receive())["result"] == {"a": [1, 2]}


@by_kind
@awaited
async def test_requests_and_notifications_are_begun_in_the_order_in_which_they_came(kind: str) -> None:
    seen: list[object] = []

    def serve(request: Request) -> Awaitable[object]:
        seen.append(int(bytes(request.id)))
        return echo(request)

    def hear(method: str, params: msgspec.Raw) -> None:
        seen.append(method)

    expected = [n if n % 3 else f"m{n}" for n in range(5000)]
    async with wired(serve, hear, kind=kind) as wire:
        wire.send(*[call(item) if isinstance(item, int) else said(item) for item in expected])
        await wire.receive_all(sum(isinstance(item, int) for item in expected))
        assert seen == expected


@awaited
async def test_what_is_told_while_a_request_is_served_goes_out_before_its_answer_and_the_rest_after_it() -> None:
    async def serve(request: Request) -> object:
        wire.connection.notify("before", {})
        asyncio.get_running_loop().call_soon(wire.connection.notify, "after", {})
        return "answer"

    async with wired(serve) as wire:
        wire.send(call(1))
        first, second, third = await wire.receive_all(3)
        assert (first["method"], second["result"], third["method"]) == ("before", "answer", "after")


@awaited
async def test_quick_work_is_answered_while_slow_work_goes_on() -> None:
    slow = Waiting()

    def serve(request: Request) -> Awaitable[object]:
        return slow(request) if request.method == "slow" else echo(request)

    async with wired(serve) as wire:
        wire.send(call(1, "slow"), call(2))
        assert (await wire.receive())["id"] == 2
        slow.go_on.set()
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": "done"}


@awaited
async def test_an_id_that_is_still_being_answered_is_refused_and_may_be_used_again_later() -> None:
    work = Waiting()
    async with wired(work) as wire:
        wire.send(call("\u00e9"), rb'{"id":"\u00e9","method":"echo"}')
        refused = await wire.receive()
        assert (refused["id"], refused["error"]["code"]) == ("\u00e9", INVALID_REQUEST)
        work.go_on.set()
        assert (await wire.receive())["result"] == "done"
        wire.send(call("\u00e9"))
        assert (await wire.receive())["result"] == "done"


@by_kind
@awaited
async def test_a_cancelled_request_is_answered_so_at_once_and_its_work_is_cancelled(kind: str) -> None:
    work = Waiting()
    async with wired(work, kind=kind) as wire:
        wire.send(call(1))
        await work.began.wait()
        wire.send(said("$/cancel_request", requestId=1))
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (1, CANCELLED)
        await work.cancelled.wait()
        assert await wire.rest() == []


@awaited
async def test_a_request_cancelled_before_its_work_began_is_answered_once() -> None:
    async with wired(echo) as wire:
        wire.send(msgspec.json.encode(call(1)) + b"\n" + msgspec.json.encode(said("$/cancel_request", requestId=1)))
        assert (await wire.receive())["error"]["code"] == CANCELLED
        assert await wire.rest() == []


@awaited
async def test_work_that_sees_to_its_own_cancel_gives_its_own_answer() -> None:
    asked = asyncio.Event()

    async def serve(request: Request) -> object:
        request.on_cancel = asked.set
        wire.connection.notify("began", {})
        await asked.wait()
        return "stopped in time"

    async with wired(serve) as wire:
        wire.send(call(1))
        await wire.receive()
        wire.send(said("$/cancel_request", requestId=1))
        assert (await wire.receive())["result"] == "stopped in time"
        assert await wire.rest() == []


@awaited
async def test_a_cancel_that_fails_leaves_the_request_to_its_work() -> None:
    work = Waiting()

    def broken() -> None:
        work.go_on.set()
        raise ZeroDivisionError

    def serve(request: Request) -> Awaitable[object]:
        request.on_cancel = broken
        return work(request)

    async with wired(serve) as wire:
        wire.send(call(1), said("$/cancel_request", requestId=1))
        assert (await wire.receive())["result"] == "done"


@pytest.mark.parametrize(
    "params", [{}, {"requestId": 5}, {"requestId": [1]}, {"requestId": "1"}, {"requestId": None}, 7]
)
@awaited
async def test_a_cancel_of_nothing_changes_nothing(params: object) -> None:
    work = Waiting()
    async with wired(work) as wire:
        wire.send(call(1), {"method": "$/cancel_request", "params": params})
        await work.began.wait()
        work.go_on.set()
        assert (await wire.receive())["result"] == "done"


@awaited
async def test_work_that_was_cancelled_by_its_owner_is_answered() -> None:
    async def serve(request: Request) -> object:
        raise asyncio.CancelledError

    async with wired(serve) as wire:
        wire.send(call(1))
        assert (await wire.receive())["error"]["code"] == CANCELLED


@awaited
async def test_more_requests_than_can_be_held_are_refused_until_some_are_answered() -> None:
    work = Waiting()
    async with wired(work) as wire:
        wire.send(*[call(n) for n in range(MAX_OPEN + 3)])
        refused = await wire.receive_all(3)
        assert {answer["error"]["code"] for answer in refused} == {INTERNAL}
        assert [answer["id"] for answer in refused] == [MAX_OPEN, MAX_OPEN + 1, MAX_OPEN + 2]
        work.go_on.set()
        assert {answer["result"] for answer in await wire.receive_all(MAX_OPEN)} == {"done"}
        wire.send(call("again"))
        assert (await wire.receive())["result"] == "done"


@pytest.mark.parametrize("seed", range(5))
@awaited
async def test_every_request_is_answered_exactly_once_under_random_cancels(seed: int) -> None:
    chance = random.Random(seed)

    async def serve(request: Request) -> object:
        if chance.random() < 0.3:
            request.on_cancel = asyncio.Event().set
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            raise chance.choice([RpcError(METHOD_NOT_FOUND, "no"), KeyError("x"), asyncio.CancelledError()])
        return None

    count = 600
    async with wired(serve) as wire:
        for number in range(count):
            wire.send(call(number))
            if chance.random() < 0.6:
                wire.send(said("$/cancel_request", requestId=chance.randrange(number + 1)))
            if chance.random() < 0.1:
                await asyncio.sleep(0)
        answers = await wire.receive_all(count)
        assert sorted(answer["id"] for answer in answers) == list(range(count))
        assert await wire.rest() == []


@by_kind
@awaited
async def test_work_may_answer_by_itself_once(kind: str) -> None:
    work = ByItself()
    async with wired(work, kind=kind) as wire:
        wire.send(call(1), call(2))
        first, second = await work.has(2)
        second.answer(RpcError(INVALID_PARAMS, "No."))
        first.answer("done")
        first.answer("again")
        second.answer(ZeroDivisionError())
        assert (await wire.receive())["error"]["message"] == "No."
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": "done"}
        assert await wire.rest() == []


@awaited
async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_of_the_same_id() -> None:
    work = ByItself()
    async with wired(work) as wire:
        for count, text in enumerate(("first", "second"), 1):
            wire.send(call(1))
            *before, last = await work.has(count)
            for request in before:
                request.answer("late")
            last.answer(text)
            assert (await wire.receive())["result"] == text
        assert await wire.rest() == []


@awaited
async def test_a_result_that_has_no_json_is_answered_as_a_failure_by_itself_too() -> None:
    work = ByItself()
    async with wired(work) as wire:
        wire.send(call(1))
        await work.has(1)
        work.taken[0].answer(object())
        assert (await wire.receive())["error"]["code"] == INTERNAL


@awaited
async def test_what_is_answered_by_itself_can_be_cancelled() -> None:
    work = ByItself()
    async with wired(work) as wire:
        wire.send(call(1))
        await work.has(1)
        wire.send(said("$/cancel_request", requestId=1))
        assert (await wire.receive())["error"]["code"] == CANCELLED
        work.taken[0].answer("late")
        assert await wire.rest() == []


@awaited
async def test_lines_leave_with_the_answer_behind_them_or_soon() -> None:
    work = ByItself()
    async with wired(work) as wire:
        wire.connection.send_lines(b'{"n":1}\n')
        assert await wire.receive() == {"n": 1}
        wire.send(call(1))
        await work.has(1)
        wire.connection.send_lines(b'{"n":2}\n')
        wire.connection.send_lines(b'{"n":3}\n')
        work.taken[0].answer("done")
        wire.connection.send_lines(b'{"n":4}\n')
        second, third, answer, fourth = await wire.receive_all(4)
        assert [line["n"] for line in (second, third, fourth)] == [2, 3, 4]
        assert answer["result"] == "done"
        wire.connection.send_lines(b'{"n":5}\n')
        assert await wire.rest() == [{"n": 5}]
