"""The scripted platform: an adapter to copy from, and the chat that it talks to.

`ScriptedChat` is the outside world in a test: people say things in it and see what comes back, and it outlives any gateway.
`ScriptedPlatform` is how a gateway takes part. It shows how an adapter is built: a pure codec, a client that alone knows the
wire, and a platform that ties the two to the port.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from threadline.errors import ThreadlineError
from threadline.log import get_logger
from threadline.model.delivery import Target
from threadline.model.inbound import Attachment
from threadline.model.source import MAIN_ACCOUNT
from threadline.platforms.registry import PlatformSetup
from threadline.ports.platform import Accept, Capabilities, Outgoing, Transient
from threadline.testing.scripted_chat import ScriptedChat
from threadline.testing.scripted_client import Connection
from threadline.testing.scripted_codec import (
    Edit,
    Fetch,
    Ignored,
    Send,
    Told,
    Typing,
    parse_address,
    read_event,
    sendable,
)
from threadline.testing.scripted_world import ALL_CAPABILITIES, ChatEvent, ChatMessage

__all__ = [
    "ALL_CAPABILITIES",
    "ChatEvent",
    "ChatMessage",
    "ScriptedChat",
    "ScriptedOptions",
    "ScriptedPlatform",
    "make_scripted",
]

log = get_logger(__name__)

_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0
# Less than a gateway waits, so that there is time left to hang up.
_CLOSING_SECONDS = 4.0


class ScriptedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the kind `scripted`: where the chat is, what it can do, and how many seconds its answers may take."""

    address: str
    capabilities: Capabilities = ALL_CAPABILITIES
    patience: float = 10.0


def make_scripted(settings: PlatformSetup) -> ScriptedPlatform:
    """The platform that these settings describe; `InvalidRequest` where they describe none."""
    options = settings.read(ScriptedOptions)
    return ScriptedPlatform(
        options.address,
        name=settings.name,
        account=settings.account,
        capabilities=options.capabilities,
        patience=options.patience,
    )


class ScriptedPlatform:
    """One account in a `ScriptedChat`."""

    def __init__(
        self,
        address: str,
        *,
        name: str = "scripted",
        account: str = MAIN_ACCOUNT,
        capabilities: Capabilities = ALL_CAPABILITIES,
        patience: float = 10.0,
    ) -> None:
        """`address` is `unix:PATH` or `HOST:PORT`. `patience`: after so many seconds without an answer a call is `Ambiguous`."""
        parse_address(address)
        self.name = name
        self.account = account
        self.capabilities = capabilities
        self._address = address
        self._patience = patience
        self._connection: Connection | None = None
        self._closed = asyncio.Event()

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Hands events to `accept` until it is closed, connecting again as often as it takes; `Unauthorized` ends it."""
        wait = _FIRST_WAIT
        while not self._closed.is_set():
            if await self._listen(accept, ready):
                wait = _FIRST_WAIT
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Shows the message; its id in the chat."""
        shown = await self._connected().call(lambda number: Send(number, to, sendable(message), key))
        return shown.message_id

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Lets a message of ours say something else."""
        await self._connected().call(lambda number: Edit(number, to, sendable(message), message_id))

    async def typing(self, to: Target) -> None:
        """Shows that an answer is being written."""
        await self._connected().call(lambda number: Typing(number, to))

    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        """What is in a file that came with a message."""
        given = await self._connected().call(lambda number: Fetch(number, attachment.handle, at_most))
        return given.body

    async def close(self) -> None:
        """Waits for calls in flight, some seconds at most, and hangs up; `run` returns then."""
        self._closed.set()
        if self._connection is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connection.calls_answered(), _CLOSING_SECONDS)
        self._connection.close()

    async def _listen(self, accept: Accept, ready: asyncio.Event) -> bool:
        """One connection, from beginning to end. Whether it was of any use: only then is it fair to come back at once."""
        try:
            connection = await Connection.open(self._address, self.account, self._patience)
        except OSError as cause:
            log.warning("platform.unreachable", platform=self.name, reason=str(cause))
            return False
        self._connection = connection
        if self._closed.is_set():
            connection.close()
        ready.set()
        await connection.listen(lambda event: self._take(event, accept))
        return connection.was_of_use

    async def _take(self, event: Told, accept: Accept) -> bool:
        """Whether the event may be acknowledged: it is stored, or nobody will ever want it."""
        read = read_event(bytes(event.body), platform=self.name, account=self.account)
        if isinstance(read, Ignored):
            return True
        try:
            await accept(read)
        except ThreadlineError as cause:
            log.warning("platform.not_accepted", platform=self.name, event_number=event.number, reason=str(cause))
            return False
        return True

    def _connected(self) -> Connection:
        if self._connection is None or self._closed.is_set():
            raise Transient("the chat is not connected")
        return self._connection
