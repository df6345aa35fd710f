"""A bot as Telegram keeps it: what it was told and has not confirmed yet, and which updates it wants at all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from threadline.testing.telegram_values import Chat, Happened, Json, Person

UPDATE_KINDS = frozenset(
    [
        *("message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "inline_query"),
        *("chosen_inline_result", "shipping_query", "pre_checkout_query", "poll", "poll_answer", "my_chat_member"),
        *("chat_member", "chat_join_request", "message_reaction", "message_reaction_count", "chat_boost"),
        *("removed_chat_boost", "business_connection", "business_message", "edited_business_message"),
        *("deleted_business_messages", "purchased_paid_media"),
    ]
)
# These are told only to who asks for them by name.
_ASKED_FOR = frozenset(["chat_member", "message_reaction", "message_reaction_count"])
_SERVICES = frozenset(["migrate_to_chat_id", "migrate_from_chat_id", "forum_topic_created"])
_FIRST_UPDATE = 800_000_001


class Bot:
    """One account. `queue` are the updates that it has not confirmed, oldest first."""

    def __init__(self, person: Person, reads_everything: bool) -> None:
        self.person = person
        self.reads_everything = reads_everything
        self.token = f"{person.id}:AA-not-a-secret-{person.id}"
        self.queue: list[Happened] = []
        self.confirmed: list[Happened] = []
        self.webhook = ""
        self.commands: dict[str, list[Json]] = {}
        # The presses of buttons that it has not answered.
        self.queries: set[str] = set()
        self.poll: asyncio.Future[None] | None = None
        self._wanted: Collection[str] = UPDATE_KINDS - _ASKED_FOR
        self._next = _FIRST_UPDATE

    @property
    def id(self) -> int:
        return self.person.id

    def is_meant(self, chat: Chat, message: Json) -> bool:
        """Whether it is told of a message: in groups only of some, unless it reads everything."""
        if self.reads_everything or chat.type in ("private", "channel"):
            return True
        text = str(message.get("text", message.get("caption", "")))
        answered = message.get("reply_to_message", {}).get("from", {}).get("id")
        is_named = text.startswith("/") or f"@{self.person.username}" in text
        return is_named or answered == self.id or not _SERVICES.isdisjoint(message)

    def want(self, kinds: Collection[str]) -> None:
        """From now on it is told of these; with none, of what is usual."""
        self._wanted = kinds or UPDATE_KINDS - _ASKED_FOR

    def tell(self, update: Json | bytes, *, chat: int, message_id: int, kind: str | None = None) -> Happened:
        """Puts an update at the end of the queue; its `update_id` is 0 if the bot does not want such ones."""
        if kind is not None and kind not in self._wanted:
            return Happened(update_id=0, chat=chat, message_id=message_id, body=b"{}")
        number, body = self._next, update
        if not isinstance(body, bytes):
            number = int(body.get("update_id", number))
            body = msgspec.json.encode({"update_id": number} | body)
        happened = Happened(update_id=number, chat=chat, message_id=message_id, body=body)
        self._next = max(self._next, number) + 1
        self.queue.append(happened)
        self.wake()
        return happened

    def wake(self) -> None:
        """Whoever waits for an update looks again."""
        if self.poll is not None and not self.poll.done():
            self.poll.set_result(None)

    def confirm(self, offset: int) -> None:
        """Forgets what comes before `offset`; counted from the end where it is negative."""
        if offset < 0:
            kept = len(self.queue) + offset
            self.confirmed += self.queue[: max(kept, 0)]
            self.queue = self.queue[max(kept, 0) :]
        elif offset > 0:
            self.confirmed += [told for told in self.queue if told.update_id < offset]
            self.queue = [told for told in self.queue if told.update_id >= offset]

    def updates(self, limit: int) -> list[msgspec.Raw]:
        """The oldest ones that are not confirmed."""
        return [msgspec.Raw(told.body) for told in self.queue[:limit]]
