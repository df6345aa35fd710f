"""Requests and notifications of ours: the other side's answer, its error, its silence and its end."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.gateway.world import awaited
from tests.rpc.wire import KINDS, Wire, call, echo, said, wired

from threadline.rpc.connection import INTERNAL, INVALID_REQUEST, ConnectionEnded, RpcError

by_kind = pytest.mark.parametrize("kind", KINDS)


async def ask(wire: Wire, method: str = "ask", **params: object) -> asyncio.Future[msgspec.Raw | BaseException]:
    """A request that was sent, and what will come of it."""
    outcome: asyncio.Future[msgspec.Raw | BaseException] = asyncio.get_running_loop().create_future()

    async def asking() -> None:
        try:
            outcome.set_result(await wire.connection.request(method, params))
        except (RpcError, ConnectionEnded) as error:
            outcome.set_result(error)

    wire.begin(asking())
    await asyncio.sleep(0)
    return outcome


@by_kind
@awaited
async def test_a_request_gives_the_result_of_the_other_side(kind: str) -> None:
    async with wired(kind=kind) as wire:
        outcome = await ask(wire, text="hé")
        asked = await wire.receive()
        assert asked == {"jsonrpc": "2.0", "id": asked["id"], "method": "ask", "params": {"text": "hé"}}
        wire.send({"id": asked["id"], "result": {"a": 1}})
        result = await outcome
        assert isinstance(result, msgspec.Raw)
        assert bytes(result) == b'{"a":1}'


@awaited
async def test_answers_find_their_requests_in_whatever_order_they_come() -> None:
    async with wired() as wire:
        outcomes = [await ask(wire, str(n)) for n in range(50)]
        for asked in reversed(await wire.receive_all(50)):
            wire.send({"id": asked["id"], "result": asked["method"]})
        results = [await outcome for outcome in outcomes]
        assert [msgspec.json.decode(result) for result in results if isinstance(result, msgspec.Raw)] == [
            str(n) for n in range(50)
        ]


@pytest.mark.parametrize(
    ("error", "code", "message", "more"),
    [
        ({"code": -32002, "message": "gone", "data": {"uri": "x"}}, -32002, "gone", {"uri": "x"}),
        ({"code": 5}, 5, "", None),
        ("just text", INTERNAL, None, None),
        ([], INTERNAL, None, None),
        ({"code": "5", "message": 3}, INTERNAL, None, None),
    ],
)
@awaited
async def test_an_error_of_the_other_side_is_raised_however_it_is_written(
    error: object, code: int, message: str | None, more: object
) -> None:
    async with wired() as wire:
        outcome = await ask(wire)
        wire.send({"id": (await wire.receive())["id"], "error": error})
        raised = await outcome
        assert isinstance(raised, RpcError)
        assert (raised.code, raised.data) == (code, more)
        assert raised.message == message if message is not None else raised.message


@pytest.mark.parametrize("answer", [{}, {"result": None}, {"result": None, "error": None}])
@awaited
async def test_an_answer_with_nothing_in_it_is_the_result_null(answer: dict[str, object]) -> None:
    async with wired() as wire:
        outcome = await ask(wire)
        wire.send({"id": (await wire.receive())["id"], **answer})
        result = await outcome
        assert isinstance(result, msgspec.Raw)
        assert bytes(result) == b"null"


@pytest.mark.parametrize("number", [99, "1", None, 1.0, [1]])
@awaited
async def test_an_answer_that_nobody_waits_for_is_ignored(number: object) -> None:
    async with wired(echo) as wire:
        outcome = await ask(wire)
        await wire.receive()
        wire.send({"id": number, "result": 1}, {"id": number, "error": {"code": 1, "message": "x"}}, call("next"))
        assert (await wire.receive())["id"] == "next"
        assert not outcome.done()


@awaited
async def test_an_id_alone_that_nobody_waits_for_is_refused() -> None:
    async with wired() as wire:
        wire.send({"id": 99})
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (99, INVALID_REQUEST)


@by_kind
@awaited
async def test_who_stops_waiting_tells_the_other_side_and_a_late_answer_is_ignored(kind: str) -> None:
    async with wired(echo, kind=kind) as wire:

        async def asking() -> None:
            await wire.connection.request("slow", {})

        task = wire.begin(asking())
        asked = await wire.receive()
        task.cancel()
        assert await wire.receive() == said("$/cancel_request", requestId=asked["id"])
        wire.send({"id": asked["id"], "result": 1}, call("next"))
        assert (await wire.receive())["id"] == "next"


@awaited
async def test_a_request_that_takes_too_long_is_given_up_and_cancelled() -> None:
    async with wired() as wire:
        with pytest.raises(TimeoutError):
            await wire.connection.request("slow", {}, timeout=0.01)
        asked = await wire.receive()
        assert await wire.receive() == said("$/cancel_request", requestId=asked["id"])


@awaited
async def test_an_answer_in_time_is_no_timeout() -> None:
    async with wired() as wire:

        async def answering() -> None:
            wire.send({"id": (await wire.receive())["id"], "result": 3})

        wire.begin(answering())
        assert bytes(await wire.connection.request("quick", {}, timeout=20)) == b"3"
        assert await wire.rest() == []


@awaited
async def test_params_that_have_no_json_are_an_error_of_the_caller_and_nothing_is_sent() -> None:
    async with wired(echo) as wire:
        with pytest.raises(TypeError):
            await wire.connection.request("ask", object())
        with pytest.raises(TypeError):
            wire.connection.notify("tell", object())
        wire.send(call(1))
        assert (await wire.receive())["id"] == 1


@by_kind
@awaited
async def test_what_is_told_and_ready_made_lines_keep_their_order(kind: str) -> None:
    async with wired(kind=kind) as wire:
        for number in range(0, 300, 3):
            wire.connection.notify("n", {"number": number})
            wire.connection.send_lines(
                b'{"params":{"number":%d}}\n{"params":{"number":%d}}\n' % (number + 1, number + 2)
            )
        received = await wire.receive_all(300)
        assert [line["params"]["number"] for line in received] == list(range(300))


@by_kind
@awaited
async def test_two_sides_ask_each_other_at_once(kind: str) -> None:
    async def serve(request: object) -> object:
        return msgspec.json.decode(await wire.connection.request("back", {}))

    async with wired(serve, kind=kind) as wire:
        wire.send(*[call(n) for n in range(20)])
        for asked in await wire.receive_all(20):
            wire.send({"id": asked["id"], "result": asked["id"] * 10})
        answers = await wire.receive_all(20)
        assert [answer["id"] for answer in answers] == list(range(20))
        assert [answer["result"] for answer in answers] == [n * 10 for n in range(1, 21)]
