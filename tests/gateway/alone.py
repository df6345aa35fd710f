"""A platform that listens alone, and the letter box behind it: who listens confirms what arrived, and gets the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from threadline.clock import SystemClock
from threadline.errors import ThreadlineError
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.ports.platform import (
    Accept,
    Capabilities,
    NotDeclared,
    OfferedCommand,
    Outgoing,
    PlatformError,
    Transient,
)

_LOOK_SECONDS = 0.01


class Letterbox:
    """What people wrote, how far it was confirmed, who takes letters out, and what was sent. It outlives any gateway."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.confirmed = 0
        self.sent: list[tuple[str, str]] = []
        # The platforms that listen now, and how many ever did at once.
        self.listening: list[Pigeon] = []
        self.most = 0
        # Raised by the next ones to open or to listen.
        self.at_opening: list[PlatformError] = []
        self.at_listening: list[PlatformError] = []

    def write(self, text: str) -> None:
        """Somebody writes."""
        self.letters.append(text)

    def texts(self) -> list[str]:
        """What was sent, in order."""
        return [text for _, text in self.sent]

    def senders(self) -> set[str]:
        """Whose hands it went through."""
        return {by for by, _ in self.sent}


class Pigeon:
    """One account at a letter box."""

    def __init__(self, box: Letterbox, *, name: str = "pigeon", by: str = "", lingers: float = 0.0) -> None:
        """`lingers`: so many seconds it goes on listening after it was told to stop, whatever is done to it."""
        self.name = name
        self.account = "main"
        self.capabilities = Capabilities(bursts=False)
        self.listens_as = "pigeon:42"
        self.by = by
        self.offered: list[tuple[OfferedCommand, ...]] = []
        self.opened = 0
        self._box = box
        self._lingers = lingers
        self._closed = asyncio.Event()

    def offer(self, commands: Sequence[OfferedCommand]) -> None:
        """Keeps them."""
        assert not self.opened
        self.offered.append(tuple(commands))

    async def open(self) -> None:
        """From now on it can send."""
        if self._box.at_opening:
            raise self._box.at_opening.pop(0)
        self.opened += 1

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Takes letters out until it is cancelled or closed."""
        box = self._box
        box.listening.append(self)
        box.most = max(box.most, len(box.listening))
        try:
            if box.at_listening:
                raise box.at_listening.pop(0)
            ready.set()
            while not self._closed.is_set():
                await self._look(accept)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await self._linger()
            box.listening.remove(self)

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Sends it."""
        if not self.opened or self._closed.is_set():
            raise Transient("it is not open")
        self._box.sent.append((self.by, message.text))
        return str(len(self._box.sent))

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """It can't."""
        raise NotDeclared("letters are not changed, and nobody sees who writes one")

    async def typing(self, to: Target) -> None:
        """It can't."""
        raise NotDeclared("letters are not changed, and nobody sees who writes one")

    async def close(self) -> None:
        """Ends `run`."""
        self._closed.set()

    async def _linger(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lingers
        while loop.time() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, accept: Accept) -> None:
        """The next letter, confirmed once it is accepted. Each is a conversation of its own."""
        number = self._box.confirmed
        if number == len(self._box.letters):
            return
        source = SessionSource(platform=self.name, chat_id=f"c{number}", user_id="ada")
        letter = Inbound(
            dedupe_key=str(number),
            message_id=str(number),
            source=source,
            text=self._box.letters[number],
            sent_at=SystemClock().now(),
        )
        try:
            await accept(letter)
        except ThreadlineError:
            return
        self._box.confirmed = number + 1
