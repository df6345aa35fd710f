"""The routes: a status page, its style, and a health check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from threadline import __version__
from threadline.errors import ThreadlineError
from threadline.store.facade import AsyncSessionStore
from threadline.web.guard import Guard, allowed_hosts
from threadline.web.page import render_status

_RECENT = 8


def make_app(store: AsyncSessionStore, *, host: str, port: int, is_default: bool) -> ASGIApp:
    """The web application over an open store. It answers to `host` and this machine's names, at `port`."""

    async def status(_request: Request) -> Response:
        facts = await store.facts()
        recent = await store.list_sessions(include_ended=True, limit=_RECENT)
        return HTMLResponse(render_status(facts, recent, version=__version__, is_default=is_default))

    async def health(_request: Request) -> Response:
        try:
            await store.has_any_sessions()
        except ThreadlineError:
            # Why is for the operator's eyes; whoever asks here needs only to know that it does not work.
            return JSONResponse({"status": "unavailable", "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    routes = Starlette(
        routes=[
            Route("/", status),
            Route("/healthz", health),
            Route("/static/style.css", _static("style.css", "text/css")),
            Route("/static/icon.svg", _static("icon.svg", "image/svg+xml")),
        ],
        exception_handlers={ThreadlineError: _refuse},
    )
    # Around everything, so that answers to our own faults are guarded too.
    return Guard(routes, allowed_hosts(host, port))


async def _refuse(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("The store does not answer now; `threadline db check` says more.\n", 503)


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("threadline.web") / "static" / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
