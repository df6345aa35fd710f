"""Check every request before the application sees it, and add security headers to every response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadline.config.settings import WebSettings
from threadline.texts.web import CROSS_SITE, FOREIGN_ORIGIN, NOT_JSON, TOO_LARGE, WRONG_HOST

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_USUAL_PORTS = {"http": 80, "https": 443}

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# The most that a body may hold where nothing else is said, in bytes.
MAX_BODY = 1_048_576
# How much of a refused body is still taken off the wire and dropped, and for how long it is waited for.
HEARD_OUT = 32 * 1_048_576
_HEARD_SECONDS = 5.0
_SILENT_SECONDS = 1.0

_EVENTS = "/api/events"
# Behind these is something of somebody's.
_PRIVATE = ("/api/", "/metrics")
_READING = ("GET", "HEAD")
# A request of our own page, or one that no page made: typed, or from a bookmark. `same-site` is none of these: cookies know
# no ports, so any other program's page on this machine is of the same site.
_OWN_FETCH = ("same-origin", "none")
_CLOSE = {"Connection": "close"}


class ClientAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The true sender of a request, and the names under which it addressed this server."""

    peer: str
    scheme: str
    # Every name that the request gives us; all of them must be ours.
    hosts: tuple[str, ...]

    @property
    def origin(self) -> str:
        """Return the origin of this server as the browser of the sender writes it."""
        return origin_of(self.scheme, self.hosts[-1]) if self.hosts else ""


class SiteNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of this server, and the proxies whose forwarded headers count."""

    hosts: frozenset[str]
    public_origin: str | None = None
    proxies: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, host: str, port: int, web: WebSettings = WebSettings()) -> SiteNames:  # noqa: B008 - frozen
        """Return the names of a server that listens at `host` and `port` with this configuration."""
        public = None if web.public_url is None else urlsplit(web.public_url.lower())
        return cls(
            hosts=allowed_hosts(host, port) | frozenset(_further_hosts(port, web)),
            public_origin=None if public is None else origin_of(public.scheme, public.netloc),
            proxies=tuple(ip_network(proxy, strict=False) for proxy in web.trusted_proxies),
        )

    def is_ours(self, arrival: ClientAddress) -> bool:
        """Return whether the request was meant for this server."""
        return bool(arrival.hosts) and all(name in self.hosts for name in arrival.hosts)

    def is_own_origin(self, origin: str, arrival: ClientAddress) -> bool:
        """Return whether the browser says that a page of this server sent the request."""
        return origin.lower() in (arrival.origin, self.public_origin)

    def client_of(self, scope: Scope) -> ClientAddress:
        """Return the sender of a request. Forwarded headers count only if a trusted proxy sent them."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        peer = _address(client[0]) if client else None
        hosts = tuple(name.lower() for name in headers.getlist("host"))
        if len(hosts) > 1:
            # Which of them a proxy looked at, nobody knows.
            hosts = ()
        if peer is None or not self._trusts(peer):
            return ClientAddress(peer=str(peer or ""), scheme=scope["scheme"], hosts=hosts)
        forwarded = _last(headers, "x-forwarded-host").lower()
        proto = _last(headers, "x-forwarded-proto").lower()
        return ClientAddress(
            peer=str(self._sender(headers, peer)),
            scheme=proto if proto in _USUAL_PORTS else scope["scheme"],
            # The Host header stays with it: a proxy that passes on what a stranger claims can't speak for a name that is not ours.
            hosts=(*hosts, forwarded) if forwarded else hosts,
        )

    def _sender(self, headers: Headers, peer: _Address) -> _Address:
        """The last hop that is no proxy of ours. What stands before it, anyone may have written."""
        hops = [hop.strip() for value in headers.getlist("x-forwarded-for") for hop in value.split(",")]
        for hop in reversed(hops):
            if not self._trusts(peer):
                break
            before = _address(hop)
            if before is None:
                break
            peer = before
        return peer

    def _trusts(self, peer: _Address) -> bool:
        return any(peer.version == network.version and peer in network for network in self.proxies)


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers that mean this server: its address and this machine's own names, with the port."""
    own = f"[{host}]" if ":" in host and not host.startswith("[") else host
    names = [name.lower() for name in (*_LOOPBACK, own)]
    bare = names if port == _USUAL_PORTS["http"] else []
    return frozenset([*(f"{name}:{port}" for name in names), *bare])


def origin_of(scheme: str, host: str) -> str:
    """The origin of a page there: browsers leave out the usual port."""
    return f"{scheme}://{host.removesuffix(f':{_USUAL_PORTS.get(scheme, 0)}')}"


def _further_hosts(port: int, web: WebSettings) -> Iterator[str]:
    for name in (host.lower() for host in web.hosts):
        yield name
        if not _has_port(name):
            yield f"{name}:{port}"
    if web.public_url is not None:
        public = urlsplit(web.public_url.lower())
        bare = public.netloc.removesuffix(f":{_USUAL_PORTS[public.scheme]}")
        yield from (bare,) if _has_port(bare) else (bare, f"{bare}:{_USUAL_PORTS[public.scheme]}")


def _has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]


def _last(headers: Headers, name: str) -> str:
    """The value that the nearest proxy wrote: each puts its own behind those that it was given."""
    values = headers.getlist(name)
    return values[-1].rpartition(",")[2].strip() if values else ""


def _address(text: str) -> _Address | None:
    """The address in a hop, which some proxies write with a port; `None` where there is none."""
    bare = text
    if text.startswith("["):
        bare = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        bare = text.partition(":")[0]
    try:
        found = ip_address(bare)
    except ValueError:
        return None
    # A socket that takes both kinds writes the old ones in the new form.
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


