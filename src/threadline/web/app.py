"""The routes: a status page, its style, and what a supervisor and a monitor ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from typing import TypeAlias

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

# What keeps the gateway from its work, by name; nothing where it is ready.
Readiness: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
# Everything that is counted, in the text format of Prometheus.
MetricsText: TypeAlias = Callable[[], Awaitable[str]]

_RECENT = 8
_PROMETHEUS = "text/plain; version=0.0.4"


def make_app(
    store: AsyncSessionStore,
    *,
    host: str,
    port: int,
    is_default: bool,
    readiness: Readiness | None = None,
    metrics: MetricsText | None = None,
) -> ASGIApp:
    """The web application over an open store. It answers to `host` and this machine's names, at `port`.

    `/healthz` tells that the store can be read, `/readyz` what `readiness` finds, `/metrics` what was counted. Without
    those two there are no such pages.
    """

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
            *([] if readiness is None else [Route("/readyz", _ready(readiness))]),
            *([] if metrics is None else [Route("/metrics", _metrics(metrics))]),
            Route("/static/style.css", _static("style.css", "text/css")),
            Route("/static/icon.svg", _static("icon.svg", "image/svg+xml")),
        ],
        exception_handlers={ThreadlineError: _refuse},
    )
    # Around everything, so that answers to our own faults are guarded too.
    return Guard(routes, allowed_hosts(host, port))


def _ready(readiness: Readiness) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        missing = await readiness()
        if missing:
            return JSONResponse({"status": "unavailable", "not_ready": list(missing), "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    return answer


def _metrics(metrics: MetricsText) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        return Response(await metrics(), media_type=_PROMETHEUS)

    return answer


async def _refuse(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("The store does not answer now; `threadline db check` says more.\n", 503)


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("threadline.web") / "static" / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
