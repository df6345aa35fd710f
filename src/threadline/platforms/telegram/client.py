"""The only place that knows python-telegram-bot: calls, long polls and downloads, with its rate limiter in front."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from telegram import InputFile
from telegram.error import NetworkError, TelegramError
from telegram.ext import AIORateLimiter, ExtBot
from telegram.request import BaseRequest, RequestData

from threadline.platforms.telegram.errors import parse_error
from threadline.platforms.telegram.markup import repair_surrogates
from threadline.ports.platform import Ambiguous, Gone, OutgoingFile, PlatformError, TooLong, Transient

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


class TelegramClient:
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
        sent = {name: _encoded(value) for name, value in parameters.items()}
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
        except RequestRefused as refused:
            raise refused.meaning from None
        except TelegramError as cause:
            # Its text may hold an address, and that the key.
            raise Ambiguous(f"the connection to Telegram broke: {type(cause).__name__}") from None


def _encoded(value: object) -> object:
    if isinstance(value, OutgoingFile):
        return InputFile(value.body, filename=value.name)
    return value


# Many chats at once; each waits for its own answer.
_CONNECTIONS: Final = 256
_CONNECT_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 120.0
_CHUNK: Final = 65_536
# So many times the patience for an answer a whole request may take. An answer is waited for only once all of the request has left,
# and one that nobody takes in never would.
_TIMES_IN_ALL: Final = 5

# Of these it is certain that nothing has left.
_NOT_LEFT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


class RequestRefused(TelegramError):
    """Carries what an answer means through the library."""

    def __init__(self, meaning: PlatformError) -> None:
        super().__init__("refused")
        self.meaning = meaning


class Transport(BaseRequest):
    """Connections to Telegram. It counts what is on its way, so that closing can wait for it. No error of it holds an address."""

    __slots__ = ("_flying", "_is_closing", "_landed", "_patience", "_proxy", "_session")

    def __init__(self, *, patience: float, proxy: str | None) -> None:
        """`patience`: the seconds that an answer may take, unless a call says otherwise."""
        self._patience = patience
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._flying = 0
        self._is_closing = False
        self._landed = asyncio.Event()
        self._landed.set()

    @property
    def read_timeout(self) -> float:
        """The seconds that an answer may take."""
        return self._patience

    async def initialize(self) -> None:
        """Nothing: connections are made when they are needed."""

    async def shutdown(self) -> None:
        """Hangs up."""
        if self._session is not None:
            await self._session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        *_: Any,
        **__: Any,
    ) -> tuple[int, bytes]:
        """The answer to a request; `RequestRefused` where it says no, or where there was none."""
        if self._is_closing:
            # It waited for its turn meanwhile.
            raise RequestRefused(Transient("the platform is being closed"))
        seconds = self._patience if read_timeout is BaseRequest.DEFAULT_NONE else read_timeout
        self._flying += 1
        self._landed.clear()
        try:
            code, body = await self._answer(url, method, request_data, seconds)
        finally:
            self._flying -= 1
            if not self._flying:
                self._landed.set()
        if code >= 300:
            raise RequestRefused(parse_error(code, body))
        return code, body

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """What an answer says."""
        try:
            return msgspec.json.decode(payload, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise RequestRefused(Ambiguous("Telegram's answer can't be read")) from cause

    async def download(self, url: str, at_most: int) -> bytes:
        """What is at an address. `Gone` where there is nothing any more, `TooLong` as soon as it is more than so many bytes."""
        if self._is_closing:
            raise Transient("the platform is being closed")
        try:
            async with self._connected().get(url, proxy=self._proxy, timeout=_within(_DOWNLOAD_SECONDS)) as answer:
                if answer.status == 429 or answer.status >= 500:
                    raise Transient(f"Telegram does not give the file out just now (error {answer.status})")
                if answer.status >= 300:
                    raise Gone(f"Telegram no longer has the file (error {answer.status})")
                return await _read_some(answer, at_most)
        except (aiohttp.ClientError, TimeoutError, OSError) as cause:
            raise Transient(f"the file did not arrive: {type(cause).__name__}") from None

    async def close(self, seconds: float) -> None:
        """Nothing more leaves; what is on its way gets so many seconds."""
        self._is_closing = True
        try:
            async with asyncio.timeout(seconds):
                await self._landed.wait()
        except TimeoutError:
            pass
        await self.shutdown()

    async def _answer(self, url: str, method: str, asked: RequestData | None, seconds: float) -> tuple[int, bytes]:
        try:
            async with self._connected().request(
                method, url, data=_body(asked), proxy=self._proxy, timeout=_within(seconds), allow_redirects=False
            ) as answer:
                return answer.status, await answer.read()
        except _NOT_LEFT as cause:
            raise RequestRefused(Transient(f"Telegram can't be reached: {type(cause).__name__}")) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as cause:
            raise RequestRefused(Ambiguous(f"the connection to Telegram broke: {type(cause).__name__}")) from None

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Made here: it belongs to the loop that runs.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS))
        elif self._session.closed:
            raise NetworkError("closed")
        return self._session


class PollingTransport(Transport):
    """A connection for long polls. Updates stay as they came: one that can't be read harms no other."""

    __slots__ = ()

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """The updates in an answer."""
        try:
            return {"result": split_updates(payload)}
        except ValueError as cause:
            raise RequestRefused(Transient("Telegram's answer can't be read")) from cause


async def _read_some(answer: aiohttp.ClientResponse, at_most: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > at_most:
            raise TooLong(f"the file is larger than {at_most:,} bytes")
    return bytes(body)


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=_TIMES_IN_ALL * seconds, sock_connect=_CONNECT_SECONDS, sock_read=seconds)


def _body(asked: RequestData | None) -> aiohttp.FormData | aiohttp.BytesPayload | None:
    if asked is None:
        return None
    if not asked.contains_files:
        # A form costs several times as much.
        return aiohttp.BytesPayload(msgspec.json.encode(asked.parameters), content_type="application/json")
    form = aiohttp.FormData()
    for name, value in asked.json_parameters.items():
        form.add_field(name, value)
    for name, (filename, content, mime) in asked.multipart_data.items():
        # In pieces: a large file in one would hold everybody else up.
        pieces = io.BytesIO(content) if isinstance(content, bytes) else content
        form.add_field(name, pieces, filename=filename, content_type=mime)
    return form


class _Answer(msgspec.Struct, frozen=True):
    result: list[msgspec.Raw]


class _LooseResponse(msgspec.Struct, frozen=True):
    result: list[object]


_answer = msgspec.json.Decoder(_Answer)


def split_updates(answer: bytes) -> list[bytes]:
    """The updates in an answer, each as JSON of its own; `ValueError` for what is no such answer."""
    try:
        return [bytes(update) for update in _answer.decode(answer).result]
    except msgspec.DecodeError:
        # Half of a surrogate pair in one of them is no reason to lose the others.
        loose = msgspec.convert(json.loads(answer), _LooseResponse)
        return [repair_surrogates(json.dumps(update, ensure_ascii=False)).encode() for update in loose.result]
