"""What every world has in which gateways are killed: an agent, a database, and a folder that outlive them."""

from __future__ import annotations

import asyncio
import functools
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import apsw
import msgspec
import psycopg
from tests.system.gateway_child import Child, Process, start
from tests.system.gateway_promises import Rows, Said
from tests.system.outside import OutsideAgent

# So long nothing at all may happen.
PATIENCE_SECONDS = 60.0
# The first back-off of turns that a dead gateway left behind, where nobody looks at that.
BACK_OFF = 0.05


class Surroundings(ABC):
    """An agent, a database, and gateways that come and go; the chat is each world's own."""

    def __init__(self, location: str, agent: OutsideAgent, *, lease: float | None = None) -> None:
        """Where a gateway knows that it is alone it never waits for a lease, so there it is long."""
        self.agent = agent
        # Who may speak to the gateways that are started from now on.
        self.people: Sequence[str] = ()
        self.said: list[Said] = []
        self.kills = 0
        self.lease = lease or (60.0 if location.startswith("sqlite") else 1.5)
        self._location = location
        self._open = ExitStack()
        self._folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="threadline-world-")))
        self._begun = 0
        # The file that tells whether a gateway has passed its crash point, by its process.
        self._passed: dict[Process, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @abstractmethod
    def portrait(self) -> str:
        """How things stand in the chat, and the end of what the gateway that came last has logged."""

    @functools.cached_property
    def rows(self) -> Rows:
        """Reads the database, which is there once a gateway was."""
        return self._open.enter_context(reading(self._location))

    async def kill(self, process: Process) -> None:
        """Ends a gateway as the kernel does when memory is short."""
        process.kill()
        await self.died(process)

    def has_passed(self, process: Process) -> bool:
        """Whether a gateway has passed the crash point that it was started with."""
        return self._passed[process].exists()

    async def died_at_point(self, process: Process) -> None:
        """Waits for a gateway's death at the crash point that it was started with."""
        await self.died(process)
        assert self.has_passed(process), f"killed, but not at its crash point; {self.portrait()}"

    async def died(self, process: Process) -> None:
        """Waits for a gateway's death, which must be a violent one."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
        except TimeoutError as cause:
            raise AssertionError(f"the gateway did not die; {self.portrait()}") from cause
        finally:
            loop.remove_reader(process.sentinel)
        process.join()
        assert process.exitcode == -signal.SIGKILL, f"ended by itself with {process.exitcode}; {self.portrait()}"
        self.kills += 1

    def logged(self) -> str:
        """The end of what the gateway that came last has logged."""
        log = self._folder / f"serve{self._begun}.log"
        return log.read_text()[-3000:] if log.exists() else "nothing was logged"

    def _begin(self, child: Child) -> Process:
        """Starts a gateway that is gone when this is closed."""
        child = msgspec.structs.replace(child, passed=str(self._folder / f"passed{self._begun}"))
        process = start(child)
        self._passed[process] = Path(child.passed)
        self._open.callback(process.kill)
        return process

    def _next_files(self) -> tuple[Path, Path]:
        """Where the next gateway finds its configuration, and where it logs."""
        self._begun += 1
        return self._folder / f"config{self._begun}.toml", self._folder / f"serve{self._begun}.log"


@contextmanager
def reading(location: str) -> Iterator[Rows]:
    """Queries of the database at `location`."""
    if location.startswith("sqlite"):
        connection = apsw.Connection(location.removeprefix("sqlite://"))
        connection.set_busy_timeout(10_000)
        try:
            yield lambda text: connection.execute(text).fetchall()
        finally:
            connection.close()
        return
    with psycopg.connect(location, autocommit=True, options="-c search_path=threadline") as server:
        yield lambda text: server.execute(text.encode()).fetchall()
