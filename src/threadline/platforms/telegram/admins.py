"""Who runs a group, by Telegram's word."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from threadline.log import get_logger
from threadline.model.access import bare_command
from threadline.model.inbound import Inbound
from threadline.platforms.telegram.client import Client
from threadline.ports.platform import PlatformError

log = get_logger(__name__)

_KNOWN_SECONDS = 300.0
_CHATS_KEPT = 1_000
# A command does not wait longer than that; then nobody counts as an admin.
_ASKING_SECONDS = 5.0


class _Person(msgspec.Struct, frozen=True):
    id: int


class _Admin(msgspec.Struct, frozen=True):
    user: _Person


class Admins:
    """Tells who runs a group. Telegram is asked for commands alone, and once in five minutes for a group."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def named(self, event: Inbound) -> Inbound:
        """The event, with what Telegram says of its sender where that matters."""
        source = event.source
        if event.sender_is_admin or source.chat_type != "group" or event.kind != "message":
            return event
        if event.is_forward or source.chat_id is None or bare_command(event.text) is None:
            return event
        if source.user_id not in await self._of(source.chat_id):
            return event
        return msgspec.structs.replace(event, sender_is_admin=True)

    async def _of(self, chat: str) -> frozenset[str]:
        now = asyncio.get_running_loop().time()
        until, found = self._known.get(chat, (0.0, frozenset()))
        if now < until:
            return found
        try:
            async with asyncio.timeout(_ASKING_SECONDS):
                answer = await self._client.call("getChatAdministrators", {"chat_id": int(chat)})
            found = frozenset(str(one.user.id) for one in msgspec.convert(answer, list[_Admin]))
        except (PlatformError, TimeoutError, msgspec.ValidationError) as cause:
            log.info("telegram.admins_unknown", reason=str(cause))
            found = frozenset()
        self._known[chat] = (now + _KNOWN_SECONDS, found)
        self._known.move_to_end(chat)
        while len(self._known) > _CHATS_KEPT:
            self._known.popitem(last=False)
        return found
