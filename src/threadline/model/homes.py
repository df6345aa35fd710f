"""Home channels: which of those that were named is in force."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from threadline.model.context import HomeChannel
from threadline.model.source import ChatType


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """A home channel that an owner named in the chat itself; `person` is whose direct chat it is, `None` for any other."""

    channel: HomeChannel
    chat_type: ChatType
    person: str | None


def homes_in_force(configured: Iterable[HomeChannel], named: Iterable[Home]) -> tuple[HomeChannel, ...]:
    """All home channels. What was said in the chat goes before what the configuration says of the same account."""
    said = tuple(home.channel for home in named)
    replaced = {(channel.platform, channel.account) for channel in said}
    return (*(channel for channel in configured if (channel.platform, channel.account) not in replaced), *said)
