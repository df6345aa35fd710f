"""The Telegram of a gateway that is killed: the platform itself, which passes crash points."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from tests.system import gateway_child

from threadline.model.inbound import Attachment
from threadline.platforms.registry import PlatformSetup
from threadline.platforms.telegram import TelegramPlatform, make_telegram
from threadline.ports.platform import Capabilities, OfferedCommand
from threadline.testing.crashing import CrashingPlatform, Trigger

# So that a test need not wait for seconds until an answer has grown.
_EDIT_INTERVAL = 0.05


class CrashingTelegram(CrashingPlatform):
    """All that `TelegramPlatform` is, with crash points on the way."""

    def __init__(self, telegram: TelegramPlatform, trigger: Trigger) -> None:
        super().__init__(telegram, trigger)
        self._telegram = telegram

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(self._telegram.capabilities, edit_interval=_EDIT_INTERVAL)

    @property
    def listens_as(self) -> str:
        return self._telegram.listens_as

    async def open(self) -> None:
        await self._telegram.open()

    def offer(self, commands: Sequence[OfferedCommand]) -> None:
        self._telegram.offer(commands)

    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        return await self._telegram.fetch(attachment, at_most=at_most)


def make_crashing_telegram(settings: PlatformSetup) -> CrashingTelegram:
    """The platform kind `crashing-telegram`."""
    return CrashingTelegram(make_telegram(settings), gateway_child.expected[0])
