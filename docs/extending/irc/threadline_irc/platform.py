"""IRC as a platform: ties the lines and the connection to the port."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from typing import TypeAlias

from threadline.clock import Clock, SystemClock
from threadline.errors import ThreadlineError
from threadline.log import get_logger
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound, Unreadable
from threadline.platforms.registry import PlatformSetup
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, Transient, refuse_undeclared
from threadline_irc.client import Connection, Place
from threadline_irc.codec import MOST_BYTES, Line, lines_of, read_message

log = get_logger(__name__)

IrcOptions: TypeAlias = Place
_Unstored: TypeAlias = asyncio.Queue[Inbound | Unreadable]

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_CLOSING_SECONDS = 4.0


def make_irc(settings: PlatformSetup) -> Irc:
    """The platform that these settings describe; `InvalidRequest` where they describe none."""
    return Irc(settings.read(IrcOptions), name=settings.name, account=settings.account)


class Irc:
    """One nick on one server."""

    capabilities = Capabilities(max_length=MOST_BYTES, length_unit="bytes")

    def __init__(self, options: IrcOptions, *, name: str, account: str, clock: Clock | None = None) -> None:
        self.name, self.account = name, account
        self._options = options
        self._clock = clock or SystemClock()
        self._connection: Connection | None = None
        self._closed = asyncio.Event()
        # IRC numbers nothing: these ids are ours, and never the same again.
        self._numbers = (f"{uuid.uuid4().hex[:12]}-{n}" for n in itertools.count(1))

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Hands over what is said until it is closed, connecting again as often as it takes; `Unauthorized` ends it."""
        unstored: _Unstored = asyncio.Queue()
        # Apart from listening: to store something may take long, and receipts come on the same wire.
        both = [asyncio.ensure_future(work) for work in (self._stay(unstored, ready), self._store(unstored, accept))]
        try:
            ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            ended.pop().result()
        finally:
            for work in both:
                work.cancel()

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:  # noqa: ARG002 - IRC knows no keys
        """Says the message, a line at a time; an id of ours."""
        refuse_undeclared(self.capabilities, message, to)
        if self._connection is None or self._closed.is_set():
            raise Transient("the server is not connected")
        await self._connection.tell(to.chat_id, list(lines_of(message.text)))
        return next(self._numbers)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """What was said on IRC was said."""
        raise NotDeclared("nothing can be edited on IRC")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """Nobody is seen typing on IRC."""
        raise NotDeclared("nobody is seen typing on IRC")

    async def close(self) -> None:
        """Waits for what is on its way, and hangs up; `run` returns then."""
        self._closed.set()
        if self._connection is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connection.all_told(), _CLOSING_SECONDS)
        self._connection.close()

    async def _stay(self, unstored: _Unstored, ready: asyncio.Event) -> None:
        wait = _FIRST_WAIT
        while not self._closed.is_set():
            wait = _FIRST_WAIT if await self._listen(unstored, ready) else min(2 * wait, _LONGEST_WAIT)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), wait)

    async def _listen(self, unstored: _Unstored, ready: asyncio.Event) -> bool:
        """One connection, from beginning to end; whether there was one."""
        try:
            self._connection = await Connection.open(self._options)
        except OSError as cause:
            log.warning("platform.unreachable", platform=self.name, reason=str(cause))
            return False
        ready.set()
        await self._connection.listen(lambda line: self._take(line, unstored))
        return True

    def _take(self, line: Line, unstored: _Unstored) -> None:
        read = read_message(
            line,
            self._options.nick,
            platform=self.name,
            account=self.account,
            number=next(self._numbers),
            at=self._clock.now(),
        )
        if read is not None:
            unstored.put_nowait(read)

    async def _store(self, unstored: _Unstored, accept: Accept) -> None:
        """Hands over one after another. Nobody tells it to us again, so what can't be stored is tried until it can."""
        while True:
            event = await unstored.get()
            while not await self._is_stored(event, accept):  # noqa: ASYNC110 - a store tells nobody that it is back
                await asyncio.sleep(_FIRST_WAIT)

    async def _is_stored(self, event: Inbound | Unreadable, accept: Accept) -> bool:
        try:
            await accept(event)
        except ThreadlineError as cause:
            log.warning("platform.not_accepted", platform=self.name, reason=str(cause))
            return False
        return True
