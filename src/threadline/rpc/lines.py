"""Line protocols, cutting bytes into lines, and lines over asyncio streams."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from threadline.errors import ThreadlineError

MAX_LINE_BYTES: Final = 64 * 1024 * 1024

_CHUNK: Final = 64 * 1024


class LineTooLong(ThreadlineError):
    """A message is longer than 64 MiB and was skipped. Send it in smaller parts."""


class LineReader(Protocol):
    """Lines that come in."""

    async def next(self) -> bytes | None:
        """Return the next line without its newline; None at the end of input, and from then on.

        Raises LineTooLong in place of a line that is longer than MAX_LINE_BYTES: all of it is skipped, and the next call
        returns the line after it. Cancelling the call loses nothing.
        """


@runtime_checkable
class OfferedLines(LineReader, Protocol):
    """A reader that reports a line at the moment it arrives."""

    def offer(self, take: Callable[[bytes], bool]) -> None:
        """From now on a line that comes alone while `next` waits is given to `take` at once, instead.

        It is false where the line was not taken: then `next` gives it. Lines that come together are not offered.
        """


class LineWriter(Protocol):
    """Lines that go out, whole and in order."""

    def write(self, line: bytes) -> None:
        """Queue bytes that end in a newline, one line or many. Never blocks. Raises OSError if nobody can read them any more."""

    async def drain(self) -> None:
        """Wait until there is room again. Raises OSError if nobody reads any more."""

    async def flush(self) -> None:
        """Wait until all queued lines have left this process. Raises OSError if nobody reads any more."""

    def close(self) -> None:
        """Stop writing. Queued lines may be lost: flush first."""


class LineCutter:
    """Cuts chunks of bytes into lines.

    Holds at most one unfinished line of `most` bytes; the bytes of a longer one are dropped as they come.
    """

    def __init__(self, most: int = MAX_LINE_BYTES) -> None:
        self._most: Final = most
        # None stands where a line was too long.
        self._whole: deque[bytes | None] = deque()
        self._parts: list[bytes] = []
        self._size = 0

    def __len__(self) -> int:
        """Return how many lines can be taken."""
        return len(self._whole)

    def feed(self, chunk: bytes) -> None:
        """Add the bytes that came next."""
        first, newline, rest = chunk.partition(b"\n")
        if first:
            self._keep(first)
        if not newline:
            return
        self._finish()
        *whole, last = rest.split(b"\n")
        most = self._most
        self._whole.extend([line if len(line) <= most else None for line in whole])
        if last:
            self._keep(last)

    def end(self) -> None:
        """Mark the end of input: unfinished bytes become a line too."""
        if self._size:
            self._finish()

    def take(self) -> bytes:
        """Return the first line that was not taken yet. Raises LineTooLong in place of a skipped line."""
        line = self._whole.popleft()
        if line is None:
            raise LineTooLong
        return line

    def offer_only(self, take: Callable[[bytes], bool]) -> bool:
        """Return whether there was exactly one line and `take` has taken it."""
        if len(self._whole) != 1 or self._whole[0] is None:
            return False
        line = self.take()
        is_taken = take(line)
        if not is_taken:
            self._whole.append(line)
        return is_taken

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._most:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _finish(self) -> None:
        parts = self._parts
        if self._size > self._most:
            self._whole.append(None)
        else:
            self._whole.append(parts[0] if len(parts) == 1 else b"".join(parts))
        self._parts = []
        self._size = 0


def over_streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[LineReader, LineWriter]:
    """Return a line reader and a line writer over asyncio streams."""
    return StreamLines(reader), StreamSink(writer)


class StreamLines:
    """Lines from a stream reader. See `LineReader`."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader: Final = reader
        self._cutter: Final = LineCutter()
        self._over = False

    async def next(self) -> bytes | None:
        """Return the next line; None at the end of input."""
        while not self._cutter:
            if self._over:
                return None
            await self._read()
        return self._cutter.take()

    async def _read(self) -> None:
        try:
            chunk = await self._reader.read(_CHUNK)
        except OSError:
            chunk = b""
        if chunk:
            self._cutter.feed(chunk)
        else:
            self._cutter.end()
            self._over = True


class StreamSink:
    """Lines to a stream writer. See `LineWriter`."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer: Final = writer

    def write(self, line: bytes) -> None:
        """Send or queue bytes that end in a newline."""
        self._check()
        self._writer.write(line)

    async def drain(self) -> None:
        """Wait until there is room again."""
        self._check()
        await self._writer.drain()

    async def flush(self) -> None:
        """Wait until all queued lines have left."""
        self._check()
        self._writer.transport.set_write_buffer_limits(high=0)
        await self._writer.drain()

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _check(self) -> None:
        # A writer that is closed takes everything and says nothing.
        if self._writer.is_closing():
            raise BrokenPipeError
