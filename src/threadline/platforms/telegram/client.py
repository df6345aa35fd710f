"""The only module that uses python-telegram-bot and aiohttp: calls, long polls, downloads and their connections."""

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

# An upload may take so many times longer than a text until its response.
_UPLOAD_TIMES: Final = 6
# The response to a long poll may come so much later than requested.
_LATE_SECONDS: Final = 15.0

# Methods that show something new in a chat, and so count towards the rate limits of Telegram.
_LIMITED: Final = ("sendMessage", "sendPhoto", "sendVoice", "sendDocument", "sendMediaGroup", "editMessage")


class _Limiter(AIORateLimiter):
    """Limits only methods that show something new: a typing indicator must not delay a message."""

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
    """Calls any method and returns the raw response: building the library's objects costs more than the call."""

    __slots__ = ()

    async def call(self, method: str, parameters: dict[str, Any], *, read_timeout: float | None) -> Any:
        timeout = BaseRequest.DEFAULT_NONE if read_timeout is None else read_timeout
        return await self._do_post(method, parameters, read_timeout=timeout)


class TelegramClient:
    """One bot's connections to Telegram. Raises the errors of the port; no error and no log line contains the token."""

    def __init__(
        self, token: str, base_url: str, *, limits: bool = True, proxy: str | None = None, patience: float = 20.0
    ) -> None:
        """`limits`: keep the rate limits of Telegram. `patience`: the seconds that a response may take."""
        # Below this level the library logs whole messages.
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
        """Return the result of a method. Raises `Transient` if the call did not arrive, `Ambiguous` if that is unknown."""
        encoded = {name: _encoded(value) for name, value in parameters.items()}
        has_files = any(isinstance(value, InputFile) for value in encoded.values())
        return await self._call(method, encoded, self._upload_seconds if has_files else None)

    async def updates(self, parameters: Mapping[str, object], *, wait: int) -> list[bytes]:
        """Return the pending updates, undecoded, after `wait` seconds at most."""
        request = {"timeout": wait, **parameters}
        updates: list[bytes] = await self._call("getUpdates", request, wait + _LATE_SECONDS)
        return updates

    async def download(self, path: str, *, at_most: int) -> bytes:
        """Return the content of a file that Telegram has prepared; raise `TooLong` for more than `at_most` bytes."""
        return await self._wire.download(f"{self._files_at}/{path}", at_most)

    async def close(self, seconds: float) -> None:
        """Close the connections. Calls in flight get so many seconds; no other call is sent."""
        await self._wire.close(seconds)
        await self._polling.close(0)

    async def _call(self, method: str, parameters: dict[str, Any], read_timeout: float | None) -> Any:
        try:
            return await self._bot.call(method, parameters, read_timeout=read_timeout)
        except RequestRefused as refused:
            raise refused.error from None
        except TelegramError as cause:
            # Its text may contain a URL, and the URL the token.
            raise Ambiguous(f"the connection to Telegram broke: {type(cause).__name__}") from None


def _encoded(value: object) -> object:
    if isinstance(value, OutgoingFile):
        return InputFile(value.body, filename=value.name)
    return value


# Many chats at once; each waits for its own response.
_CONNECTIONS: Final = 256
_CONNECT_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 120.0
_CHUNK: Final = 65_536
# A whole request may take so many times the patience for a response. The read timeout starts only after the request was sent,
# and a request that the other end does not read would never be.
_TIMES_IN_ALL: Final = 5

# After these errors it is certain that no request was sent.
_NOT_SENT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


class RequestRefused(TelegramError):
    """Carries an error of the port through the library."""

    def __init__(self, error: PlatformError) -> None:
        super().__init__("refused")
        self.error = error


