"""Lines that are almost right, and lines that never were: every request in them is answered exactly once, and nothing else.

What is expected is worked out with another reader of JSON than the one under test.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rpc.wire import wired

from threadline.rpc.connection import INVALID_PARAMS, Request, RpcError

Field: TypeAlias = tuple[str, object]

# What the two readers of JSON agree upon: well below their limits, or far beyond them.
DEEP = st.sampled_from([3, 60, 100_000])
IDS = (
    st.integers(-3, 12) | st.text(max_size=3) | st.none() | st.booleans() | st.floats(-5, 5) | st.just([1, {"a": None}])
)
METHODS = st.sampled_from(["echo", "slow", "wrong", "fail", "stoppable", "$/cancel_request"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
PARAMS = VALUES | st.fixed_dictionaries({"requestId": IDS})
NAMES = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "extra"])

CALL = st.tuples(IDS, METHODS, PARAMS).map(
    lambda f: [("jsonrpc", "2.0"), ("id", f[0]), ("method", f[1]), ("params", f[2])]
)
SAID = st.tuples(METHODS, PARAMS).map(lambda f: [("jsonrpc", "2.0"), ("method", f[0]), ("params", f[1])])
CANCEL = IDS.map(lambda n: [("method", "$/cancel_request"), ("params", {"requestId": n})])
RESULT = st.tuples(IDS, VALUES).map(lambda f: [("id", f[0]), ("result", f[1])])
ERROR = st.tuples(IDS, VALUES).map(lambda f: [("id", f[0]), ("error", {"code": 1, "message": "m", "data": f[1]})])


@st.composite
def fields(draw: st.DrawFn) -> list[Field]:
    """A valid message, or one with a few fields swapped, removed, given twice or of another type."""
    message: list[Field] = list(draw(CALL | CALL | CALL | SAID | CANCEL | RESULT | ERROR))
    for change in draw(st.lists(st.sampled_from(["swap", "remove", "retype", "add", "shuffle"]), max_size=2)):
        at = draw(st.integers(0, max(0, len(message) - 1)))
        if change == "add" or not message:
            message.insert(at, (draw(NAMES), draw(VALUES)))
        elif change == "remove":
            del message[at]
        elif change == "retype":
            message[at] = (message[at][0], draw(VALUES))
        elif change == "shuffle":
            message = draw(st.permutations(message))
        else:
            other = draw(st.integers(0, len(message) - 1))
            (a, x), (b, y) = message[at], message[other]
            message[at], message[other] = (a, y), (b, x)
    return message


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A message as bytes: whole, or cut, with bytes changed, in an array, with something deep in it; or no message at all."""
    plain = draw(st.booleans())
    members = [f"{json.dumps(n)}:{json.dumps(v, ensure_ascii=plain)}" for n, v in draw(fields())]
    line = ("{" + ",".join(members) + "}").encode("utf-8", "replace")
    change = draw(st.sampled_from(["none"] * 6 + ["cut", "flip", "insert", "array", "deep", "half", "blank", "noise"]))
    at = draw(st.integers(0, len(line)))
    if change == "cut":
        return line[:at]
    if change in ("flip", "insert"):
        end = at + 1 if change == "flip" else at
        return line[:at] + draw(st.binary(min_size=1, max_size=2)) + line[end:]
    if change == "array":
        return b"[" + b",".join([line] * draw(st.integers(0, 3))) + b"]"
    if change == "deep":
        depth = draw(DEEP)
        return line[:-1] + (b"," if len(line) > 2 else b"") + b'"params":' + b"[" * depth + b"]" * depth + b"}"
    if change == "half":
        return line.replace(b":", rb':"\ud83d",":', 1)
    return {"blank": draw(st.sampled_from([b"", b"  ", b"\r"])), "noise": draw(st.binary(max_size=30))}.get(
        change, line
    )


def expected_answers(stream: bytes) -> Counter[str]:
    """The ids of all answers that the lines must get."""
    return Counter(shown(answer[0]) for line in stream.split(b"\n") for answer in [expected_answer(line)] if answer)


def expected_answer(line: bytes) -> tuple[object] | None:
    """The id of the one answer to a line, or nothing where it gets none."""
    if not line.strip():
        return None
    try:
        message = json.loads(line.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return (None,)
    if not isinstance(message, dict):
        return (None,)
    has_id = "id" in message
    if "method" in message:
        is_request = has_id or not isinstance(message["method"], str)
        return (message.get("id"),) if is_request else None
    if has_id and ("result" in message or message.get("error") is not None):
        return None
    return (message.get("id"),)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def shown(number: object) -> str:
    """An id, with what can't be sent in it replaced."""
    return re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(number, ensure_ascii=False, sort_keys=True))


def serve(request: Request) -> Awaitable[object]:
    """Answers soon, later, with an error, by failing, or when it is cancelled."""
    if request.method == "wrong":
        raise RpcError(INVALID_PARAMS, "no")
    return work(request)


async def work(request: Request) -> object:
    stopped = asyncio.Event()
    if request.method == "stoppable":
        request.on_cancel = stopped.set
    for _ in range(3 if request.method in ("slow", "stoppable") else 0):
        await asyncio.sleep(0)
    if request.method == "fail":
        raise KeyError(request.method)
    return request.params


async def spoken(stream: bytes, kind: str, grace: float) -> list[Any]:
    """All that a connection says to these lines."""
    async with wired(serve, kind=kind, grace=grace) as wire:
        wire.writer.write(stream)
        wire.hang_up()
        written = await wire.reader.read()
        await wire.running
        return [json.loads(line) for line in written.splitlines()]


@given(st.lists(lines(), max_size=12), st.sampled_from(["pipes", "streams"]), st.sampled_from([0.0, 10.0]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_request_is_answered_exactly_once_whatever_stands_around_it(
    written: list[bytes], kind: str, grace: float
) -> None:
    stream = b"\n".join(written)
    answers = asyncio.run(asyncio.wait_for(spoken(stream, kind, grace), 30))
    assert Counter(shown(answer["id"]) for answer in answers) == expected_answers(stream)
    assert [answer for answer in answers if ("result" in answer) == ("error" in answer)] == []
