"""Lines over file descriptors, and standard input and output as such lines, protected from other readers and prints."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Final

from threadline.errors import ThreadlineError
from threadline.rpc.lines import LineCutter, LineReader, LineWriter

_CHUNK: Final = 64 * 1024
# So many chunks with lines that nobody took, and reading waits for who takes them.
_AHEAD: Final = 8
# With more than this on its way, `drain` waits.
_ROOM: Final = 1024 * 1024
_AT_ONCE: Final = 64

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
# The most that anybody may ask for without being root.
_PIPE_BYTES: Final = 1024 * 1024


def lines_from(descriptor: int) -> LineReader:
    """Return the lines of a descriptor, which is closed at the end of input. Requires a running loop."""
    try:
        return PolledLines(descriptor)
    except PermissionError:
        # The loop can't wait for it: a regular file, or a device such as /dev/null.
        return ThreadLines(descriptor)


class _DescriptorLines:
    """Lines from chunks that a subclass feeds. See `LineReader`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._loop: Final = asyncio.get_running_loop()
        self._cutter: Final = LineCutter()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None
        self._unread = 0
        self._over = False

    async def next(self) -> bytes | None:
        """Return the next line; None at the end of input."""
        while not self._cutter:
            if self._over:
                return None
            paused, self._unread = self._unread >= _AHEAD, 0
            if paused:
                self._resume()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._cutter.take()

    def offer(self, take: Callable[[bytes], bool]) -> None:
        """Give a line that comes alone to `take` first, which saves a round of the loop."""
        self._take = take

    def _feed(self, chunk: bytes) -> None:
        """Process the next chunk; an empty one is the end of input."""
        if chunk:
            self._cutter.feed(chunk)
        else:
            self._cutter.end()
            self._over = True
        if self._take is not None and self._is_awaited() and self._cutter.offer_only(self._take) and not self._over:
            return
        if self._cutter:
            self._unread += 1
        if self._waiter is not None and self._is_awaited() and (self._cutter or self._over):
            self._waiter.set_result(None)

    def _is_awaited(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _read(self) -> bytes | None:
        try:
            return os.read(self._descriptor, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            # A terminal or a socket that is gone: nothing more will come from it.
            return b""

    def _resume(self) -> None:
        raise NotImplementedError


class PolledLines(_DescriptorLines):
    """Lines of a pipe, a socket or a terminal. Raises PermissionError where the loop can't poll the descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._resume()

    def _resume(self) -> None:
        self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        chunk = self._read()
        if chunk is None:
            return
        self._feed(chunk)
        if not chunk:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
        elif self._unread >= _AHEAD:
            self._loop.remove_reader(self._descriptor)


class ThreadLines(_DescriptorLines):
    """Lines of a descriptor that cannot be polled. The thread is a daemon: a blocked read does not keep the process alive."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._wanted: Final = threading.Semaphore(1)
        threading.Thread(target=self._read_on, name="threadline-lines", daemon=True).start()

    def _resume(self) -> None:
        self._wanted.release()

    def _feed(self, chunk: bytes) -> None:
        super()._feed(chunk)
        if self._unread < _AHEAD:
            self._wanted.release()

    def _read_on(self) -> None:
        more = True
        while more:
            # One chunk for each that was taken: the disk is faster than who reads the lines.
            self._wanted.acquire()
            chunk = self._read() or b""
            more = bool(chunk)
            try:
                self._loop.call_soon_threadsafe(self._feed, chunk)
            except RuntimeError:
                # The loop is closed; nobody wants the rest.
                more = False
        os.close(self._descriptor)


class PipeSink:
    """Lines to a descriptor, which this object owns from here on. See `LineWriter`.

    A line is written at once if there is room for it; the rest follows as the other side reads. A regular file always has room.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._loop: Final = asyncio.get_running_loop()
        self._queue: deque[memoryview] = deque()
        self._size = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._gone = False
        self._closed = False

    def write(self, line: bytes) -> None:
        """Send or queue bytes that end in a newline."""
        if self._gone:
            raise BrokenPipeError
        if self._queue:
            self._queue.append(memoryview(line))
            self._size += len(line)
            return
        written = self._push(line)
        if written < len(line):
            self._queue.append(memoryview(line)[written:])
            self._size = len(line) - written
            self._loop.add_writer(self._descriptor, self._writable)

    async def drain(self) -> None:
        """Wait until there is room again."""
        await self._wait_below(_ROOM)

    async def flush(self) -> None:
        """Wait until all queued lines have left."""
        await self._wait_below(0)

    def close(self) -> None:
        """Drop queued lines and close the descriptor."""
        self._break_off()
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _push(self, line: bytes) -> int:
        """Write until all is written or there is no more room; return the number of bytes written."""
        written = 0
        while written < len(line):
            try:
                written += os.write(self._descriptor, line[written:] if written else line)
            except BlockingIOError:
                break
            except OSError:
                self._break_off()
                raise
        return written

    def _writable(self) -> None:
        try:
            written = os.writev(self._descriptor, list(islice(self._queue, _AT_ONCE)))
        except BlockingIOError:
            return
        except OSError:
            self._break_off()
            return
        self._size -= written
        while written >= len(self._queue[0]):
            written -= len(self._queue.popleft())
            if not self._queue:
                self._loop.remove_writer(self._descriptor)
                break
        else:
            self._queue[0] = self._queue[0][written:]
        self._wake()

    async def _wait_below(self, most: int) -> None:
        while self._size > most:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
        if self._gone:
            raise BrokenPipeError

    def _break_off(self) -> None:
        self._gone = True
        if self._queue:
            self._loop.remove_writer(self._descriptor)
            self._queue.clear()
            self._size = 0
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class StdioClosed(ThreadlineError):
    """Standard input or output is closed. Start the program with both of them open."""


@cache
def claim_stdout() -> int:
    """Return a descriptor of the real standard output that no other code knows. Call it once in a process.

    Whatever prints after this, in Python or not, in this process or a child of it, prints to standard error. Raises
    StdioClosed if there is no standard output.
    """
    # Asked of Python, which looked at its start: by now, the number of a closed one may be some other file's.
    if sys.__stdout__ is None:
        raise StdioClosed
    claimed = os.dup(_STDOUT)
    if sys.__stderr__ is None:
        _point_at_nothing(_STDOUT)
    else:
        os.dup2(_STDERR, _STDOUT)
    # What was printed before, and not flushed yet, is no part of the protocol either.
    sys.__stdout__.flush()
    sys.stdout = sys.stderr
    return claimed


async def open_stdio() -> tuple[LineReader, LineWriter]:
    """Open standard input and output, whatever they are: pipes, sockets, terminals or regular files. Call it once in a process.

    After it, standard input is empty for everything else: a child that reads it would swallow messages. Raises StdioClosed
    if either is closed.
    """
    stdout = claim_stdout()
    if sys.__stdin__ is None:
        raise StdioClosed
    stdin = os.dup(_STDIN)
    _point_at_nothing(_STDIN)
    return lines_from(_nonblocking(stdin, os.O_RDONLY)), PipeSink(_with_large_pipe(_nonblocking(stdout, os.O_WRONLY)))


def _point_at_nothing(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != descriptor:
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _nonblocking(descriptor: int, way: int) -> int:
    """Return the same file without blocking, if possible; the given descriptor must not be used any more."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        # Opened anew, because the flag belongs to all who share an open file: set on the terminal, it would break the shell's.
        with suppress(OSError):
            opened = os.open(f"/proc/self/fd/{descriptor}", way | os.O_NONBLOCK | os.O_NOCTTY)
            os.close(descriptor)
            return opened
    os.set_blocking(descriptor, False)
    return descriptor


def _with_large_pipe(descriptor: int) -> int:
    """Enlarge the buffer of a pipe: the writer of a small one is woken for every few lines that are read."""
    if sys.platform == "linux":
        # Not a pipe, or too many of them are large already: it works as it is.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return descriptor
