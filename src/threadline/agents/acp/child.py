"""A program as a child process, with everything it starts: all of it ends at the latest when this process does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from threadline.log import get_logger
from threadline.model.safe_text import safe_line
from threadline.rpc.lines import LineReader, LineTooLong, LineWriter, StreamLines
from threadline.rpc.stdio import PipeSink

log = get_logger(__name__)

# A shell in the program's own process group waits at a pipe whose other end this process alone holds. It is closed when
# this process ends, however that comes about, and then the whole group is ended. Neither a signal at our death nor the end
# of the program's input would reach what the program has started. It also keeps the number of the group from being given
# to another one as long as we may still signal it.
_GUARD_SCRIPT = (
    '( trap "" TERM HUP INT; read -r _ <"/dev/fd/$0"; kill -TERM 0; sleep 2; kill -KILL 0 ) </dev/null >/dev/null 2>&1 & '
    'exec "$@"'
)
_SHELL = "/bin/sh"
# What is logged of what it writes on its standard error: so many lines in so many seconds, each no longer than that.
_LOGGED_LINES = 20
_LOGGED_SECONDS = 10.0
_LOGGED_CHARS = 300


class ChildProcess:
    """A running program. `lines` is its standard output, `errors` its standard error, `sink` its standard input."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, stack: ExitStack) -> None:
        self._name = name
        self._process = process
        self._stack = stack
        self._is_ending = False
        self.last_error_line = ""
        self.lines: LineReader
        self.sink: LineWriter
        self.errors: LineReader

    @property
    def code(self) -> int | None:
        """Return its exit code; negative for a signal, None while it runs."""
        return self._process.returncode

    async def wait(self) -> None:
        """Wait until the program has ended; processes that it started may go on."""
        await self._process.wait()

    async def log_stderr(self) -> None:
        """Read its standard error until the end: an agent whose pipe is full would block."""
        clock = asyncio.get_running_loop().time
        since, logged, dropped = clock(), 0, 0
        while (line := await self._next_error()) is not None:
            said = safe_line(line[: 8 * _LOGGED_CHARS].decode("utf-8", "replace"), _LOGGED_CHARS)
            self.last_error_line = said or self.last_error_line
            if clock() - since > _LOGGED_SECONDS:
                if dropped:
                    log.debug("acp.stderr_dropped", agent=self._name, lines=dropped)
                since, logged, dropped = clock(), 0, 0
            logged += 1
            if logged <= _LOGGED_LINES:
                log.debug("acp.stderr", agent=self._name, text=said)
            else:
                dropped += 1

    async def _next_error(self) -> bytes | None:
        try:
            return await self.errors.next()
        except LineTooLong:
            return b""

    async def end(self, seconds: float) -> None:
        """End it and everything it started: close its input, then SIGTERM, then SIGKILL, `seconds` apart."""
        if self._is_ending:
            await self._process.wait()
            return
        self._is_ending = True
        try:
            self.sink.close()
            if not await self._is_gone_within(seconds):
                self._signal(signal.SIGTERM)
                await self._is_gone_within(seconds)
        finally:
            # Also where nobody waits for it any more: it must not be left behind.
            self.kill()
        await self._process.wait()

    def kill(self) -> None:
        """Kill the whole process group now, without waiting."""
        self._signal(signal.SIGKILL)
        # The loop may be gone, and with it what would be told of this.
        with suppress(RuntimeError):
            self._stack.close()

    async def _is_gone_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        return self.code is not None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


async def spawn(name: str, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> ChildProcess:
    """Start a program in a session of its own. Raises `OSError` on failure."""
    with ExitStack() as ours:
        guard, held = _pipe(ours)
        stdin, to_child = _pipe(ours)
        from_child, stdout = _pipe(ours)
        errors, stderr = _pipe(ours)
        process = await asyncio.create_subprocess_exec(
            _SHELL,
            "-c",
            _GUARD_SCRIPT,
            str(guard),
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=(guard,),
        )
        # From here on the descriptors have other owners: the child has its ends, and these keep ours.
        ours.pop_all()
        for descriptor in (guard, stdin, stdout, stderr):
            os.close(descriptor)
        stack = ExitStack()
        stack.callback(os.close, held)
        child = ChildProcess(name, process, stack)
        os.set_blocking(to_child, False)
        child.sink = PipeSink(to_child)
        stack.callback(child.sink.close)
        try:
            child.lines = StreamLines(await _reader(from_child, stack))
            child.errors = StreamLines(await _reader(errors, stack))
        except BaseException:
            child.kill()
            raise
        return child


def _pipe(stack: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    stack.callback(os.close, read)
    stack.callback(os.close, write)
    return read, write


async def _reader(descriptor: int, stack: ExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    # The transport owns the file, and closes it.
    file = os.fdopen(descriptor, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    stack.callback(transport.close)
    return reader
