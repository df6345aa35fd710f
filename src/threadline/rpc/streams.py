"""Lines over the streams of asyncio: the pipes of a child process, or a socket."""

from __future__ import annotations

import asyncio
from typing import Final

from threadline.rpc.lines import LineCutter, Lines, Sink

_CHUNK: Final = 64 * 1024


def over_streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Lines, Sink]:
    """What comes from the reader and goes to the writer, as lines."""
    return StreamLines(reader), StreamSink(writer)


class StreamLines:
    """Lines from a reader. See `Lines`."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader: Final = reader
        self._cutter: Final = LineCutter()
        self._over = False

    async def next(self) -> bytes | None:
        """The next line; `None` at the end of input."""
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
    """Lines into a writer. See `Sink`."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer: Final = writer

    def write(self, line: bytes) -> None:
        """Sends or queues bytes that end in a newline."""
        self._check()
        self._writer.write(line)

    async def drain(self) -> None:
        """Returns when there is room again."""
        self._check()
        await self._writer.drain()

    async def flush(self) -> None:
        """Returns when all has left."""
        self._check()
        self._writer.transport.set_write_buffer_limits(high=0)
        await self._writer.drain()

    def close(self) -> None:
        """Closes the writer."""
        self._writer.close()

    def _check(self) -> None:
        # A writer that is closed takes everything and says nothing.
        if self._writer.is_closing():
            raise BrokenPipeError
