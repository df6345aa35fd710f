"""Bytes to lines and back: nothing lost, nothing joined, nothing kept that is too long."""

from __future__ import annotations

import asyncio
import os
import select
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.world import awaited

from threadline.rpc.lines import MAX_LINE_BYTES, LineCutter, LineReader, LineTooLong, OfferedLines, StreamLines
from threadline.rpc.stdio import _AHEAD, PipeSink, PolledLines, ThreadLines, lines_from


def taken(cutter: LineCutter) -> list[bytes | None]:
    """All lines that are there; `None` for one that was too long."""
    lines: list[bytes | None] = []
    while cutter:
        try:
            lines.append(cutter.take())
        except LineTooLong:
            lines.append(None)
    return lines


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12), st.randoms(), st.booleans())
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], chance: object, ended: bool) -> None:
    written = b"".join(line + b"\n" for line in lines)
    if ended:
        written, lines = written + b"last", [*lines, b"last"]
    cutter = LineCutter(most=8)
    while written:
        size = chance.randint(1, 9)  # type: ignore[attr-defined]
        cutter.feed(written[:size])
        written = written[size:]
    cutter.end()
    assert taken(cutter) == [line if len(line) <= 8 else None for line in lines]


def test_a_line_that_is_too_long_is_let_go_while_it_comes() -> None:
    cutter = LineCutter()
    chunk = b"x" * 1_000_000
    tracemalloc.start()
    try:
        for _ in range(4 * MAX_LINE_BYTES // len(chunk)):
            cutter.feed(bytes(bytearray(chunk)))
        assert tracemalloc.get_traced_memory()[1] < 1.2 * MAX_LINE_BYTES
        assert tracemalloc.get_traced_memory()[0] < 2 * len(chunk)
    finally:
        tracemalloc.stop()
    cutter.feed(b"\nnext\n")
    assert taken(cutter) == [None, b"next"]


async def polled(content: bytes, folder: Path) -> LineReader:
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    return lines_from(read)


async def file(content: bytes, folder: Path) -> LineReader:
    path = folder / "lines"
    path.write_bytes(content)
    return lines_from(os.open(path, os.O_RDONLY))


async def stream(content: bytes, folder: Path) -> LineReader:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    return StreamLines(reader)


by_source = pytest.mark.parametrize("source", [polled, file, stream])
Source = Callable[[bytes, Path], Awaitable[LineReader]]


@by_source
@awaited
async def test_every_line_comes_once_and_then_the_end_for_ever(source: Source, tmp_path: Path) -> None:
    lines = await source(b"one\n\ntwo\nlast without a newline", tmp_path)
    assert [await lines.next() for _ in range(6)] == [b"one", b"", b"two", b"last without a newline", None, None]


@by_source
@awaited
async def test_nothing_at_all_is_the_end(source: Source, tmp_path: Path) -> None:
    assert await (await source(b"", tmp_path)).next() is None


@awaited
async def test_a_regular_file_is_read_by_a_thread_and_whole(tmp_path: Path) -> None:
    content = [b"%d" % n * 50 for n in range(30_000)]
    lines = await file(b"\n".join(content), tmp_path)
    assert isinstance(lines, ThreadLines)
    # So far ahead that the thread has to wait.
    await asyncio.sleep(0.05)
    read = []
    while (line := await lines.next()) is not None:
        read.append(line)
    assert read == content


@awaited
async def test_a_line_over_the_limit_is_skipped_and_the_next_one_comes() -> None:
    read, write = os.pipe()
    lines = lines_from(read)
    os.set_blocking(write, False)
    sink = PipeSink(write)
    sink.write(b"before\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\nafter\n")
    assert await lines.next() == b"before"
    with pytest.raises(LineTooLong):
        await lines.next()
    assert await lines.next() == b"after"
    sink.close()
    assert await lines.next() is None


@awaited
async def test_a_wait_that_is_cancelled_loses_no_line() -> None:
    read, write = os.pipe()
    lines = lines_from(read)
    for number in range(20):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lines.next(), 0.001)
        os.write(write, b"%d\n" % number)
        assert await lines.next() == b"%d" % number
    os.close(write)


