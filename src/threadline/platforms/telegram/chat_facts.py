"""Who runs a group, by Telegram's word."""

from __future__ import annotations

import msgspec

from threadline.model.access import command_name
from threadline.model.inbound import Inbound
from threadline.platforms.telegram.cache import CacheTimes, TtlCache
from threadline.platforms.telegram.client import TelegramClient

# A command does not wait longer than that. Who was an admin stays one for an hour where Telegram does not say so any more.
_ADMIN_TIMES = CacheTimes(timeout=5.0, ttl=300.0, retry_after=10.0, at_most=3_600.0)


class _Person(msgspec.Struct, frozen=True):
    id: int


class _Admin(msgspec.Struct, frozen=True):
    user: _Person


class Admins:
    """Tells who runs a group. Telegram is asked for commands alone, and once in five minutes for a group."""

    def __init__(self, client: TelegramClient, *, times: CacheTimes = _ADMIN_TIMES) -> None:
        nobody: frozenset[str] = frozenset()
        self._known = TtlCache(client, "getChatAdministrators", _read_admins, unknown=nobody, times=times)

    async def with_admin_flag(self, event: Inbound) -> Inbound:
        """The event, with what Telegram says of its sender where that matters."""
        source = event.source
        if event.sender_is_admin or source.chat_type != "group" or event.kind != "message":
            return event
        if event.is_forward or source.chat_id is None or command_name(event.text) is None:
            return event
        if source.user_id not in await self._known.of(source.chat_id):
            return event
        return msgspec.structs.replace(event, sender_is_admin=True)


def _read_admins(answer: object) -> frozenset[str]:
    return frozenset(str(one.user.id) for one in msgspec.convert(answer, list[_Admin]))


# Telegram does not tell when one changes. The first message of a chat waits a moment for it, and comes without where there is none.
_DESCRIPTION_TIMES = CacheTimes(timeout=2.0, ttl=6 * 3_600.0, retry_after=300.0, at_most=24 * 3_600.0)


class _Chat(msgspec.Struct, frozen=True):
    description: str | None = None


class Descriptions:
    """Tells what chats are about. Telegram is asked with the first message of a group or channel, then some times a day."""

    def __init__(self, client: TelegramClient, *, times: CacheTimes = _DESCRIPTION_TIMES) -> None:
        self._known = TtlCache(client, "getChat", _read_description, unknown=None, times=times)

    async def with_description(self, event: Inbound) -> Inbound:
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
