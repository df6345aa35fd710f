"""Whatever stands on a line: it is answered as JSON-RPC wants, and the next line is served."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.world import awaited
from tests.rpc.wire import KINDS, call, echo, said, wired

from threadline.rpc.connection import INVALID_REQUEST, PARSE_ERROR, Request
from threadline.rpc.envelope import InvalidLine, NotificationLine, RequestLine, ResponseLine, parse

DEEP = 200_000

REFUSED = {
    "a batch": (b'[{"id":1,"method":"echo"},{"id":2,"method":"echo"}]', INVALID_REQUEST),
    "an empty batch": (b"[]", INVALID_REQUEST),
    "a string": (b'"echo"', INVALID_REQUEST),
    "a number": (b"17", INVALID_REQUEST),
    "null": (b"null", INVALID_REQUEST),
    "an object without anything": (b"{}", INVALID_REQUEST),
    "a method that is a number": (b'{"method":1}', INVALID_REQUEST),
    "an error for nobody to know": (b'{"error":{"code":1}}', INVALID_REQUEST),
    "no JSON": (b"Hello there", PARSE_ERROR),
    "half a message": (b'{"id":1,"method":"ec', PARSE_ERROR),
    "half a batch": (b'[{"id":1,"method":"echo"}', PARSE_ERROR),
    "two messages": (b'{"id":1,"method":"echo"} {"id":2,"method":"echo"}', PARSE_ERROR),
    "a wrong type and then no JSON": (b'{"id":1,"method":5,"params":{}', PARSE_ERROR),
    "bad UTF-8 in the params": (b'{"id":1,"method":"echo","params":{"a":"\xff"}}', PARSE_ERROR),
    "bad UTF-8 in a name": (b'{"id":1,"method":"echo","\xc3":1}', PARSE_ERROR),
    "zeros": (b"\0\0\0", PARSE_ERROR),
    "NaN": (b'{"id":NaN,"method":"echo"}', PARSE_ERROR),
    "deep arrays": (b"[" * DEEP + b"]" * DEEP, PARSE_ERROR),
    "deep params": (b'{"id":1,"method":"echo","params":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", PARSE_ERROR),
    "a deep id": (b'{"id":' + b"[" * DEEP + b"]" * DEEP + b',"method":"echo"}', PARSE_ERROR),
    "a deep method": (b'{"method":' + b"[" * DEEP + b"]" * DEEP + b',"id":1}', PARSE_ERROR),
}


@pytest.mark.parametrize(("line", "code"), REFUSED.values(), ids=REFUSED)
@awaited
async def test_a_line_that_is_no_message_is_refused_once_and_the_next_is_served(line: bytes, code: int) -> None:
    async with wired(echo) as wire:
        wire.send(line, call("next"))
        refused, served = await wire.receive_all(2)
        assert (refused["id"], refused["error"]["code"]) == (None, code)
        assert refused["error"]["message"]
        assert served == {"jsonrpc": "2.0", "id": "next", "result": {}}


@pytest.mark.parametrize("method", [b"5", b"null", b"[]", b'{"a":1}'])
@awaited
async def test_a_request_whose_method_is_no_string_is_refused_by_its_id(method: bytes) -> None:
    async with wired(echo) as wire:
        wire.send(b'{"method":%s,"id":"mine"}' % method)
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == ("mine", INVALID_REQUEST)


@pytest.mark.parametrize("line", [b"", b"   ", b"\r", b"\t\r"])
@awaited
async def test_an_empty_line_is_passed_over(line: bytes) -> None:
    async with wired(echo) as wire:
        wire.send(line, msgspec.json.encode(call(1)) + b"\r")
        assert (await wire.receive())["id"] == 1


@awaited
async def test_of_a_name_given_twice_the_last_counts() -> None:
    async with wired(echo) as wire:
        wire.send(b'{"id":1,"method":7,"id":2,"method":"echo","params":{"a":1},"params":{"b":2}}')
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 2, "result": {"b": 2}}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"cut \ud83d here", "cut \ufffd here"),
        (rb"\ude00\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\ud83d\ude00\n", "\ufffd\U0001f600\n"),
        (rb"\\ud83d\ud83d", "\\ud83d\ufffd"),
    ],
)
@awaited
async def test_half_a_character_does_not_cost_the_request(written: bytes, read: str) -> None:
    async with wired(echo) as wire:
        wire.send(b'{"id":"%s","method":"echo","params":{"text":"%s"}}' % (written, written))
        assert await wire.receive() == {"jsonrpc": "2.0", "id": read, "result": {"text": read}}


@awaited
async def test_what_a_notification_makes_fail_does_not_end_the_connection() -> None:
    def hear(method: str, params: msgspec.Raw) -> None:
        msgspec.json.decode(params, type=dict[str, int])[method]

    async with wired(echo, hear) as wire:
        wire.send(said("a", a="no number"), said("b"), call(1))
        assert (await wire.receive())["id"] == 1


@pytest.mark.parametrize("kind", KINDS)
@awaited
async def test_a_line_of_fifty_megabytes_is_served(kind: str) -> None:
    async def serve(request: Request) -> object:
        return len(bytes(request.params))

    text = "x" * 50_000_000
    async with wired(serve, kind=kind) as wire:
        wire.send(call(1, text=text), call(2))
        first, second = await wire.receive_all(2)
        assert (first["result"], second["result"]) == (len(text) + len('{"text":""}'), 2)


@awaited
async def test_an_answer_of_fifty_megabytes_arrives_whole() -> None:
    text = "y" * 50_000_000

    async def serve(request: Request) -> object:
        return text

    async with wired(serve) as wire:
        wire.send(call(1), call(2))
        first, second = await wire.receive_all(2)
        assert (first["id"], second["id"]) == (1, 2)
        assert first["result"] == second["result"] == text


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@settings(max_examples=500, deadline=None)
def test_every_line_is_read_as_something(line: bytes) -> None:
    assert isinstance(parse(line), RequestLine | NotificationLine | ResponseLine | InvalidLine)
