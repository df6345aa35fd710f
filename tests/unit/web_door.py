"""A small application behind the guard, asked without a network: what it shows is what the guard let through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from threadline.config.settings import WebSettings
from threadline.web.guard import BodyTooLarge, RequestGuard, SiteNames

HOST = "127.0.0.1:8765"
ORIGIN = f"http://{HOST}"
STRANGER = "203.0.113.9"
PROXY = "10.0.0.2"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": "Bearer something"}


async def _tell(request: Request) -> Response:
    """What of the request got here."""
    return JSONResponse(
        {
            "peer": request.client.host if request.client else None,
            "scheme": request.url.scheme,
            "read": len(await request.body()),
            "headers": sorted(request.headers),
        }
    )


async def _fail(_request: Request) -> Response:
    raise RuntimeError("a fault of ours")


async def _sandboxed(_request: Request) -> Response:
    return Response(b"<script>", headers={"Content-Security-Policy": "sandbox", "Cache-Control": "private"})


async def _swallow(request: Request) -> Response:
    with suppress(BodyTooLarge):
        await request.body()
    return PlainTextResponse("all is well")


async def _talk_first(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers before it has read."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"listening", "more_body": True})
    with suppress(BodyTooLarge):
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.body", "body": b"all is well"})


_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
ROUTES = Starlette(
    routes=[
        Route("/fault", _fail),
        Route("/swallowing", _swallow, methods=["POST"]),
        Mount("/talking", _talk_first),
        Route("/api/attachments/1", _sandboxed),
        Route("/{path:path}", _tell, methods=_METHODS),
    ]
)


def ask(
    method: str,
    path: str,
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
    *,
    content: bytes | Iterable[bytes] | None = None,
    peer: str = STRANGER,
    web: WebSettings = WebSettings(),  # noqa: B008 - frozen
    limits: Mapping[str, int] | None = None,
    base: str = ORIGIN,
) -> httpx.Response:
    """One request through the guard, from `peer`."""
    sent = content if content is None or isinstance(content, bytes) else _pieces(content)
    guarded = RequestGuard(ROUTES, SiteNames.of("127.0.0.1", 8765, web), limits=limits or {})
    return asyncio.run(_ask(guarded, method, path, base, peer, headers=headers, content=sent))


async def _pieces(content: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def _ask(guarded: RequestGuard, method: str, path: str, base: str, peer: str, **options: Any) -> httpx.Response:
    transport = httpx.ASGITransport(guarded, raise_app_exceptions=path != "/fault", client=(peer, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=base) as client:
        return await client.request(method, path, **options)
