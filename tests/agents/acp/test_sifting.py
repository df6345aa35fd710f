"""Of what an agent writes, messages are taken and all else is skipped."""

from __future__ import annotations

import asyncio

import pytest

from threadline.agents.acp.process import MessageLines


class Written:
    """Lines that are there already."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = list(lines)

    async def next(self) -> bytes | None:
        return self._lines.pop(0) if self._lines else None


def sifted(*lines: bytes, most: int = 100) -> list[bytes]:
    async def all_of() -> list[bytes]:
        source = MessageLines(Written(*lines), most, "an agent")
        taken = []
        while (line := await source.next()) is not None:
            taken.append(line)
        return taken

    return asyncio.run(all_of())


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "method": "session/update", "params": {}}',
        b'  {"id": 1, "result": {}}',
        # Half of an emoji, as agents write it where they cut a text in two.
        rb'{"jsonrpc": "2.0", "method": "session/update", "params": {"text": "cut \ud83d"}}',
        rb'{"jsonrpc": "2.0", "id": 1, "result": {"text": "\ude00 cut"}}',
        b"{}",
    ],
)
def test_a_message_is_taken(line: bytes) -> None:
    assert sifted(b"npm WARN", line, b"bye") == [line]


@pytest.mark.parametrize(
    "line", [b"", b"Loading...", b"[1, 2]", b'"text"', b"null", b"{", b'{"a": 1', b'{"a": "\xff"}']
)
def test_what_is_none_is_skipped(line: bytes) -> None:
    assert sifted(line, b"{}") == [b"{}"]


def test_too_much_else_in_a_row_is_the_end() -> None:
    assert sifted(b"{}", b"x", b"x", b"{}", b"x", b"x", b"x", b"{}", most=3) == [b"{}", b"{}"]
