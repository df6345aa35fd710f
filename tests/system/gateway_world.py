"""Gateways in processes that are killed, and what outlives them: the chat, the agent and the database."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import psycopg
from psycopg import sql
from tests.system.gateway_child import Child, Plain, Process
from tests.system.gateway_folder import Wanted, configuration, furnish
from tests.system.gateway_promises import Promises, Said
from tests.system.outside import OutsideAgent
from tests.system.surroundings import BACK_OFF, PATIENCE_SECONDS, Surroundings

from threadline.testing.scripted import ScriptedChat

T = TypeVar("T")
W = TypeVar("W")

# So many worlds at the same time: most of what they do is waiting. A server has only so many connections to give.
_FILES_AT_ONCE = 12
_SERVED_AT_ONCE = 8


class World(Surroundings):
    """A chat, an agent, a database, and gateways that come and go."""

    def __init__(self, location: str, chat: ScriptedChat, agent: OutsideAgent, *, lease: float | None) -> None:
        super().__init__(location, agent, lease=lease)
        self.chat = chat
        # The first back-off of the gateways that are started from now on; `None`: as the program has it.
        self.back_off: float | None = BACK_OFF
        furnish(self._folder, agent.address)

    def portrait(self) -> str:
        """How things stand in the chat, and the end of what the gateway that came last has logged."""
        return f"{self.chat.portrait()}; {self.logged()}"

    def begin(
        self,
        point: str | None = None,
        *,
        nth: int = 1,
        outage: float | None = None,
        sleeps: bool = False,
        lease: float | None = None,
    ) -> Process:
        """Starts a gateway, which dies at `point` if there is one, or does what the options of a `Child` say."""
        wanted = self._wanted(lease or self.lease, crashes=point is not None)
        return self._begin(self._child(wanted, point=point, nth=nth, outage=outage, sleeps=sleeps))

    def begin_plain(self) -> Process:
        """Starts a gateway as people do, with the leases that it has by itself."""
        process = Plain(self._child(self._wanted(None)))
        self._open.callback(process.join)
        self._open.callback(process.kill)
        return process

    def _wanted(self, lease: float | None, *, crashes: bool = False) -> Wanted:
        chat, agent = self.chat.address, self.agent.address
        return Wanted(chat=chat, agent=agent, people=self.people, lease=lease, back_off=self.back_off, crashes=crashes)

    def _child(self, wanted: Wanted, **how: object) -> Child:
        config, log = self._next_files()
        config.write_text(configuration(wanted))
        child = Child(location=self._location, folder=str(self._folder), config=str(config), log=str(log))
        return msgspec.structs.replace(child, **how)

    def say(self, user: str, text: str) -> None:
        """Somebody writes to us."""
        assert user in self.people
        number = self.chat.say(text, user=user)
        self.said.append(Said(user, text, f"dm-{user}/{number}"))

    async def connected(self, count: int = 1) -> None:
        """Waits until so many gateways are there."""
        await self.chat.wait_for(lambda: self.chat.connected >= count, timeout=PATIENCE_SECONDS)

    async def fell_asleep(self, process: Process) -> None:
        """Waits until a gateway is stopped, and nothing in it moves any more."""
        stat = Path(f"/proc/{process.pid}/stat")
        await self.chat.wait_for(lambda: ") T " in stat.read_text(), timeout=PATIENCE_SECONDS)
        assert self.has_passed(process), f"stopped, but not at its crash point; {self.portrait()}"

    async def settled(self) -> None:
        """Waits until nothing waits, runs or is to be sent any more: as long as it takes, if only it goes on."""
        done = 0
        try:
            while not self._is_settled():
                done = await self.chat.wait_for(functools.partial(self._more_than, done), timeout=PATIENCE_SECONDS)
        except TimeoutError as cause:
            inbox = self.rows("SELECT pk, dedupe_key, turn_pk, fate FROM inbox WHERE fate IS NULL")
            turns = self.rows("SELECT pk, state, attempts, owner, lease_until FROM turns WHERE state <> 'done'")
            out = self.rows(
                "SELECT delivery_id, state, attempts, due_at, error FROM deliveries"
                " WHERE state NOT IN ('sent', 'unknown') ORDER BY lane, pk"
            )
            raise AssertionError(f"never settled: {inbox=} {turns=} {out=}; {self.portrait()}") from cause

    def owners(self) -> set[str]:
        """The names of the gateways that hold turns."""
        return {owner for (owner,) in self.rows("SELECT owner FROM turns WHERE state = 'running'")}

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

    def in_doubt(self, *users: str) -> int:
        """How many messages to these people may be repetitions."""
        return self._promises().in_doubt(*users)

    def _promises(self) -> Promises:
        return Promises(self.said, self.chat, self.agent, self.rows, kills=self.kills)

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


@asynccontextmanager
async def in_world(location: str, *people: str, lease: float | None = None) -> AsyncIterator[World]:
    """A world around the database at `location`, in which these people speak."""
    async with ScriptedChat(resend_after=0.3) as chat, OutsideAgent() as agent:
        with World(location, chat, agent, lease=lease) as world:
            world.people = people
            yield world


def in_worlds(
    location: str, cases: Sequence[T], broken: Callable[[World, int, T], Awaitable[list[str]]], *, lease: float | None
) -> list[str]:
    """What is broken after all of the cases, shared out over worlds with this lease."""
    return shared_out(location, cases, broken, lambda database: in_world(database, lease=lease))


def shared_out(
    location: str,
    cases: Sequence[T],
    broken: Callable[[W, int, T], Awaitable[list[str]]],
    opened: Callable[[str], AbstractAsyncContextManager[W]],
) -> list[str]:
    """What is broken after all of the cases: each world takes a share of them, one after another, numbered."""

    async def in_one(database: str, share: list[tuple[int, T]]) -> list[str]:
        async with opened(database) as world:
            return [fault for number, case in share for fault in await broken(world, number, case)]

    async def in_all(databases: Sequence[str]) -> list[str]:
        shares = [list(enumerate(cases))[place :: len(databases)] for place in range(len(databases))]
        found = await asyncio.gather(*map(in_one, databases, shares))
        return [fault for faults in found for fault in faults]

    count = min(_FILES_AT_ONCE if location.startswith("sqlite") else _SERVED_AT_ONCE, len(cases))
    with more_databases(location) as another:
        return asyncio.run(in_all([another() for _ in range(count)]))


@contextmanager
def more_databases(location: str) -> Iterator[Callable[[], str]]:
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
