"""Whether lines on the wire are the protocol's, to the letter: as strict as our own reading is lenient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.rpc.acp import METHODS, AcpStruct, Method, UnknownUpdate

# Who reads the line.
Direction: TypeAlias = Literal["to_agent", "to_client"]
_BACK: dict[Direction, Direction] = {"to_agent": "to_client", "to_client": "to_agent"}
_READER: dict[Direction, str] = {"to_agent": "agent", "to_client": "client"}


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a request was not carried out."""

    code: int
    message: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request, a notification or an answer."""

    jsonrpc: Literal["2.0"]
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Error | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_answer(self) -> bool:
        return self.method is msgspec.UNSET


def check_line(direction: Direction, line: bytes | str, *, answers: str | None = None) -> AcpStruct | None:
    """What the line holds. `answers` is the method that an answer belongs to; without it only its envelope is looked at.

    Raises AssertionError where the line is not exactly what the protocol says, fields that we don't know included.
    """
    text = line.encode() if isinstance(line, str) else line
    assert b"\n" not in text.removesuffix(b"\n"), "more than one line"
    try:
        return _check(direction, msgspec.json.decode(text, type=Line), answers)
    except msgspec.ValidationError as error:
        raise AssertionError(f"{error}: {text[:500]!r}") from error


def check_lines(lines: Iterable[tuple[Direction, bytes | str]]) -> list[AcpStruct | None]:
    """What a talk holds, in its order. Besides, every answer belongs to a request, and every request has one answer."""
    asked: dict[tuple[Direction, object], str] = {}
    held = []
    for direction, line in lines:
        read = msgspec.json.decode(line, type=Line)
        if read.is_answer:
            method = asked.pop((_BACK[direction], read.id), None)
            assert method is not None, f"nobody asked: {line!r}"
            held.append(check_line(direction, line, answers=method))
            continue
        held.append(check_line(direction, line))
        if read.id is not msgspec.UNSET:
            assert (direction, read.id) not in asked, f"asked twice: {line!r}"
            asked[direction, read.id] = str(read.method)
    assert asked == {}, "not answered"
    return held


def _check(direction: Direction, line: Line, answers: str | None) -> AcpStruct | None:
    if line.is_answer:
        return _check_answer(line, None if answers is None else METHODS[answers])
    method = METHODS.get(str(line.method))
    assert method is not None, f"no such method: {line.method}"
    assert method.side in ("both", _READER[direction]), f"{line.method} is not for the {_READER[direction]}"
    assert (line.id is msgspec.UNSET) == (method.kind == "notification"), f"{line.method} is a {method.kind}"
    assert line.id is not None, "a request's id is not null"
    assert line.result is msgspec.UNSET
    assert line.error is msgspec.UNSET
    return _exactly(line.params, method.params)


def _check_answer(line: Line, method: Method | None) -> AcpStruct | None:
    assert line.id is not msgspec.UNSET, "an answer has an id"
    assert line.params is msgspec.UNSET
    assert (line.result is msgspec.UNSET) != (line.error is msgspec.UNSET), "an answer has a result or an error"
    if line.error is not msgspec.UNSET:
        return None
    if method is None:
        assert isinstance(msgspec.json.decode(_given(line.result)), dict), "a result is an object"
        return None
    assert method.result is not None, f"{method.name} is never answered"
    return _exactly(line.result, method.result)


def _exactly(raw: msgspec.Raw | msgspec.UnsetType, shape: type[AcpStruct]) -> AcpStruct:
    """The value, of which nothing was lost."""
    value = msgspec.json.decode(_given(raw), type=shape)
    lost = list(_lost(msgspec.json.decode(_given(raw)), value, "$"))
    assert lost == [], f"{shape.__name__} has no {', '.join(lost)}"
    return value


def _given(raw: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw:
    assert raw is not msgspec.UNSET, "params are missing"
    return raw


def _lost(said: Any, value: Any, at: str) -> Iterable[str]:
    """What was said and can't be found in the value, but for `_meta`."""
    if isinstance(value, UnknownUpdate):
        yield f"{at}.{value.name}"
    elif isinstance(value, msgspec.Struct):
        names = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
        tag = type(value).__struct_config__.tag_field
        for key in said.keys() - {"_meta", tag}:
            if key in names:
                yield from _lost(said[key], getattr(value, names[key]), f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(value, tuple):
        for place, (one, other) in enumerate(zip(said, value, strict=True)):
            yield from _lost(one, other, f"{at}[{place}]")
    elif isinstance(value, dict):
        for key in said:
            yield from _lost(said[key], value[key], f"{at}.{key}")