@awaited
async def test_a_pipe_that_is_read_by_nobody_is_not_read_without_end() -> None:
    read, write = os.pipe()
    lines = lines_from(read)
    assert isinstance(lines, PolledLines)
    os.set_blocking(write, False)
    sink = PipeSink(write)
    content = [b"%07d" % n + b"x" * 992 for n in range(20_000)]
    sink.write(b"\n".join(content) + b"\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sink.flush(), 0.2)
    assert [await lines.next() for _ in content] == content
    await sink.flush()
    sink.close()


@awaited
async def test_a_sink_sends_whole_lines_in_order_to_a_slow_reader() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    sink = PipeSink(write)
    written = [b"%d " % n + b"x" * (n * 37 % 9000) + b"\n" for n in range(2000)]
    for line in written:
        sink.write(line)
    received = bytearray()
    while len(received) < sum(map(len, written)):
        await asyncio.sleep(0)
        try:
            received += os.read(read, 5000)
        except BlockingIOError:
            continue
    assert bytes(received) == b"".join(written)
    await sink.flush()
    sink.close()
    os.close(read)


@awaited
async def test_a_sink_that_nobody_reads_says_so_to_who_writes_and_to_who_waits() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    sink = PipeSink(write)
    sink.write(b"x" * 3_000_000 + b"\n")
    asyncio.get_running_loop().call_later(0.01, os.close, read)
    with pytest.raises(BrokenPipeError):
        await sink.drain()
    with pytest.raises(BrokenPipeError):
        sink.write(b"y\n")
    with pytest.raises(BrokenPipeError):
        await sink.flush()
    sink.close()
    sink.close()


@awaited
async def test_a_closed_sink_wakes_who_waits() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    sink = PipeSink(write)
    sink.write(b"x" * 3_000_000 + b"\n")
    asyncio.get_running_loop().call_later(0.01, sink.close)
    with pytest.raises(BrokenPipeError):
        await sink.flush()
    os.close(read)


# --- Lines that are offered as they come ---------------------------------------------------------------------------


class Pipe:
    """The end of a pipe that is written, and lines that are offered as they come to the other."""

    def __init__(self, takes: Callable[[bytes], bool]) -> None:
        self._read, self._write = os.pipe()
        self.offered: list[bytes] = []
        self._takes = takes
        self.lines = lines_from(self._read)
        assert isinstance(self.lines, OfferedLines)
        self.lines.offer(self._take)

    def _take(self, line: bytes) -> bool:
        self.offered.append(line)
        return self._takes(line)

    async def waits(self) -> asyncio.Future[bytes | None]:
        """Somebody waits for the next line."""
        waiting = asyncio.ensure_future(self.lines.next())
        await asyncio.sleep(0)
        return waiting

    def write(self, written: bytes) -> None:
        os.write(self._write, written)

    async def is_read(self) -> None:
        """Returns when nothing lies in the pipe any more."""
        while select.select([self._read], [], [], 0)[0]:  # noqa: ASYNC110 - a pipe tells nobody that it was emptied
            await asyncio.sleep(0)

    def close(self) -> None:
        os.close(self._write)


@awaited
async def test_a_line_that_comes_alone_while_somebody_waits_is_offered_first() -> None:
    pipe = Pipe(lambda line: line.startswith(b"mine"))
    waiting = await pipe.waits()
    for _ in range(_AHEAD * 2):
        # More of them than would be read ahead.
        pipe.write(b"mine\n")
        await pipe.is_read()
    assert not waiting.done()
    pipe.write(b"yours\n")
    assert await waiting == b"yours"
    assert pipe.offered == [b"mine"] * (_AHEAD * 2) + [b"yours"]
    pipe.close()
    assert await pipe.lines.next() is None


@awaited
async def test_lines_that_come_together_or_before_somebody_waits_are_not_offered() -> None:
    pipe = Pipe(lambda _: True)
    pipe.write(b"early\n")
    await pipe.is_read()
    assert await pipe.lines.next() == b"early"
    waiting = await pipe.waits()
    pipe.write(b"one\ntwo\n")
    assert await waiting == b"one"
    assert await pipe.lines.next() == b"two"
    assert pipe.offered == []
    pipe.close()


@awaited
async def test_a_last_line_without_a_newline_is_offered_and_then_is_the_end() -> None:
    pipe = Pipe(lambda _: True)
    waiting = await pipe.waits()
    pipe.write(b"last")
    pipe.close()
    assert await waiting is None
    assert pipe.offered == [b"last"]
