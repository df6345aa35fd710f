"""The command menu of Telegram's apps."""

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
_MAX_COMMANDS = 100
_PAUSE = 30.0


class CommandMenu:
    """Keeps the menu of the bot up to date. A failure affects nothing but the menu."""

    def __init__(self, platform: str, *, pause: float = _PAUSE) -> None:
        """`pause`: the seconds before a retry."""
        self._platform = platform
        self._pause = pause
        self._commands: tuple[OfferedCommand, ...] | None = None
        self._changed = asyncio.Event()

    def set_commands(self, commands: Sequence[OfferedCommand]) -> None:
        """Set the commands that the menu shows from now on. Names that Telegram refuses are left out."""
        self._commands = tuple(commands)
        self._changed.set()

    async def run(self, client: TelegramClient) -> None:
        """Update the menu now and whenever the commands change."""
        if self._commands is not None:
            self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._show(client)

    async def _show(self, client: TelegramClient) -> None:
        try:
            await client.call("setMyCommands", {"commands": shown_commands(self._commands or ())})
        except PlatformError as cause:
            log.warning("telegram.menu_not_set", platform=self._platform, reason=str(cause))
            # Setting the same menu twice is harmless.
            if isinstance(cause, Transient | Ambiguous):
                await asyncio.sleep(
                    max(self._pause, cause.retry_after) if isinstance(cause, RateLimited) else self._pause
                )
                self._changed.set()


def shown_commands(commands: Sequence[OfferedCommand]) -> list[dict[str, str]]:
    """Return the commands in the form of the Bot API, without invalid names, and with help texts of a valid length."""
    return [
        {
            "command": command.name,
            "description": repair_surrogates(command.help.strip() or command.name)[:_LONGEST_HELP],
        }
        for command in commands
        if _NAME.fullmatch(command.name)
    ][:_MAX_COMMANDS]
