"""Under which names this server answers, and whose word it takes for who is asking."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers
from starlette.types import Scope

from threadline.config.settings import WebSettings

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_USUAL_PORTS = {"http": 80, "https": 443}


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request really came from, and under which address its sender sees us."""

    peer: str
    scheme: str
    # Every name that the request gives us; all of them must be ours.
    hosts: tuple[str, ...]

    @property
    def origin(self) -> str:
        """Our origin as the sender's browser would write it."""
        return origin_of(self.scheme, self.hosts[-1]) if self.hosts else ""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is called, and which proxies speak for others."""

    hosts: frozenset[str]
    public_origin: str | None = None
    proxies: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, host: str, port: int, web: WebSettings = WebSettings()) -> Site:  # noqa: B008 - frozen
        """The site that listens at `host` and `port` and is configured so."""
        public = None if web.public_url is None else urlsplit(web.public_url.lower())
        return cls(
            hosts=allowed_hosts(host, port) | frozenset(_further_hosts(port, web)),
            public_origin=None if public is None else origin_of(public.scheme, public.netloc),
            proxies=tuple(ip_network(proxy, strict=False) for proxy in web.trusted_proxies),
        )

    def is_ours(self, arrival: Arrival) -> bool:
        """Whether the request was meant for this server."""
        return bool(arrival.hosts) and all(name in self.hosts for name in arrival.hosts)

    def is_own_origin(self, origin: str, arrival: Arrival) -> bool:
        """Whether a page of ours sent the request, as its browser says."""
        return origin.lower() in (arrival.origin, self.public_origin)

    def arrival_of(self, scope: Scope) -> Arrival:
        """What is known of a request. Forwarded headers count only where a trusted proxy sent them."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        peer = _address(client[0]) if client else None
        hosts = tuple(name.lower() for name in headers.getlist("host"))
        if len(hosts) > 1:
            # Which of them a proxy looked at, nobody knows.
            hosts = ()
        if peer is None or not self._trusts(peer):
            return Arrival(peer=str(peer or ""), scheme=scope["scheme"], hosts=hosts)
        forwarded = _last(headers, "x-forwarded-host").lower()
        proto = _last(headers, "x-forwarded-proto").lower()
        return Arrival(
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
