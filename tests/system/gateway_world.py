"""Gateways in processes that are killed, and the chat that outlives them."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self, TypeVar

import apsw
import msgspec
import psycopg
from psycopg import sql
from tests.system.gateway_child import Child, start
from tests.system.gateway_promises import Promises, Rows, Said

from threadline.testing.scripted import ScriptedChat

T = TypeVar("T")

# So long nothing at all may happen.
_PATIENCE_SECONDS = 40.0
# So many worlds at the same time: most of what they do is waiting.
_AT_ONCE = 8


class World:
    """A chat, a database, and gateways that come and go."""

    def __init__(self, location: str, chat: ScriptedChat, *, lease: float | None = None) -> None:
        """Where a gateway knows that it is alone it never waits for a lease, so there it is long."""
        is_alone = location.startswith("sqlite")
        self.chat = chat
        self.said: list[Said] = []
        self.kills = 0
        self._child = Child(
            location=location, address=chat.address, lease=lease or (60.0 if is_alone else 1.5), is_alone=is_alone
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @functools.cached_property
    def rows(self) -> Rows:
        """Reads the database, which is there once a gateway was."""
        return self._open.enter_context(reading(self._child.location))

    def begin(self, point: str | None = None, **how: Any) -> BaseProcess:
        """Starts a gateway, which dies at `point` if there is one. `how` sets other fields of `Child`."""
        process = start(msgspec.structs.replace(self._child, point=point, **how))
        self._open.callback(process.kill)
        return process

    def say(self, user: str, text: str) -> None:
        """Somebody writes to us."""
        number = self.chat.say(text, user=user)
        self.said.append(Said(user, text, f"dm-{user}/{number}"))

    async def connected(self, count: int = 1) -> None:
        """Waits until so many gateways are there."""
        await self.chat.wait_for(lambda: self.chat.connected >= count, timeout=_PATIENCE_SECONDS)

    async def kill(self, process: BaseProcess) -> None:
        """Ends a gateway as the kernel does when memory is short."""
        process.kill()
        await self.died(process)

    async def fell_asleep(self, process: BaseProcess) -> None:
        """Waits until a gateway is stopped, and nothing in it moves any more."""
        stat = Path(f"/proc/{process.pid}/stat")
        await self.chat.wait_for(lambda: ") T " in stat.read_text(), timeout=_PATIENCE_SECONDS)

    async def died(self, process: BaseProcess) -> None:
        """Waits for a gateway's death, which must be a violent one."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), _PATIENCE_SECONDS)
        except TimeoutError as cause:
            raise AssertionError(f"the gateway did not die; {self.chat.portrait()}") from cause
        finally:
            loop.remove_reader(process.sentinel)
        process.join()
        assert process.exitcode == -signal.SIGKILL, process.exitcode
        self.kills += 1

    async def settled(self) -> None:
        """Waits until nothing waits, runs or is to be sent any more: as long as it takes, if only it goes on."""
        done = 0
        try:
            while not self._is_settled():
                done = await self.chat.wait_for(functools.partial(self._more_than, done), timeout=_PATIENCE_SECONDS)
        except TimeoutError as cause:
            inbox = self.rows("SELECT pk, dedupe_key, turn_pk, fate FROM inbox WHERE fate IS NULL")
            turns = self.rows("SELECT pk, state, attempts, owner, lease_until FROM turns WHERE state <> 'done'")
            out = self.rows(
                "SELECT delivery_id, state, attempts, due_at, error FROM deliveries"
                " WHERE state NOT IN ('sent', 'unknown') ORDER BY lane, pk"
            )
            raise AssertionError(f"never settled: {inbox=} {turns=} {out=}; {self.chat.portrait()}") from cause

    def running(self, owner: str) -> int:
        """How many turns a gateway holds."""
        return len(self.rows(f"SELECT 1 FROM turns WHERE state = 'running' AND owner = '{owner}'"))

    @property
    def doubtful(self) -> int:
        """How many deliveries may be repetitions."""
        return len(self.rows("SELECT 1 FROM deliveries WHERE state = 'unknown'"))

    def outcomes(self, *users: str) -> list[str | None]:
        """How the turns of these people ended, oldest first; of all without any."""
        return [turn.outcome for turn in self._promises().turns if turn.user in users or not users]

    def broken(self, *users: str) -> list[str]:
        """What is not as promised for these people, for all without any."""
        return self._promises().broken(users or list(dict.fromkeys(said.user for said in self.said)))

    def _promises(self) -> Promises:
        return Promises(self.said, self.chat, self.rows, kills=self.kills)

    def _more_than(self, done: int) -> int:
        """How much has come to its end, if that is more than before or all there is; else 0."""
        ended = 1 + len(self.chat.events) - len(self.chat.unacknowledged)
        if ended > 1:
            ended += len(self.rows("SELECT 1 FROM inbox WHERE fate IS NOT NULL"))
            ended += len(self.rows("SELECT 1 FROM deliveries WHERE state NOT IN ('pending', 'sending', 'open')"))
        return ended if ended > done or self._is_settled() else 0

    def _is_settled(self) -> bool:
        if self.chat.unacknowledged or not self.said:
            return False
        ((fated,),) = self.rows("SELECT COUNT(*) FROM inbox WHERE fate IS NOT NULL")
        if fated < len(self.said):
            return False
        return not self.rows("SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending', 'open') LIMIT 1")


def in_worlds(
    location: str, cases: Sequence[T], broken: Callable[[World, int, T], Awaitable[list[str]]], *, lease: float | None
) -> list[str]:
    """What is broken after all of the cases: each world takes a share of them, one after another, numbered."""

    async def in_one(database: str, share: list[tuple[int, T]]) -> list[str]:
        async with ScriptedChat(resend_after=0.3) as chat:
            with World(database, chat, lease=lease) as world:
                return [fault for number, case in share for fault in await broken(world, number, case)]

    async def in_all(databases: Sequence[str]) -> list[str]:
        shares = [list(enumerate(cases))[place :: len(databases)] for place in range(len(databases))]
        found = await asyncio.gather(*map(in_one, databases, shares))
        return [fault for faults in found for fault in faults]

    with _more_databases(location) as another:
        return asyncio.run(in_all([another() for _ in range(_AT_ONCE)]))


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


@contextmanager
def _more_databases(location: str) -> Iterator[Callable[[], str]]:
    """Makes databases beside a fresh one."""
    made: list[str] = []
    if location.startswith("sqlite"):
        folder = Path(location.removeprefix("sqlite://")).parent

        def beside() -> str:
            made.append(f"{folder}/{len(made)}/threadline.db")
            return f"sqlite://{made[-1]}"

        yield beside
        return
    with psycopg.connect(location, dbname="postgres", autocommit=True) as server:

        def copied() -> str:
            made.append(f"beside{len(made)}")
            copying = sql.SQL("CREATE DATABASE {} TEMPLATE tests STRATEGY FILE_COPY")
            server.execute(copying.format(sql.Identifier(made[-1])))
            return location.replace("/tests", f"/{made[-1]}")

        try:
            yield copied
        finally:
            for name in made:
                server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
