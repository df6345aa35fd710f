"""Many open pages in one process: they read all that a server tells them, and count it."""

from __future__ import annotations

import asyncio
import sys
import time
from urllib.parse import urlsplit

import msgspec

_EVENT, _GROWN, _OVER, _BEGUN = b"\nevent: ", b"\nevent: live\n", b"event: settled\n", b"event: snapshot\n"
_ANSWER = b'"role":"assistant"'
# So it is told to a reader who had fallen too far behind.
_ANEW = b'"live":null'
_CONVERSATION = "conversation"
# A mark may be cut in two by the network.
_TAIL = 32
_ROOM = bytearray(262_144)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How many readers and turns of each conversation; `text` is what is said to begin a turn.

    `shown` is what its person shows, for each conversation: nobody has two, for whoever has several is told in each of them
    what changes in the others.
    """

    shown: tuple[str, ...]
    readers: int
    rounds: int
    text: str


class Watched(msgspec.Struct, frozen=True):
    """What all of them have read, from the first word that was said to the last answer that was whole."""

    seconds: float
    # All of them: more of a turn, its end, and rows of the list that changed.
    events: int
    # Those that tell more of a turn.
    grown: int
    bytes: int
    # How often somebody was told anew where things stand, since they had fallen behind. They missed events, which count for nobody.
    anew: int

    @property
    def per_second(self) -> float:
        """Events a second, all readers together."""
        return self.events / self.seconds


class Reader(asyncio.BufferedProtocol):
    """One page: it counts the events, and knows how many turns it has seen to their end."""

    def __init__(self, request: bytes) -> None:
        self.events = 0
        self.grown = 0
        self.bytes = 0
        self.anew = 0
        self.turns = 0
        # A turn that was over before anybody looked is told as messages alone.
        self.answers = 0
        self.begun = asyncio.Event()
        self.stirred = asyncio.Event()
        self._request = request
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def get_buffer(self, sizehint: int) -> bytearray:
        # One for all: what is read is looked at before anything else is.
        return _ROOM

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes += nbytes
        seen = self._tail + _ROOM[:nbytes]
        self.events += seen.count(_EVENT) - self._tail.count(_EVENT)
        self.grown += seen.count(_GROWN) - self._tail.count(_GROWN)
        over = sum(seen.count(mark) - self._tail.count(mark) for mark in (_OVER, _ANEW))
        begun = seen.count(_BEGUN) - self._tail.count(_BEGUN)
        answers = seen.count(_ANSWER) - self._tail.count(_ANSWER)
        self._tail = seen[-_TAIL:]
        if over or answers:
            self.turns += over
            self.answers += answers
            self.stirred.set()
        self.anew += begun
        if begun:
            self.begun.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.is_set():
            sys.exit(f"a reader was turned away: {self._tail!r} {exc!r}")

    async def saw(self, turns: int) -> None:
        """Returns once it has seen so many turns to their end."""
        while self.turns < turns:
            self.stirred.clear()
            await self.stirred.wait()

    async def read(self, answers: int) -> None:
        """Returns once it has read so many answers."""
        while self.answers < answers:
            self.stirred.clear()
            await self.stirred.wait()


class Pages:
    """The readers of one server, and the one who says something there."""

    def __init__(self, address: str, wanted: Wanted) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._wanted = wanted
        self._said = 0
        self._kept: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def open(self) -> list[Reader]:
        """All readers, each with where its conversation stands before it."""
        await self.say("0")
        loop = asyncio.get_running_loop()
        readers = []
        for person in self._wanted.shown * self._wanted.readers:
            request = self._head(person, "GET", f"/api/events?conversation={_CONVERSATION}")
            _, reader = await loop.create_connection(lambda made=request: Reader(made), self._host, self._port)  # type: ignore[misc]
            readers.append(reader)
        await asyncio.gather(*(reader.begun.wait() for reader in readers))
        return readers

    async def say(self, text: str) -> None:
        """Says this in every conversation."""
        for person in self._wanted.shown:
            await self.say_as(person, text)

    async def say_as(self, person: str, text: str) -> None:
        """Says this in the conversation of one person, over the one connection that they keep open."""
        self._said += 1
        body = msgspec.json.encode({"id": f"m{self._said}", "text": text})
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if person not in self._kept:
            self._kept[person] = await asyncio.open_connection(self._host, self._port)
        stream, writer = self._kept[person]
        # Head and body apart, as most programs send them.
        writer.write(self._head(person, "POST", f"/api/conversations/{_CONVERSATION}/messages", length))
        writer.write(body)
        answer = await stream.readuntil(b"\r\n\r\n")
        assert b" 202 " in answer.split(b"\r\n", 1)[0], answer
        answered = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await stream.readexactly(int(answered.partition(b":")[2]))

    def _head(self, person: str, method: str, path: str, more: str = "") -> bytes:
        own = f"{self._host}:{self._port}"
        lines = f"{method} {path} HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nCookie: threadline={person}\r\n"
        return f"{lines}{more}\r\n".encode()


async def watch(address: str, wanted: Wanted) -> None:
    """Opens all pages, says so, and when told to lets the turns begin; then tells what was read."""
    pages = Pages(address, wanted)
    readers = await pages.open()
    # What is left of the turns that made the conversations.
    await asyncio.sleep(2)
    before = [(reader.turns, reader.events, reader.grown, reader.bytes, reader.anew) for reader in readers]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.perf_counter()
    for turn in range(1, wanted.rounds + 1):
        await pages.say(wanted.text)
        await asyncio.gather(*(reader.saw(at[0] + turn) for reader, at in zip(readers, before, strict=True)))
    seconds = time.perf_counter() - began
    events = sum(reader.events - at[1] for reader, at in zip(readers, before, strict=True))
    grown = sum(reader.grown - at[2] for reader, at in zip(readers, before, strict=True))
    size = sum(reader.bytes - at[3] for reader, at in zip(readers, before, strict=True))
    anew = sum(reader.anew - at[4] for reader, at in zip(readers, before, strict=True))
    print(msgspec.json.encode(Watched(seconds, events, grown, size, anew)).decode(), flush=True)


if __name__ == "__main__":
    _, place, asked = sys.argv
    asyncio.run(watch(place, msgspec.json.decode(asked, type=Wanted)))
