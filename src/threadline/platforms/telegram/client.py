"""The only place that knows python-telegram-bot: calls, long polls and downloads, with its rate limiter in front."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from telegram import InputFile
from telegram.error import TelegramError
from telegram.ext import AIORateLimiter, ExtBot
from telegram.request import BaseRequest

from threadline.platforms.telegram.transport import PollingTransport, Refused, Transport
from threadline.ports.platform import Ambiguous, OutgoingFile

# A file takes so much longer than words until it is answered.
_UPLOAD_TIMES: Final = 6
# The answer to a long poll may come so much later than asked for.
_LATE_SECONDS: Final = 15.0

# What shows something new in a chat, and so counts for the limits of Telegram.
_LIMITED: Final = ("sendMessage", "sendPhoto", "sendVoice", "sendDocument", "sendMediaGroup", "editMessage")


class _Limiter(AIORateLimiter):
    """Lets through at once what shows nothing new: a hint that somebody types must not cost a message its turn."""

    async def process_request(
        self,
        callback: Callable[..., Coroutine[Any, Any, Any]],
        args: Any,
        kwargs: dict[str, Any],
        endpoint: str,
        data: dict[str, Any],
        rate_limit_args: int | None,
    ) -> Any:
        if not endpoint.startswith(_LIMITED):
            return await callback(*args, **kwargs)
        return await super().process_request(callback, args, kwargs, endpoint, data, rate_limit_args)


class _Bot(ExtBot[int]):
    """Calls any method and gives its answer as it came: objects that nobody looks at cost more than the call."""

    __slots__ = ()

    async def call(self, method: str, parameters: dict[str, Any], *, read_timeout: float | None) -> Any:
        waits = BaseRequest.DEFAULT_NONE if read_timeout is None else read_timeout
        return await self._do_post(method, parameters, read_timeout=waits)


class Client:
    """One bot's connections to Telegram. Errors are the port's; none of them, and no line in a log, holds the key."""

    def __init__(
        self, token: str, base_url: str, *, limits: bool = True, proxy: str | None = None, patience: float = 20.0
    ) -> None:
        """`limits`: no more is sent than Telegram takes. `patience`: the seconds that an answer may take."""
        # Below that it writes whole messages.
        logging.getLogger("telegram").setLevel(logging.WARNING)
        self._upload_seconds = _UPLOAD_TIMES * patience
        self._wire = Transport(patience=patience, proxy=proxy)
        self._polling = PollingTransport(patience=patience, proxy=proxy)
        self._files_at = f"{base_url}/file/bot{token}"
        self._bot = _Bot(
            token,
            base_url=f"{base_url}/bot",
            base_file_url=f"{base_url}/file/bot",
            request=self._wire,
            get_updates_request=self._polling,
            rate_limiter=_Limiter(max_retries=0) if limits else None,
        )

    async def call(self, method: str, parameters: Mapping[str, object]) -> Any:
        """What Telegram answers. `Transient` if the call has surely not arrived, `Ambiguous` if nobody knows."""
        sent = {name: _sent(value) for name, value in parameters.items()}
        has_files = any(isinstance(value, InputFile) for value in sent.values())
        return await self._call(method, sent, self._upload_seconds if has_files else None)

    async def updates(self, parameters: Mapping[str, object], *, wait: int) -> list[bytes]:
        """The updates that wait, as they came, after `wait` seconds at most."""
        asked = {"timeout": wait, **parameters}
        found: list[bytes] = await self._call("getUpdates", asked, wait + _LATE_SECONDS)
        return found

    async def download(self, path: str, *, at_most: int) -> bytes:
        """What is in a file that Telegram has prepared; `TooLong` where it is more than so many bytes."""
        return await self._wire.download(f"{self._files_at}/{path}", at_most)

    async def close(self, seconds: float) -> None:
        """Calls in flight get so many seconds; nothing more leaves."""
        await self._wire.close(seconds)
        await self._polling.close(0)

    async def _call(self, method: str, parameters: dict[str, Any], read_timeout: float | None) -> Any:
        try:
            return await self._bot.call(method, parameters, read_timeout=read_timeout)
        except Refused as refused:
            raise refused.meaning from None
        except TelegramError as cause:
            # Its text may hold an address, and that the key.
            raise Ambiguous(f"the connection to Telegram broke: {type(cause).__name__}") from None


def _sent(value: object) -> object:
    if isinstance(value, OutgoingFile):
        return InputFile(value.body, filename=value.name)
    return value
