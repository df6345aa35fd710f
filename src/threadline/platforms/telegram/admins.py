"""Who runs a group, by Telegram's word."""

from __future__ import annotations

import msgspec

from threadline.model.access import command_name
from threadline.model.inbound import Inbound
from threadline.platforms.telegram.client import Client
from threadline.platforms.telegram.remembering import Remembered, Times

# A command does not wait longer than that. Who was an admin stays one for an hour where Telegram does not say so any more.
_ADMIN_TIMES = Times(patience=5.0, known=300.0, again=10.0, at_most=3_600.0)


class _Person(msgspec.Struct, frozen=True):
    id: int


class _Admin(msgspec.Struct, frozen=True):
    user: _Person


class Admins:
    """Tells who runs a group. Telegram is asked for commands alone, and once in five minutes for a group."""

    def __init__(self, client: Client, *, times: Times = _ADMIN_TIMES) -> None:
        nobody: frozenset[str] = frozenset()
        self._known = Remembered(client, "getChatAdministrators", _read_admins, unknown=nobody, times=times)

    async def named(self, event: Inbound) -> Inbound:
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
