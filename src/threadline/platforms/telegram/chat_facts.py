"""Facts about chats that Telegram tells on request, cached: the admins of a group, and the description of a chat."""

from __future__ import annotations

import msgspec

from threadline.model.access import command_name
from threadline.model.inbound import Inbound
from threadline.platforms.telegram.cache import CacheTimes, TtlCache
from threadline.platforms.telegram.client import TelegramClient

# A command waits at most five seconds. Without a response, known admins stay admins for an hour.
_ADMIN_TIMES = CacheTimes(timeout=5.0, ttl=300.0, retry_after=10.0, at_most=3_600.0)


class _Person(msgspec.Struct, frozen=True):
    id: int


class _Admin(msgspec.Struct, frozen=True):
    user: _Person


class Admins:
    """Knows the admins of groups. Requests them only for commands, at most once in five minutes for each group."""

    def __init__(self, client: TelegramClient, *, times: CacheTimes = _ADMIN_TIMES) -> None:
        no_admins: frozenset[str] = frozenset()
        self._known = TtlCache(client, "getChatAdministrators", _read_admins, unknown=no_admins, times=times)

    async def with_admin_flag(self, event: Inbound) -> Inbound:
        """Return the event, with `sender_is_admin` set if it is a command of an admin."""
        source = event.source
        if event.sender_is_admin or source.chat_type != "group" or event.kind != "message":
            return event
        if event.is_forward or source.chat_id is None or command_name(event.text) is None:
            return event
        if source.user_id not in await self._known.of(source.chat_id):
            return event
        return msgspec.structs.replace(event, sender_is_admin=True)


def _read_admins(answer: object) -> frozenset[str]:
    return frozenset(str(admin.user.id) for admin in msgspec.convert(answer, list[_Admin]))


# Telegram does not report changes. The first message of a chat waits two seconds at most and then comes without.
_DESCRIPTION_TIMES = CacheTimes(timeout=2.0, ttl=6 * 3_600.0, retry_after=300.0, at_most=24 * 3_600.0)


class _Chat(msgspec.Struct, frozen=True):
    description: str | None = None


class Descriptions:
    """Knows the descriptions of chats. Requests one with the first message of a group or channel, then every six hours."""

    def __init__(self, client: TelegramClient, *, times: CacheTimes = _DESCRIPTION_TIMES) -> None:
        self._known = TtlCache(client, "getChat", _read_description, unknown=None, times=times)

    async def with_description(self, event: Inbound) -> Inbound:
        """Return the event with the description of its chat as `chat_topic`, except in a topic of a forum, which has a name."""
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
