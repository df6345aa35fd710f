"""The commands in the menu of Telegram's apps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from threadline.log import get_logger
from threadline.platforms.telegram.client import TelegramClient
from threadline.platforms.telegram.markup import repair_surrogates
from threadline.ports.platform import Ambiguous, OfferedCommand, PlatformError, RateLimited, Transient

log = get_logger(__name__)

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_LONGEST_HELP = 256
_MOST = 100
_PAUSE = 30.0


class CommandMenu:
    """Brings the menu to what is offered. Whatever goes wrong costs the menu alone."""

    def __init__(self, platform: str, *, pause: float = _PAUSE) -> None:
        """`pause`: the seconds before another attempt."""
        self._platform = platform
        self._pause = pause
        self._offered: tuple[OfferedCommand, ...] | None = None
        self._changed = asyncio.Event()

    def set_commands(self, commands: Sequence[OfferedCommand]) -> None:
        """From now on the menu shows these. Names that Telegram does not take are left out."""
        self._offered = tuple(commands)
        self._changed.set()

    async def run(self, client: TelegramClient) -> None:
        """Shows what is offered, now and whenever it changes."""
        if self._offered is not None:
            self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._show(client)

    async def _show(self, client: TelegramClient) -> None:
        try:
            await client.call("setMyCommands", {"commands": shown_commands(self._offered or ())})
        except PlatformError as cause:
            log.warning("telegram.menu_not_set", platform=self._platform, reason=str(cause))
            # To show the same twice does no harm.
            if isinstance(cause, Transient | Ambiguous):
                await asyncio.sleep(
                    max(self._pause, cause.retry_after) if isinstance(cause, RateLimited) else self._pause
                )
                self._changed.set()


def shown_commands(commands: Sequence[OfferedCommand]) -> list[dict[str, str]]:
    """The commands as Telegram takes them: some names it does not know, and no help is empty or long."""
    return [
        {"command": one.name, "description": repair_surrogates(one.help.strip() or one.name)[:_LONGEST_HELP]}
        for one in commands
        if _NAME.fullmatch(one.name)
    ][:_MOST]
