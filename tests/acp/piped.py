"""An editor at real pipes: it starts the agent's process, talks to it, and sees it die."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Self

from tests.acp.editor_world import AgentGone, Editor

_HERE = Path(__file__).parents[2]
_LIMIT = 1 << 26


class Piped(Editor):
    """An editor whose agent is another process. `agent` is that process."""

    def __init__(self, command: list[str], **environment: str) -> None:
        super().__init__()
        self._command = command
        self._environment = environment
        self.agent: asyncio.subprocess.Process
        # What came on standard output that is no message; there must be nothing of it.
        self.litter: list[bytes] = []
        self.log = b""
        # Called after each message.
        self.after: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Starts the agent and gets to know it."""
        self.agent = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LIMIT,
            cwd=_HERE,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"} | self._environment,
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._say(), self._listen(), self._read_log())]
        try:
            await self.begin()
        except TimeoutError:
            # Where it hangs stands in its log then.
            self.agent.send_signal(signal.SIGABRT)
            await self.ended()
            raise AssertionError(self.log.decode()) from None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except AgentGone:
            await self.ended()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whatever happened, nothing of the process is left."""
        if self.agent.returncode is None:
            self.agent.kill()
        await self.ended()
        assert self.faults == []

    async def ended(self) -> int:
        """Waits for the end of the process; its exit code. What it said last is heard by then."""
        code = await asyncio.wait_for(self.agent.wait(), 20)
        await asyncio.wait_for(asyncio.gather(*self._tasks[1:]), 20)
        self._tasks[0].cancel()
        return code

    async def stop(self) -> None:
        """Ends the process, whichever way it must."""
        self.hang_up()
        try:
            await self.ended()
        except TimeoutError:
            self.agent.kill()
            await self.ended()

    async def _say(self) -> None:
        stdin = self.agent.stdin
        assert stdin is not None
        try:
            while (line := await self.mouth.next()) is not None:
                stdin.write(line + b"\n")
                await stdin.drain()
            stdin.close()
        except (BrokenPipeError, ConnectionResetError):
            return

    async def _listen(self) -> None:
        stdout = self.agent.stdout
        assert stdout is not None
        while line := await stdout.readline():
            if not line.endswith(b"\n"):
                # The process died in the middle of it.
                break
            try:
                self._heard(line[:-1])
            except ValueError:
                self.litter.append(line)
            if self.after is not None:
                self.after()
        self.gone()

    async def _read_log(self) -> None:
        stderr = self.agent.stderr
        assert stderr is not None
        while chunk := await stderr.read(1 << 16):
            self.log += chunk


def child(location: str, point: str = "", nth: int = 1, replay: str = "until_tool") -> list[str]:
    """The command of an agent that dies when it passes that point for the n-th time; `replay` is what it declares."""
    return [sys.executable, "-m", "tests.acp.acp_child", location, point, str(nth), replay]
