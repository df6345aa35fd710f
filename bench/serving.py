"""A `serve` of its own process for a workload that is the world around it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import msgspec


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload asks of `serve`: who may speak on the scripted platform, who answers, and how many at once."""

    url: str
    address: str
    people: int
    turns_at_once: int
    # TOML, as in a configuration: the values of `[agents.main]` and the platform's `capabilities`.
    agent: str
    capabilities: str

    def config(self) -> str:
        """The configuration. Nobody is welcomed or waited for: an answer is all that follows a message."""
        guests = [f"scripted:user{number}" for number in range(self.people)]
        return f"""\
db = {quoted(self.url)}
log_level = "error"
[gateway]
turns_at_once = {self.turns_at_once}
turns_per_platform = {self.turns_at_once}
burst_seconds = 0.0
welcome = false
[agents.main]
{self.agent}
[access]
guests = {quoted(guests)}
[platforms.scripted]
address = {quoted(self.address)}
capabilities = {self.capabilities}
"""


class Served(msgspec.Struct, frozen=True):
    """A process that serves, by its number, and the address of its page."""

    pid: int
    address: str


@asynccontextmanager
async def served(wanted: str) -> AsyncIterator[Served]:
    """Yield a process that serves as this configuration says; at the end of the block it is told to stop, and has."""
    with TemporaryDirectory() as folder, TemporaryFile() as errors:
        config = Path(folder) / "config.toml"
        config.write_text(wanted)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "threadline", "serve", "--config", str(config), "--port", "0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "XDG_DATA_HOME": folder},
        )
        assert process.stdout is not None
        try:
            line = (await process.stdout.readline()).decode()
            if not line:
                errors.seek(0)
                raise RuntimeError(f"serve did not start: {errors.read().decode()[-2000:]}")
            yield Served(process.pid, line.removeprefix("Threadline is at ").partition("#t=")[0].strip())
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.communicate()


def quoted(value: object) -> str:
    """A text or a list of texts as TOML writes it, which is as JSON does."""
    return msgspec.json.encode(value).decode()
