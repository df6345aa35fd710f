"""Trying a bot out: who it is, and what its settings at @BotFather mean."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from threadline.platforms.telegram.client import Client
from threadline.ports.platform import Probed, Transient
from threadline.texts import platforms as texts


class _GetMe(msgspec.Struct, frozen=True):
    id: int
    username: str = ""
    can_join_groups: bool = True
    can_read_all_group_messages: bool = False


class _Hook(msgspec.Struct, frozen=True):
    # Where it is may be a secret of another program.
    url: str = ""
    pending_update_count: int = 0


async def probe_bot(client: Client) -> Probed:
    """Who we are, and what is worth knowing about it."""
    try:
        me = msgspec.convert(await client.call("getMe", {}), _GetMe)
        hook = msgspec.convert(await client.call("getWebhookInfo", {}), _Hook)
    except msgspec.ValidationError as cause:
        raise Transient(f"Telegram does not say who we are: {cause}") from cause
    return Probed(f"@{me.username} (id {me.id})", tuple(_remarks(me, hook)))


def _remarks(me: _GetMe, hook: _Hook) -> Iterator[str]:
    if not me.can_join_groups:
        yield texts.TELEGRAM_NO_GROUPS
    elif me.can_read_all_group_messages:
        yield texts.TELEGRAM_HEARS_ALL
    else:
        yield texts.TELEGRAM_PRIVATE
    if hook.url:
        yield texts.TELEGRAM_HOOKED
    if hook.pending_update_count:
        yield texts.TELEGRAM_WAITING.format(count=hook.pending_update_count)
