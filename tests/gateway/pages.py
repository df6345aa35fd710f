"""A gateway with its web page in the test's own process, and the tabs that people have open there."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.gateway.talk import eventually
from tests.gateway.world import settings_for

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.model.access import Role
from threadline.model.client_sources import web_source, web_target
from threadline.model.turn import Replay
from threadline.ports.agent import Agent, Event, Text, Turn
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import OWNER
from threadline.web.guard import SiteNames
from threadline.web.platform import WebMessage, WebUser
from threadline.web.subscribers import Subscriber
from threadline.web.token import TokenFile
from threadline.webpage import WebPage

PORT = 8765
BASE = f"http://127.0.0.1:{PORT}"
GUEST = "u0123456789ab"
RULES = AccessRules(owners=frozenset({OWNER}), guests=frozenset({f"web:{GUEST}"}))
CONVERSATION = "conversation-1"


class Tab:
    """A tab that listens: the events that it was told, in order."""

    def __init__(self, reader: Subscriber) -> None:
        self.reader = reader
        self.events: list[tuple[str, Any]] = []
        self.last_id: str | None = None
        self._unread: list[tuple[str, Any]] = []

    async def next(self, *wanted: str) -> Any:
        """What the next event says; with names, the next of one of them. Those before it are passed over."""
        while True:
            while not self._unread:
                await self._read()
            event, value = self._unread.pop(0)
            if not wanted or event in wanted:
                return value

    async def _read(self) -> None:
        told = await self.reader.receive()
        assert told is not None, "the stream has ended"
        for part in told.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in part.split("\n") if ": " in line)
            if "data" in fields:
                self.last_id = fields.get("id", self.last_id)
                self.events.append((fields["event"], json.loads(fields["data"])))
                self._unread.append(self.events[-1])


class Paged:
    """A gateway that runs, its page, and the owner before it."""

    def __init__(self, gateway: Gateway, store: GatewayStore, page: WebPage, app: Any, token: str) -> None:
        self.gateway = gateway
        self.store = store
        self.page = page
        self.hub = page.hub
        self.app = app
        self.token = token
        self.target = web_target("owner", CONVERSATION)

    @property
    def client(self) -> httpx.AsyncClient:
        """A program of the owner's."""
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url=BASE,
            headers={"Authorization": f"Bearer {self.token}"},
        )

    async def say(self, text: str, *, key: str, user: str = "owner", conversation: str = CONVERSATION) -> str:
        """Somebody says something there."""
        verdict = await self.page.platform.send_message(
            WebUser(user_id=user, name=user.title()), conversation, WebMessage(message_id=key, text=text)
        )
        self.hub.changed(user, conversation)
        return verdict

    async def open(
        self,
        *,
        user: str = "owner",
        role: Role = "owner",
        conversation: str | None = CONVERSATION,
        last_id: str | None = None,
    ) -> Tab:
        """A tab that follows a conversation."""
        reader = await self.hub.subscribe(user, role, conversation, last_id)
        assert reader is not None
        return Tab(reader)

    async def answered(self) -> None:
        """Returns when everything is answered and delivered."""
        await self.gateway.settled("web")

    async def transcript(self, conversation: str = CONVERSATION) -> list[tuple[str, str]]:
        """Role and text of what the owner's conversation shows."""
        seen = await self.store.change_feed.snapshot(web_source("owner", conversation))
        assert seen is not None
        return [(one.role, str(one.message["content"])) for one in seen.messages]


class Talker:
    """An agent that says what it is given, when it is given it; `None` ends the turn."""

    def __init__(self, replay: Replay = "until_tool") -> None:
        self.replay: Replay = replay
        self.said: asyncio.Queue[Event | None] = asyncio.Queue()

    def says(self, *said: str | Event | None) -> None:
        """Lets it say this."""
        for part in said:
            self.said.put_nowait(Text(part) if isinstance(part, str) else part)

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """What it is given."""
        while (event := await self.said.get()) is not None:
            yield event


@asynccontextmanager
async def paged(location: str, agent: Agent, *, poll_seconds: float = 2.0, **settings: Any) -> AsyncIterator[Paged]:
    """A gateway on the database at `location` that serves nothing but its page."""
    with tempfile.TemporaryDirectory() as folder:
        async with await GatewayStore.open(location) as store, WebPage(store, poll_seconds=poll_seconds) as page:
            gateway = Gateway(store, settings_for(agent, **settings), RULES, [page.platform])
            await gateway.start(alone=True)
            token = TokenFile(Path(folder) / "token")
            app = page.application(gateway, token, SiteNames.of("127.0.0.1", PORT))
            try:
                await eventually(lambda: _is_ready(gateway))
                yield Paged(gateway, store, page, app, token.current())
            finally:
                await gateway.stop()


async def _is_ready(gateway: Gateway) -> bool:
    return not await gateway.not_ready()
