"""What an agent writes besides messages: skipped and counted, up to a point."""

from __future__ import annotations

from threadline.log import get_logger
from threadline.rpc.envelope import PARSE_ERROR, Refused, parse
from threadline.rpc.lines import Lines, LineTooLong

log = get_logger(__name__)


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
    """Whether it is an object that can be read. What is wrong with it beyond that, its sender is told."""
    if not line.lstrip().startswith(b"{"):
        return False
    read = parse(line)
    return not (isinstance(read, Refused) and read.code == PARSE_ERROR)