class BodyTooLarge(HTTPException):
    """The body is longer than it may be. Its sender has been told; whoever reads it stops.

    To the framework it is an answer like any other, and no fault of ours.
    """

    def __init__(self) -> None:
        super().__init__(413)


class RequestGuard:
    """Stands around an application and lets through only what may reach it.

    In this order: the Host is ours (421); under `/api` and `/metrics` no other site asked (403); whatever changes something,
    and the stream of events, comes from our own page or from a program with a bearer token (403); a body is JSON (415) and
    not too long (413). Inside, the scope tells the true peer and scheme, and no forwarded header is left. Answers pass
    through as they are sent, with the security headers where the application has set none itself.
    """

    def __init__(self, app: ASGIApp, site: SiteNames, *, limits: Mapping[str, int] = MappingProxyType({})) -> None:
        """`limits` tells the most bytes of a body for paths where that is not `MAX_BODY`."""
        self._app = app
        self._site = site
        self._limits = dict(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # Nothing here speaks it, and its handshake would pass by all that follows.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _ResponseSender(send)
        arrival = self._site.client_of(scope)
        limit = self._limits.get(scope["path"], MAX_BODY)
        refused = self._refused(scope, arrival, limit)
        if refused is not None:
            await _refuse(refused, receive, answer)
            return
        body = _BodyReader(receive, answer, limit)
        try:
            await self._app(_inside(scope, arrival), body.receive, answer.send)
        except BodyTooLarge:
            # It was answered before it was raised.
            return

    def _refused(self, scope: Scope, arrival: ClientAddress, limit: int) -> JSONResponse | None:
        """Why a request goes no further; `None` where it does."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        # What is not going to be read is not waited for long: the next request comes by another connection.
        close = _CLOSE if _has_body(headers) else None
        if not self._site.is_ours(arrival):
            return error_json(421, "wrong_host", WRONG_HOST, close)
        if path.startswith(_PRIVATE) and headers.get("sec-fetch-site", "none") not in _OWN_FETCH:
            return error_json(403, "cross_site", CROSS_SITE, close)
        if (method not in _READING or path == _EVENTS) and not self._is_from_us(headers, arrival):
            return error_json(403, "foreign_origin", FOREIGN_ORIGIN, close)
        if not _is_json(headers, method):
            return error_json(415, "not_json", NOT_JSON, close)
        if _declared_length(headers) > limit:
            return _too_large(limit)
        return None

    def _is_from_us(self, headers: Headers, arrival: ClientAddress) -> bool:
        origins = headers.getlist("origin")
        if not origins:
            # A browser never sends a bearer token by itself: whoever has one means it. What it is worth, the login tells.
            return headers.get("authorization", "").lower().startswith("bearer ")
        return all(self._site.is_own_origin(origin, arrival) for origin in origins)


class _ResponseSender:
    """Passes an answer on as it comes. There is one: what is sent after it has ended is dropped."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_over = False

    async def send(self, message: Message) -> None:
        if self.is_over:
            return
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


class _BodyReader:
    """Hands a body on piece by piece and counts it: a sender need not say beforehand how long it is."""

    def __init__(self, receive: Receive, answer: _ResponseSender, limit: int) -> None:
        self._receive = receive
        self._answer = answer
        self._limit = limit
        self._read = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read <= self._limit:
            return message
        if not self._answer.has_begun:
            await _refuse(_too_large(self._limit), self._receive, self._answer, more=message.get("more_body", False))
        # The application may turn this error into an answer of its own; it comes too late.
        self._answer.is_over = True
        raise BodyTooLarge


async def _refuse(refused: JSONResponse, receive: Receive, answer: _ResponseSender, *, more: bool = True) -> None:
    """Sends the whole refusal at once, and ends it only when the body has come; `more`: there may be more of it.

    A connection that is closed while something unread comes in is reset, and takes the answer with it before it was read.
    """
    await answer.send(
        {"type": "http.response.start", "status": refused.status_code, "headers": list(refused.raw_headers)}
    )
    await answer.send({"type": "http.response.body", "body": bytes(refused.body), "more_body": True})
    if more:
        await _hear_out(receive)
    await answer.send({"type": "http.response.body", "body": b""})


async def _hear_out(receive: Receive) -> None:
    """Drops what still comes of a body, as long as that is not too much, too long or nothing."""
    heard, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_HEARD_SECONDS):
            while more and heard < HEARD_OUT:
                message = await asyncio.wait_for(receive(), _SILENT_SECONDS)
                heard += len(message.get("body", b""))
                more = message.get("more_body", False)


def error_json(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error response: a code for programs, and one sentence for people that says what to do."""
    return JSONResponse({"error": code, "message": message}, status, headers)


def _too_large(limit: int) -> JSONResponse:
    return error_json(413, "too_large", TOO_LARGE.format(limit=f"{limit:,}"), _CLOSE)


def _inside(scope: Scope, arrival: ClientAddress) -> Scope:
    """The scope as the application sees it. What strangers say of themselves is not in it."""
    kept = [
        (name, value) for name, value in scope["headers"] if not name.lower().startswith((b"x-forwarded", b"forwarded"))
    ]
    port = scope["client"][1] if scope.get("client") else 0
    return {**scope, "headers": kept, "client": (arrival.peer, port), "scheme": arrival.scheme}


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _is_json(headers: Headers, method: str) -> bool:
    """Whether a body says that it is JSON. A form, which any page may send, can't say so."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if _has_body(headers):
        return kind == "application/json"
    return method in _READING or kind in ("", "application/json")


def _declared_length(headers: Headers) -> int:
    declared = headers.get("content-length", "0")
    return int(declared) if declared.isascii() and declared.isdecimal() else MAX_BODY << 32
