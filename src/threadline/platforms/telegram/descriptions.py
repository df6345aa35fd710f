"""What a group or a channel is about, by its description."""

from __future__ import annotations

import msgspec

from threadline.model.inbound import Inbound
from threadline.platforms.telegram.client import Client
from threadline.platforms.telegram.remembering import Remembered, Times

# Telegram does not tell when one changes. The first message of a chat waits a moment for it, and comes without where there is none.
_DESCRIPTION_TIMES = Times(patience=2.0, known=6 * 3_600.0, again=300.0, at_most=24 * 3_600.0)


class _Chat(msgspec.Struct, frozen=True):
    description: str | None = None


class Descriptions:
    """Tells what chats are about. Telegram is asked with the first message of a group or channel, then some times a day."""

    def __init__(self, client: Client, *, times: Times = _DESCRIPTION_TIMES) -> None:
        self._known = Remembered(client, "getChat", _read_description, unknown=None, times=times)

    async def told(self, event: Inbound) -> Inbound:
        """The event, with the description of its chat as its topic. In a topic of a forum it is the name of that."""
        source = event.source
        if source.chat_type not in ("group", "channel") or source.chat_id is None:
            return event
        if source.thread_id is not None or source.chat_topic is not None:
            return event
        topic = await self._known.of(source.chat_id)
        if topic is None:
            return event
        return msgspec.structs.replace(event, source=msgspec.structs.replace(source, chat_topic=topic))


def _read_description(answer: object) -> str | None:
    return msgspec.convert(answer, _Chat).description or None
