"""What a session that is open in an editor needs of the gateway behind it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from threadline.acp.contents import Enclosed
from threadline.errors import UnknownFile
from threadline.gateway.gateway import Gateway
from threadline.model.client_sources import ACP
from threadline.model.inbound import Attachment, Inbound, stored_id
from threadline.model.ownership import file_owner_of
from threadline.model.source import MAIN_ACCOUNT, SessionSource
from threadline.ports.agent import Agent
from threadline.ports.platform import Accept, Transient, Verdict
from threadline.store.facade import GatewayStore
from threadline.store.work.change_feed import ConversationSnapshot


async def _at_once() -> None:
    return


class Desk:
    """The gateway and its store, from where an editor sits. It is made before the gateway, and works once it has that."""

    def __init__(self, store: GatewayStore, *, prepared: Callable[[], Awaitable[None]] = _at_once) -> None:
        """`prepared` returns when agents can be asked for without keeping everybody waiting."""
        self.store = store
        self.prepared = prepared
        self.accept: Accept | None = None
        self._gateway: Gateway | None = None

    def open(self, gateway: Gateway) -> None:
        """From now on this gateway answers."""
        self._gateway = gateway

    async def agent_at(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there, by name."""
        await self.prepared()
        return self._running().agent_at(source)

    async def say(self, event: Inbound) -> Verdict:
        """Lets somebody's words in by the gateway's one door. `Transient` while it is closed.

        `ConversationBusy`: something else goes on there. `UnknownSession`: there is no such conversation. Then nothing was taken.
        """
        await self.prepared()
        while self._running().outbox.platform_of(ACP, MAIN_ACCOUNT) is None:  # noqa: ASYNC110 - a moment at the start
            await asyncio.sleep(0.005)
        if self.accept is None:
            raise Transient("the gateway takes no messages any more")
        return await self.accept(event)

    async def bring(self, source: SessionSource) -> None:
        """A conversation that another agent has answered meanwhile goes on here. `UnknownSession`: there is none."""
        await self.store.editor_sessions.find(source, agent=self._running().agent_at(source)[0])

    async def is_pending(self, source: SessionSource) -> bool:
        """Whether anything there waits, runs or is to be told."""
        return await self.store.outbox.has_pending_at(source, agent=self._running().agent_at(source)[0])

    async def stop(self, source: SessionSource) -> bool:
        """Ends the turn that runs or waits there, without a word; whether there was one."""
        return await self._running().stop_in(source)

    async def look(self, source: SessionSource, *, limit: int = 1) -> ConversationSnapshot | None:
        """Where the conversation stands."""
        await self.prepared()
        return await self.store.change_feed.snapshot(source, agent=self._running().agent_at(source)[0], limit=limit)

    async def keep(self, source: SessionSource, file: Enclosed) -> Attachment:
        """Stores a file that comes with a message."""
        kept = await self.store.keep_file(file_owner_of(source), file.body, name=file.name, mime=file.mime)
        return kept.attachment()

    async def fetch(self, file: Attachment) -> bytes | None:
        """What is in a stored file; `None` where it is gone."""
        try:
            return await self.store.files.read_body(stored_id(file.handle) or "")
        except UnknownFile:
            return None

    def _running(self) -> Gateway:
        if self._gateway is None:
            raise Transient("the gateway does not run yet")
        return self._gateway


def new_id() -> str:
    """What tells one message of an editor from all others."""
    return os.urandom(12).hex()
