"""The web page as a platform: admits what its users write and press, and shows them what is stored.

Nothing is sent anywhere. A message is shown once its row is stored, so the row is its receipt; the subscribers of the
conversation are notified that there is something to read.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

import msgspec

from threadline.clock import Clock, SystemClock
from threadline.model.client_sources import WEB, web_chat_id, web_source
from threadline.model.delivery import Target
from threadline.model.inbound import Attachment, Inbound
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.live import Ending, Growth, ShowsTurns
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, Transient, Verdict, refuse_undeclared

_NOT_RUNNING = "the gateway takes no messages just now; try again in a moment"


class InboundObserver(ShowsTurns, Protocol):
    """Shows the turns of the page's conversations, and is notified when something was stored that they show."""

    def arrived(self, to: Target) -> None:
        """Something was stored that the chat shows: a notice, an answer, a question."""
        ...


class WebUser(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated user of the page. `user_id` is made by Threadline; it is never text that a stranger sent."""

    user_id: str
    name: str


class WebMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the user wrote it. The same `message_id` again in a conversation is the same message."""

    message_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()


class WebPlatform:
    """The page as a platform: a `Platform` that takes in what its users write and press, and shows turns as they happen."""

    name = WEB
    account = MAIN_ACCOUNT
    capabilities = Capabilities(max_length=1_000_000, buttons=True, files=True, idempotent_send=True, bursts=False)

    def __init__(self, observer: InboundObserver, *, clock: Clock | None = None) -> None:
        self._observer = observer
        self._clock = clock or SystemClock()
        self._accept: Accept | None = None

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Admit messages until cancelled."""
        self._accept = accept
        ready.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._accept = None

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Notify the observer. Return the key: the id is the row's own, because the page shows what is stored."""
        refuse_undeclared(self.capabilities, message, to)
        self._observer.arrived(to)
        return key

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing is edited here: a page shows what is stored."""
        raise NotDeclared("messages on the web page are not edited")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing shows it here: whoever looks sees the turn itself."""
        raise NotDeclared("nobody is seen typing on the web page")

    async def close(self) -> None:
        """Stop admitting messages."""
        self._accept = None

    async def send_message(self, user: WebUser, conversation: str, message: WebMessage) -> Verdict:
        """Admit a message. Raise `Transient` while the gateway does not run."""
        event = message_event(user, conversation, message, at=self._clock.now())
        return await self._require_accept()(event)

    async def press_button(self, user: WebUser, conversation: str, press_id: str, value: str) -> Verdict:
        """Admit the press of a button. Raise `Transient` while the gateway does not run."""
        event = button_event(user, conversation, press_id, value, at=self._clock.now())
        return await self._require_accept()(event)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        """Passes it on."""
        self._observer.turn_began(to, turn_id, attempt)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Passes it on."""
        self._observer.turn_grew(to, growth)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """Passes it on."""
        self._observer.turn_ended(to, turn_id, ending)

    def _require_accept(self) -> Accept:
        if self._accept is None:
            raise Transient(_NOT_RUNNING)
        return self._accept


def message_event(user: WebUser, conversation: str, message: WebMessage, *, at: datetime) -> Inbound:
    """Return the inbound event of a message."""
    return Inbound(
        # With its chat: ids are made by pages, and two may make the same.
        dedupe_key=f"{web_chat_id(user.user_id, conversation)}/{message.message_id}",
        message_id=message.message_id,
        source=web_source(user.user_id, conversation, user.name),
        sent_at=at,
        text=message.text,
        mentions_us=True,
        attachments=message.attachments,
    )


def button_event(user: WebUser, conversation: str, press_id: str, value: str, *, at: datetime) -> Inbound:
    """Return the inbound event of a pressed button."""
    return Inbound(
        dedupe_key=f"{web_chat_id(user.user_id, conversation)}/press/{press_id}",
        message_id=press_id,
        source=web_source(user.user_id, conversation, user.name),
        sent_at=at,
        kind="button",
        mentions_us=True,
        button=value,
    )
