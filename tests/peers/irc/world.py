"""A real IRC server, people on it, and a line to it that can break."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from threadline.model.source import SessionSource
from threadline.platforms.registry import PlatformSetup
from threadline.ports.platform import Platform
from threadline.testing.contracts.platforms import PlatformWorld, Service, Shown

EXAMPLE = Path(__file__).parents[3] / "docs" / "extending" / "irc"
CHANNEL, NICK = "#team", "threadline"
_SERVER = """
[Global]
Name = irc.example.net
Info = A server for tests
Listen = 127.0.0.1
Ports = {port}
Password = {password}
ServerUID = {user}
ServerGID = {group}
[Limits]
MaxConnectionsIP = 0
MaxNickLength = 20
# Our people write faster than people do.
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
[Channel]
Name = #team
"""


def example() -> Any:
    """The package of the example, as if it were installed."""
    if str(EXAMPLE) not in sys.path:
        sys.path.insert(0, str(EXAMPLE))
    import threadline_irc  # type: ignore[import-not-found]

    return threadline_irc


class Ngircd:
    """Debian's ngircd, as a process of its own."""

    def __init__(self, folder: Path, password: str = "secret") -> None:
        self.password = password
        self.port = _free_port()
        self._file = folder / "ngircd.conf"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        program = shutil.which("ngircd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program, "ngircd is missing; `make test-peers` installs it"
        whose = {"user": os.getuid(), "group": os.getgid()}
        self._file.write_text(_SERVER.format(port=self.port, password=self.password, **whose))
        self._process = subprocess.Popen(  # noqa: ASYNC220 - it is there at once
            [program, "-n", "-f", self._file], stdout=subprocess.DEVNULL
        )
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            assert self._process.poll() is None, "ngircd ended at once"
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Person:
    """Somebody with an IRC client."""

    def __init__(self, nick: str) -> None:
        self.nick = nick
        # Who said what to which place, in order.
        self.read: list[tuple[str, str, str]] = []
        # Who was in the channel when they looked last.
        self.joined: set[str] = set()
        self._pongs: dict[str, asyncio.Event] = {}
        self._numbers = itertools.count()
        self._reading: asyncio.Task[None] | None = None

    async def join(self, server: Ngircd) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", server.port)
        self._reading = asyncio.create_task(self._read())
        self.write(f"PASS {server.password}", f"NICK {self.nick}", f"USER {self.nick} 0 * :{self.nick}")
        self.write(f"JOIN {CHANNEL}")
        await self.up_to_date()

    async def leave(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._writer.close()

    def write(self, *lines: str) -> None:
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    async def up_to_date(self) -> None:
        """Returns when all that the server has for them was read."""
        number = f"p{next(self._numbers)}"
        self._pongs[number] = asyncio.Event()
        self.write(f"PING {number}")
        await self._pongs[number].wait()

    async def _read(self) -> None:
        async for raw in self._reader:
            words = raw.decode().rstrip("\r\n").split(" ", 3)
            if words[0] == "PING":
                self.write(f"PONG {words[1]}")
            elif words[1] == "PONG":
                self._pongs[words[3].removeprefix(":")].set()
            elif words[1] == "353":
                self.joined |= set(words[3].partition(":")[2].split())
            elif words[1] == "PRIVMSG":
                nick = words[0].removeprefix(":").partition("!")[0]
                self.read.append((nick, words[2], words[3].removeprefix(":")))


class Wire:
    """The line between the adapter and the server."""

    def __init__(self, server: Ngircd) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._loses = False

    @property
    def port(self) -> int:
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self.cut()

    async def cut(self) -> None:
        lines = list(self._lines)
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def lose_answer(self) -> None:
        self._loses = True

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self._server.port)
            try:
                ways = [self._forth(reader, away), self._back(there, writer)]
                await asyncio.wait([asyncio.create_task(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
            finally:
                away.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._lines.discard(task)

    async def _forth(self, reader: asyncio.StreamReader, away: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            async for line in reader:
                away.write(line)

    async def _back(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            async for line in there:
                await self._open.wait()
                if self._loses and b" PONG " in line:
                    # The server has taken it, and says so to nobody.
                    self._loses = False
                    return
                writer.write(line)


class IrcWorld(PlatformWorld):
    """Ada and Bob on a server. What is said while nobody listens, nobody hears: IRC tells nothing again."""

    service = Service(breaks=True, loses_answers=True, holds=True, forgets_chats=True, checks_key=True, by_line=True)
    places = (
        SessionSource(platform="irc", chat_id="ada", user_id="ada", user_name="Ada"),
        SessionSource(
            platform="irc", chat_id=CHANNEL, chat_type="group", chat_name=CHANNEL, user_id="bob", user_name="Bob"
        ),
    )

    def __init__(self, server: Ngircd, wire: Wire, people: dict[str, Person]) -> None:
        self.server, self.wire, self.people = server, wire, people

    def connect(self) -> Platform:
        options = {
            "server": "127.0.0.1",
            "port": self.wire.port,
            "nick": NICK,
            "password": "secret",
            "channels": [CHANNEL],
        }
        platform: Platform = example().make_irc(PlatformSetup("irc", options=options))
        return platform

    async def say(self, text: str, where: SessionSource) -> None:
        to, before = (NICK, "") if where.chat_type == "dm" else (CHANNEL, f"{NICK}: ")
        await self._speak(f"PRIVMSG {to} :{before}{text}", where)

    async def mutter(self, text: str, where: SessionSource) -> None:
        await self._speak(f"PRIVMSG {CHANNEL} :{text}", where)

    async def shown(self, where: SessionSource) -> list[Shown]:
        person = self.people[str(where.user_id)]
        await person.up_to_date()
        place = person.nick if where.chat_type == "dm" else CHANNEL
        return [Shown(text=text) for nick, to, text in person.read if (nick, to) == (NICK, place)]

    async def cut(self) -> None:
        await self.wire.cut()

    async def lose_answer(self) -> None:
        self.wire.lose_answer()

    async def hold(self) -> None:
        self.wire.hold()

    async def release(self) -> None:
        self.wire.release()

    async def lose_chat(self, where: SessionSource) -> None:
        person = self.people[str(where.user_id)]
        person.write("QUIT")
        await person.leave()
        await self.people["bob"].up_to_date()

    async def revoke(self) -> None:
        self.server.stop()
        self.server.password = "another"
        await self.server.start()

    async def _speak(self, line: str, where: SessionSource) -> None:
        person = self.people[str(where.user_id)]
        person.write(line)
        await person.up_to_date()


@asynccontextmanager
async def irc_world(folder: Path) -> AsyncIterator[IrcWorld]:
    server, people = Ngircd(folder), {"ada": Person("Ada"), "bob": Person("Bob")}
    wire = Wire(server)
    await server.start()
    try:
        for person in people.values():
            await person.join(server)
        await wire.start()
        yield IrcWorld(server, wire, people)
    finally:
        await wire.stop()
        for person in people.values():
            await person.leave()
        server.stop()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
