"""What an agent writes besides messages: skipped and counted, up to a point."""

from __future__ import annotations

import msgspec

from threadline.log import get_logger
from threadline.rpc.lines import Lines, LineTooLong

log = get_logger(__name__)


class _Anything(msgspec.Struct):
    """Any object."""


_is_object = msgspec.json.Decoder(_Anything).decode


class Sifted:
    """The lines that are messages. After `most` others in a row there is nothing to be had from this peer: the input is over."""

    def __init__(self, lines: Lines, most: int, name: str) -> None:
        self._lines = lines
        self._most = most
        self._name = name
        self._in_a_row = 0
        self.skipped = 0

    async def next(self) -> bytes | None:
        """The next message; `None` at the end."""
        while self._in_a_row < self._most:
            try:
                line = await self._lines.next()
            except LineTooLong:
                self._skip()
                continue
            if line is None:
                return None
            if _is_message(line):
                self._in_a_row = 0
                return line
            if line.strip():
                self._skip()
        log.warning("acp.noise", agent=self._name, lines=self.skipped)
        return None

    def _skip(self) -> None:
        self._in_a_row += 1
        self.skipped += 1


def _is_message(line: bytes) -> bool:
    try:
        _is_object(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
