"""The web page: its people speak through a door of their own, and read what is stored.

Nothing is sent anywhere. A message of ours is shown once its row is there, so the row is its receipt; whoever looks at the
conversation is told that there is something to read.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from threadline.clock import Clock, SystemClock
from threadline.model.client_sources import WEB, web_chat_id, web_source
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.live import Ending, Growth, Onlooker, Said, Speaker
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, Transient, Verdict, refuse_undeclared

_NOT_RUNNING = "the gateway takes no messages just now; try again in a moment"


class WebPlatform:
    """The page as a platform: a `Platform`, the `Door` of its people, and one that shows turns as they happen."""

    name = WEB
    account = MAIN_ACCOUNT
    capabilities = Capabilities(max_length=1_000_000, buttons=True, files=True, idempotent_send=True, bursts=False)

    def __init__(self, onlooker: Onlooker, *, clock: Clock | None = None) -> None:
        self._onlooker = onlooker
        self._clock = clock or SystemClock()
        self._accept: Accept | None = None

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Lets people speak until it is cancelled."""
        self._accept = accept
        ready.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._accept = None

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Tells those who look at the conversation; the id is the row's own, for what is shown is stored."""
        refuse_undeclared(self.capabilities, message, to)
        self._onlooker.arrived(to)
        return key

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing is edited here: a page shows what is stored."""
        raise NotDeclared("messages on the web page are not edited")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing shows it here: whoever looks sees the turn itself."""
        raise NotDeclared("nobody is seen typing on the web page")

    async def close(self) -> None:
        """From now on nobody can speak."""
        self._accept = None

    async def say(self, who: Speaker, conversation: str, said: Said) -> Verdict:
        """Lets a message in. `Transient` while the gateway does not run."""
        event = spoken(who, conversation, said, at=self._clock.now())
        return await self._door()(event)

    async def press(self, who: Speaker, conversation: str, press_id: str, value: str) -> Verdict:
        """Lets the press of a button in. `Transient` while the gateway does not run."""
        event = pressed(who, conversation, press_id, value, at=self._clock.now())
        return await self._door()(event)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        """Passes it on."""
        self._onlooker.turn_began(to, turn_id, attempt)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Passes it on."""
        self._onlooker.turn_grew(to, growth)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """Passes it on."""
        self._onlooker.turn_ended(to, turn_id, ending)

    def _door(self) -> Accept:
        if self._accept is None:
            raise Transient(_NOT_RUNNING)
        return self._accept


def spoken(who: Speaker, conversation: str, said: Said, *, at: datetime) -> Inbound:
    """A message that somebody wrote."""
    return Inbound(
        # With its chat: ids are made by pages, and two may make the same.
        dedupe_key=f"{web_chat_id(who.user_id, conversation)}/{said.message_id}",
        message_id=said.message_id,
        source=web_source(who.user_id, conversation, who.name),
        sent_at=at,
        text=said.text,
        mentions_us=True,
        attachments=said.attachments,
    )


def pressed(who: Speaker, conversation: str, press_id: str, value: str, *, at: datetime) -> Inbound:
    """A button that somebody pressed."""
    return Inbound(
        dedupe_key=f"{web_chat_id(who.user_id, conversation)}/press/{press_id}",
        message_id=press_id,
        source=web_source(who.user_id, conversation, who.name),
        sent_at=at,
        kind="button",
        mentions_us=True,
        button=value,
    )
