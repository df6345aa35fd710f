"""Every message of the protocol is read and written as the files in `golden` say, and none goes unseen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.acp.wire import Direction, check_line, check_lines

from threadline.rpc.acp import METHODS, AcpStruct, KnownUpdate, Method

GOLDEN = Path(__file__).parent / "golden"
UPDATES = tuple(get_args(KnownUpdate))


def files() -> list[Path]:
    return sorted(GOLDEN.rglob("*.*"))


def talk(file: Path) -> list[tuple[Direction, str]]:
    """The lines of a file, with who reads each: the side that its folder is named after answers its requests."""
    reader: Direction = "to_client" if "client" in file.relative_to(GOLDEN).parts else "to_agent"
    writer: Direction = "to_agent" if reader == "to_client" else "to_client"
    lines = file.read_text().splitlines()
    return [(reader if '"method":' in line.partition('"params"')[0] else writer, line) for line in lines]


def values(file: Path) -> list[AcpStruct]:
    return [value for value in check_lines(talk(file)) if value is not None]


def file_of(method: Method) -> str:
    return f"{method.side}/{method.name.removeprefix('$/').replace('/', '-')}"


def all_values() -> Iterator[AcpStruct]:
    """Every value in every file, nested ones included."""
    waiting: list[Any] = [value for file in files() for value in values(file)]
    while waiting:
        match waiting.pop():
            case AcpStruct() as value:
                yield value
                waiting.extend(getattr(value, name) for name in value.__struct_fields__)
            case tuple() as several:
                waiting.extend(several)
            case dict() as named:
                waiting.extend(named.values())


def shapes() -> set[type[AcpStruct]]:
    """Every shape that a message can hold."""
    found: set[type[AcpStruct]] = set()
    waiting: list[Any] = [kind for one in METHODS.values() for kind in (one.params, one.result) if kind]
    while waiting:
        match waiting.pop():
            case type() as shape if issubclass(shape, AcpStruct):
                if shape not in found:
                    found.add(shape)
                    waiting.extend(field.type for field in msgspec.structs.fields(shape))
            case other:
                waiting.extend(get_args(other))
    return found


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in files()])
def test_what_is_read_is_written_again(file: Path) -> None:
    asked: dict[object, str] = {}
    assert talk(file)
    for direction, line in talk(file):
        said = msgspec.json.decode(line)
        asked |= {said["id"]: said["method"]} if {"id", "method"} <= said.keys() else {}
        value = check_line(direction, line, answers=asked.get(said.get("id")) if "method" not in said else None)
        if "error" not in said:
            written = msgspec.json.encode(value)
            assert msgspec.json.decode(written) == said.get("params", said.get("result"))
            assert b"\n" not in written


def test_every_method_and_every_update_has_a_file_and_no_file_is_left_over() -> None:
    wanted = {file_of(one) for one in METHODS.values() if one.name != "session/update"}
    wanted |= {f"client/session-update/{one.__struct_config__.tag}" for one in UPDATES}
    assert {str(file.relative_to(GOLDEN).with_suffix("")) for file in files()} == wanted


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda one: one.name)
def test_a_file_shows_how_its_method_is_asked_and_answered(method: Method) -> None:
    folder = GOLDEN / file_of(method)
    lines = [values(file) for file in (folder.rglob("*.jsonl") if folder.is_dir() else [folder.with_suffix(".jsonl")])]
    assert all(any(type(value) is method.params for value in held) for held in lines)
    assert method.result is None or any(type(value) is method.result for held in lines for value in held)


@pytest.mark.parametrize("update", UPDATES, ids=lambda one: one.__struct_config__.tag)
def test_a_file_shows_its_update(update: type[AcpStruct]) -> None:
    file = GOLDEN / "client" / "session-update" / f"{update.__struct_config__.tag}.jsonl"
    assert {type(value.update) for value in values(file)} == {update}  # type: ignore[attr-defined]


def test_every_field_of_every_message_is_shown_with_a_value() -> None:
    shown = {
        (type(value), field.name)
        for value in all_values()
        for field in msgspec.structs.fields(value)
        if field.required or getattr(value, field.name) not in (field.default, None, (), {}, msgspec.UNSET)
    }
    unshown = {(one, field.name) for one in shapes() for field in msgspec.structs.fields(one)} - shown
    assert {f"{one.__name__}.{name}" for one, name in unshown} == {"UnknownUpdate.name"}
