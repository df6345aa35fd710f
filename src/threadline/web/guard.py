"""What every request must pass and every answer carries, whatever it is about."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WEB_PORT = 80


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers that mean this server: its address and this machine's own names, with the port."""
    own = f"[{host}]" if ":" in host and not host.startswith("[") else host
    names = [name.lower() for name in (*_LOOPBACK, own)]
    bare = names if port == _WEB_PORT else []
    return frozenset([*(f"{name}:{port}" for name in names), *bare])


class Guard:
    """Turns away requests that were meant for another host and puts the security headers on every answer.

    A page elsewhere can make a browser send requests here under a name of its own; the Host header tells.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if Headers(scope=scope).get("host", "").lower() in self._hosts:
            await self._app(scope, receive, send_guarded)
            return
        refusal = PlainTextResponse(
            "This server does not answer under that name; start it with `threadline serve --host NAME`.\n",
            421,
        )
        await refusal(scope, receive, send_guarded)
