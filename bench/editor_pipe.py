"""An editor that is nothing but a pipe: it asks, and reads lines until the answer comes. It costs every agent the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

_encode = msgspec.json.Encoder().encode


class _Answer(msgspec.Struct, frozen=True):
    """A line that answers a request, or another one."""

    id: int | None = None
    method: str | None = None
    error: msgspec.Raw | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")


_read = msgspec.json.Decoder(_Answer).decode


class Pipe:
    """The pipes of an agent that was started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._into: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout
        self._asked = 0

    def ask(self, method: str, params: object) -> Any:
        """What comes back as the result."""
        *_, answer = self.lines(method, params)
        return msgspec.json.decode(_read(answer).result)

    def lines(self, method: str, params: object) -> list[bytes]:
        """All lines until the answer, which is the last."""
        self._asked += 1
        self.write(_encode({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}) + b"\n")
        lines = []
        while line := self._from.readline():
            lines.append(line)
            # Most lines tell of a session, and need not be read to know that they are no answer.
            if line.startswith(b'{"jsonrpc":"2.0","method"'):
                continue
            read = _read(line)
            if read.method is None and read.id == self._asked:
                if read.error is not None:
                    raise RuntimeError(f"{method}: {line.decode()}")
                return lines
        raise RuntimeError(f"the agent ended while {method} was asked")

    def take(self, count: int) -> list[bytes]:
        """So many lines."""
        return [self._from.readline() for _ in range(count)]

    def write(self, line: bytes) -> None:
        """One line."""
        self._into.write(line)
        self._into.flush()


@contextmanager
def agent(*command: str) -> Iterator[Pipe]:
    """A Python process with these arguments, greeted as an agent; its input ends with the block, and so does it."""
    with piped(*command) as pipe:
        pipe.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        yield pipe


@contextmanager
def piped(*command: str) -> Iterator[Pipe]:
    """A Python process with these arguments."""
    with TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text('log_level = "error"\n')
        environment = {**os.environ, "XDG_DATA_HOME": folder, "THREADLINE_CONFIG": str(config)}
        process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        try:
            yield Pipe(process)
        finally:
            process.communicate(timeout=60)


def ours(url: str) -> Sequence[str]:
    """The arguments of our own agent on that store."""
    return ("-m", "threadline", "acp", "--db", url, "--agent", "echo")
