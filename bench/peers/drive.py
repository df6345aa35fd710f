"""Times one program. It runs in that program's environment, so it imports nothing but the standard library.

Reads the workload as JSON from the standard input and prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = dict[str, Any]
# Milliseconds an operation: by the clock, and of the processors.
Cost: TypeAlias = tuple[float, float]
_CALLERS = 64
_LAST = 50
_LIMIT = 20
# No program needs the network for this; a request would only show that something else is measured too.
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}


class Peer(Protocol):
    """A program's store in a folder. A session is whatever its verbs want to be given."""

    can_search: bool

    async def resolve(self, chat: str) -> Any:
        """Find or make the session of a chat."""

    async def release(self, session: Any) -> None:
        """Let go of what `resolve` opened."""

    async def fill(self, session: Any, messages: list[Message]) -> None:
        """Put many messages into an empty session at once."""

    async def append(self, session: Any, message: Message, key: str) -> None:
        """Append one message; on return it is committed."""

    async def append_beside_others(self, session: Any, message: Message, key: str) -> None:
        """The same where many callers share an event loop."""

    async def record_usage(self, session: Any, turn: str) -> None:
        """Add the tokens and the cost of a turn, where the program keeps them."""

    async def load(self, session: Any, limit: int | None) -> list[Any]:
        """Return the last `limit` messages, or all."""

    async def search(self, query: str, limit: int) -> int:
        """Search all messages; return how many hits came back."""

    async def finish_indexing(self) -> None:
        """Return when search finds all that was appended."""

    async def close(self) -> None:
        """Close the store."""


class Drive:
    """All figures of one program by name."""

    def __init__(self, make: Callable[[Path], Peer], work: dict[str, Any]) -> None:
        self._make = make
        self._work = work
        self._messages: list[Message] = work["messages"]
        self.figures: dict[str, Cost | None] = {}
        self.hits: dict[str, int] = {}

    async def run(self) -> None:
        """A store of few sessions, then one of many."""
        folder = Path(self._work["folder"])
        few, many = self._work["few"], self._work["many"]
        await self._with_store(folder / "few", few, self._few)
        await self._with_store(folder / "many", many, self._many)

    async def _with_store(self, folder: Path, sessions: int, measure: Callable[[Peer], Awaitable[None]]) -> None:
        peer = self._make(folder)
        each = self._work["each"]
        for number in range(sessions):
            await self._fill(peer, f"chat-{number}", self._messages[number * each :][:each])
        await peer.finish_indexing()
        await measure(peer)
        await peer.close()

    async def _few(self, peer: Peer) -> None:
        self.figures[f"turn, {self._work['few']} sessions"] = await self._turns(peer, self._work["few"])
        sessions = [await peer.resolve(f"chat-{number}") for number in range(self._work["few"])]
        count = self._work["appends"]
        appends = (peer.append(sessions[n % len(sessions)], self._alternating(n), f"one:{n}") for n in range(count))
        self.figures["append, one caller"] = await _each(appends, count)
        await self._append_by_many(peer, sessions, range(_CALLERS))  # opens what is opened at the first use
        self.figures["append, 64 callers"] = await self._append_by_many(peer, sessions, range(count, 2 * count))
        for session in sessions:
            await peer.release(session)
        await self._fill(peer, "long", self._messages[: self._work["long"]])
        long = await peer.resolve("long")
        for name, limit in ((f"load the last {_LAST}", _LAST), ("load all", None)):
            times = self._work["loads"]
            loads = (peer.load(long, limit) for _ in range(times))
            self.figures[f"{name} of {self._work['long']:,}"] = await _each(loads, times)
        assert len(await peer.load(long, _LAST)) == _LAST
        assert len(await peer.load(long, None)) == self._work["long"]
        await peer.release(long)

    async def _many(self, peer: Peer) -> None:
        for kind, query in self._work["queries"].items():
            self.figures[f"search, {kind}"] = None
            if peer.can_search:
                self.hits[kind] = await peer.search(query, _LIMIT)
                times = self._work["searches"]
                searches = (peer.search(query, _LIMIT) for _ in range(times))
                self.figures[f"search, {kind}"] = await _each(searches, times)
        self.figures[f"turn, {self._work['many']:,} sessions"] = await self._turns(peer, self._work["many"])

    async def _append_by_many(self, peer: Peer, sessions: list[Any], numbers: range) -> Cost:
        waiting = iter(numbers)

        async def caller() -> None:
            for n in waiting:
                await peer.append_beside_others(sessions[n % len(sessions)], self._alternating(n), f"many:{n}")

        return await _cost(asyncio.gather(*(caller() for _ in range(_CALLERS))), len(numbers))

    async def _turns(self, peer: Peer, sessions: int) -> Cost:
        # A step that shares no divisor with the number of sessions: neighbours in time are no neighbours in the file.
        times = self._work["turns"]
        return await _each((self._turn(peer, f"chat-{n * 7 % sessions}", n) for n in range(times)), times)

    async def _turn(self, peer: Peer, chat: str, number: int) -> None:
        """Resolve, three appends, usage, the last fifty messages."""
        session = await peer.resolve(chat)
        for place, message in enumerate(self._exchange(number)):
            await peer.append(session, message, f"turn:{number}:{place}")
        await peer.record_usage(session, f"turn:{number}")
        assert len(await peer.load(session, _LAST)) == _LAST
        await peer.release(session)

    def _exchange(self, number: int) -> list[Message]:
        call = {"id": f"call-{number}", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
        question, result = (self._messages[(number + shift) % len(self._messages)]["content"] for shift in (0, 250))
        return [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": result},
        ]

    def _alternating(self, number: int) -> Message:
        """Message `number` of appends that go round the sessions: in each of them the roles take turns."""
        role = "assistant" if number // self._work["few"] % 2 else "user"
        return {"role": role, "content": self._messages[number % len(self._messages)]["content"]}

    async def _fill(self, peer: Peer, chat: str, messages: list[Message]) -> None:
        session = await peer.resolve(chat)
        await peer.fill(session, messages)
        await peer.release(session)


def main(make: Callable[[Path], Peer]) -> None:
    """Drive the program that `make` opens in a folder."""
    sys.addaudithook(_refuse_network)
    work = json.load(sys.stdin)
    for name in ("few", "many"):
        Path(work["folder"], name).mkdir()
    drive = Drive(make, work)
    asyncio.run(drive.run())
    synchronous = sqlite3.connect(":memory:").execute("PRAGMA synchronous").fetchone()[0]
    found = {"figures": drive.figures, "hits": drive.hits, "sqlite": sqlite3.sqlite_version, "synchronous": synchronous}
    print(json.dumps(found))


def _refuse_network(event: str, _: tuple[Any, ...]) -> None:
    if event in _NETWORK:
        raise PermissionError(f"{event}: the network is not for benches")


async def _each(operations: Iterable[Awaitable[object]], count: int) -> Cost:
    """What each costs when they are done one after the other."""
    return await _cost(_in_turn(operations), count)


async def _in_turn(operations: Iterable[Awaitable[object]]) -> None:
    for operation in operations:
        await operation


async def _cost(work: Awaitable[object], count: int) -> Cost:
    started, computed = time.perf_counter(), time.process_time()
    await work
    taken, used = time.perf_counter() - started, time.process_time() - computed
    return taken / count * 1_000, used / count * 1_000
