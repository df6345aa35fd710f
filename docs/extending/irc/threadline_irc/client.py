"""One connection to an IRC server: the only file here that knows the wire."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from threadline.ports.platform import Ambiguous, Gone, PlatformError, Transient, Unauthorized
from threadline_irc.codec import Line, folded, read_line, write_line

_IDLE_SECONDS = 120.0
_WELCOME, _NICK_TAKEN, _WRONG_PASSWORD, _END_OF_NAMES = "001", "433", "464", "366"
# Nobody there; no such channel; not allowed to speak in it.
_NOT_SENT = ("401", "403", "404", "442")
_NOT_JOINED = ("403", "405", "471", "473", "474", "475", "476")


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server is, and who we are there."""

    server: str
    nick: str
    port: int = 6667
    tls: bool = False
    password: str = ""
    channels: tuple[str, ...] = ()
    # Seconds that an answer of the server may take.
    patience: float = 20.0


class Connection:
    """A line to the server, from our name to its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place) -> None:
        self._reader, self._writer, self._place = reader, writer, place
        self._numbers = itertools.count(1)
        # The one message that is on its way: its receipt, whose number the server gives back, and where it goes.
        self._receipt: tuple[str, str, asyncio.Future[None]] | None = None
        self._sending = asyncio.Lock()
        self._is_over = False

    @classmethod
    async def open(cls, place: Place) -> Self:
        """Says who we are and joins. `OSError` where that is not possible now, `Unauthorized` where it never will be."""
        secured = ssl.create_default_context() if place.tls else None
        async with asyncio.timeout(place.patience):
            connection = cls(*await asyncio.open_connection(place.server, place.port, ssl=secured), place)
            try:
                await connection._register()
            except BaseException:
                connection.close()
                raise
        return connection

    async def listen(self, take: Callable[[Line], None]) -> None:
        """Hands over every line until the connection has ended. A message whose receipt is missing is `Ambiguous` then."""
        try:
            while (line := await self._next()) is not None:
                self._settle(line)
                take(line)
        finally:
            self.close()

    async def tell(self, to: str, lines: Sequence[str]) -> None:
        """Says these lines there. It returns once the server has taken them: IRC has no receipts, but a `PING` has an answer.

        One after another: a server ends connections on which too much comes at once.
        """
        async with self._sending:
            if self._is_over:
                raise Transient("the server is not connected")
            number, receipt = f"r{next(self._numbers)}", asyncio.get_running_loop().create_future()
            self._receipt = (number, folded(to), receipt)
            self._say(*(write_line("PRIVMSG", to, line) for line in lines), write_line("PING", number))
            try:
                async with asyncio.timeout(self._place.patience):
                    await receipt
            except TimeoutError as cause:
                raise Ambiguous(f"the server gave no answer within {self._place.patience:g} s") from cause
            finally:
                self._receipt = None

    async def all_told(self) -> None:
        """Returns when nothing is on its way."""
        async with self._sending:
            pass

    def close(self) -> None:
        """Hangs up. Idempotent."""
        if self._is_over:
            return
        self._say(write_line("QUIT"))
        self._is_over = True
        self._writer.close()
        if self._receipt is not None:
            self._end_receipt(Ambiguous("the connection ended before the server took the message"))

    async def _register(self) -> None:
        password = [write_line("PASS", self._place.password)] if self._place.password else []
        nick = self._place.nick
        self._say(*password, write_line("NICK", nick), write_line("USER", nick, "0", "*", "Threadline"))
        line = await self._until(_WELCOME)
        self._say(*(write_line("JOIN", channel) for channel in self._place.channels))
        for _ in self._place.channels:
            line = await self._until(_END_OF_NAMES, *_NOT_JOINED)
            if line.command in _NOT_JOINED:
                raise ConnectionError(f"{line.param(1)} can't be joined: {line.param(2)}")

    async def _until(self, *wanted: str) -> Line:
        while (line := await self._next()) is not None:
            if line.command == _WRONG_PASSWORD or (line.command == "ERROR" and "password" in line.param(0).lower()):
                raise Unauthorized
            if line.command == _NICK_TAKEN:
                raise ConnectionError(f"somebody else is called {self._place.nick}")
            if line.command in wanted:
                return line
        raise ConnectionError("the server hung up")

    async def _next(self) -> Line | None:
        """The next line that is not about the connection itself; nothing once it has ended."""
        is_asked = False
        while not self._is_over:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    raw = await self._reader.readline()
            except TimeoutError:
                if is_asked:
                    return None
                is_asked = True
                self._say(write_line("PING", "there?"))
                continue
            except (OSError, ValueError):
                return None
            if not raw:
                return None
            if (line := read_line(raw)) is not None and line.command != "PING":
                return line
            if line is not None:
                self._say(write_line("PONG", line.param(0)))
        return None

    def _settle(self, line: Line) -> None:
        """Lets a message that is on its way know what became of it."""
        if self._receipt is None:
            return
        number, to, _ = self._receipt
        if line.command == "PONG" and line.param(1) == number:
            self._end_receipt(None)
        elif line.command in _NOT_SENT and folded(line.param(1)) == to:
            self._end_receipt(Gone(f"{line.param(1)}: {line.param(2)}"))

    def _end_receipt(self, error: PlatformError | None) -> None:
        if self._receipt is None or (receipt := self._receipt[2]).done():
            return
        if error is None:
            receipt.set_result(None)
        else:
            receipt.set_exception(error)

    def _say(self, *lines: bytes) -> None:
        if not self._is_over:
            self._writer.writelines(lines)