class Transport(BaseRequest):
    """Connections to Telegram: kept open, counted, and closed after the calls in flight. No error contains a URL.

    The library's own transport scans all of its connections for every request; with many chats that costs more than all else.
    """

    __slots__ = ("_idle", "_in_flight", "_is_closing", "_patience", "_proxy", "_session")

    def __init__(self, *, patience: float, proxy: str | None) -> None:
        """`patience`: the seconds that a response may take, unless a call says otherwise."""
        self._patience = patience
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._in_flight = 0
        self._is_closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def read_timeout(self) -> float:
        """The seconds that a response may take."""
        return self._patience

    async def initialize(self) -> None:
        """Do nothing: connections are opened when they are needed."""

    async def shutdown(self) -> None:
        """Close the connections."""
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
        """Return status and body of a response; raise `RequestRefused` for an error response or none."""
        if self._is_closing:
            # The rate limiter held the request back until after `close`.
            raise RequestRefused(Transient("the platform is being closed"))
        seconds = self._patience if read_timeout is BaseRequest.DEFAULT_NONE else read_timeout
        self._in_flight += 1
        self._idle.clear()
        try:
            code, body = await self._request(url, method, request_data, seconds)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        if code >= 300:
            raise RequestRefused(parse_error(code, body))
        return code, body

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the decoded response."""
        try:
            return msgspec.json.decode(payload, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise RequestRefused(Ambiguous("Telegram's answer can't be read")) from cause

    async def download(self, url: str, at_most: int) -> bytes:
        """Return the content at a URL. Raises `Gone` if it does not exist, `TooLong` as soon as it exceeds `at_most` bytes."""
        if self._is_closing:
            raise Transient("the platform is being closed")
        try:
            async with self._connected().get(url, proxy=self._proxy, timeout=_timeout(_DOWNLOAD_SECONDS)) as response:
                if response.status == 429 or response.status >= 500:
                    raise Transient(f"Telegram does not give the file out just now (error {response.status})")
                if response.status >= 300:
                    raise Gone(f"Telegram no longer has the file (error {response.status})")
                return await _read_bounded(response, at_most)
        except (aiohttp.ClientError, TimeoutError, OSError) as cause:
            raise Transient(f"the file did not arrive: {type(cause).__name__}") from None

    async def close(self, seconds: float) -> None:
        """Close the connections. Requests in flight get so many seconds; no other request is sent."""
        self._is_closing = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            pass
        await self.shutdown()

    async def _request(self, url: str, method: str, data: RequestData | None, seconds: float) -> tuple[int, bytes]:
        try:
            async with self._connected().request(
                method, url, data=_body(data), proxy=self._proxy, timeout=_timeout(seconds), allow_redirects=False
            ) as response:
                return response.status, await response.read()
        except _NOT_SENT as cause:
            raise RequestRefused(Transient(f"Telegram can't be reached: {type(cause).__name__}")) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as cause:
            raise RequestRefused(Ambiguous(f"the connection to Telegram broke: {type(cause).__name__}")) from None

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Created here: a session belongs to the running event loop.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS))
        elif self._session.closed:
            raise NetworkError("closed")
        return self._session


class PollingTransport(Transport):
    """A connection for long polls. Updates stay undecoded: one that can't be read does not affect the others."""

    __slots__ = ()

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the updates of a response, undecoded."""
        try:
            return {"result": split_updates(payload)}
        except ValueError as cause:
            raise RequestRefused(Transient("Telegram's answer can't be read")) from cause


async def _read_bounded(response: aiohttp.ClientResponse, at_most: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > at_most:
            raise TooLong(f"the file is larger than {at_most:,} bytes")
    return bytes(body)


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=_TIMES_IN_ALL * seconds, sock_connect=_CONNECT_SECONDS, sock_read=seconds)


def _body(data: RequestData | None) -> aiohttp.FormData | aiohttp.BytesPayload | None:
    if data is None:
        return None
    if not data.contains_files:
        # A form costs several times as much.
        return aiohttp.BytesPayload(msgspec.json.encode(data.parameters), content_type="application/json")
    form = aiohttp.FormData()
    for name, value in data.json_parameters.items():
        form.add_field(name, value)
    for name, (filename, content, mime) in data.multipart_data.items():
        # Read in chunks: writing a large file at once would block the event loop.
        pieces = io.BytesIO(content) if isinstance(content, bytes) else content
        form.add_field(name, pieces, filename=filename, content_type=mime)
    return form


class _Response(msgspec.Struct, frozen=True):
    result: list[msgspec.Raw]


class _LooseResponse(msgspec.Struct, frozen=True):
    result: list[object]


_response = msgspec.json.Decoder(_Response)


def split_updates(response: bytes) -> list[bytes]:
    """Return the updates of a response, each as separate JSON; raise `ValueError` if it is no such response."""
    try:
        return [bytes(update) for update in _response.decode(response).result]
    except msgspec.DecodeError:
        # Half of a surrogate pair in one update must not lose the others.
        loose = msgspec.convert(json.loads(response), _LooseResponse)
        return [repair_surrogates(json.dumps(update, ensure_ascii=False)).encode() for update in loose.result]
