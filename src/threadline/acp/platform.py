"""An editor as a platform: its person waits while they are answered, and sees each turn as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from threadline.acp.desk import Desk
from threadline.acp.table import Table
from threadline.model.client_sources import ACP
from threadline.model.delivery import Target
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.live import Ending, Growth
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, refuse_undeclared


class AcpPlatform:
    """A `Platform` that shows turns, for the one editor that this process serves. It ends when the editor hangs up."""

    name = ACP
    account = MAIN_ACCOUNT
    capabilities = Capabilities(
        max_length=1_000_000,
        buttons=True,
        files=True,
        idempotent_send=True,
        bursts=False,
        attended=True,
        begins_by_message=False,
    )

    def __init__(self, table: Table, desk: Desk, talk: Callable[[], Awaitable[None]]) -> None:
        """`talk` hears the editor until it hangs up."""
        self._table = table
        self._desk = desk
        self._talk = talk

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Serves the editor until the end of its input."""
        self._desk.accept = accept
        ready.set()
        try:
            await self._talk()
        finally:
            self._desk.accept = None

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Tells the editor. Where the session is not open there any more, whoever opens it reads what counts."""
        refuse_undeclared(self.capabilities, message, to)
        self._table.arrived(to, message, key)
        return key

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing is edited here: what was told was told."""
        raise NotDeclared("what an editor was told is not edited")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """An editor shows by itself that its prompt is being answered."""
        raise NotDeclared("nobody is seen typing in an editor")

    async def close(self) -> None:
        """From now on nothing comes in."""
        self._desk.accept = None

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:  # noqa: ARG002 - one that goes on is the same
        """Passes it on."""
        conversation = self._table.find(to.chat_id)
        if conversation is not None:
            conversation.turn_began(turn_id)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Passes it on."""
        conversation = self._table.find(to.chat_id)
        if conversation is not None:
            conversation.turn_grew(growth)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """Passes it on."""
        conversation = self._table.find(to.chat_id)
        if conversation is not None:
            conversation.turn_ended(turn_id, ending)
