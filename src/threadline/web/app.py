"""The web application: the page, its API, and what a supervisor and a monitor ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from threadline.errors import ThreadlineError
from threadline.log import get_logger
from threadline.texts import web as texts
from threadline.version import __version__
from threadline.web.api_account import MOST_BYTES
from threadline.web.assets import Assets
from threadline.web.endpoints import ENDPOINTS, Endpoint
from threadline.web.guard import Guard, Site, refusal
from threadline.web.openapi import describe
from threadline.web.requests import Call, Web, known, opened, told
from threadline.web.shapes import Health

log = get_logger(__name__)

# What keeps the gateway from its work, by name; nothing where it is ready.
Readiness: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
# Everything that is counted, in the text format of Prometheus.
MetricsText: TypeAlias = Callable[[], Awaitable[str]]

_PROMETHEUS = "text/plain; version=0.0.4"
_SAYS = {404: ("not_found", texts.UNKNOWN_PATH), 405: ("wrong_method", texts.WRONG_METHOD)}


def make_app(web: Web, site: Site, *, readiness: Readiness, metrics: MetricsText) -> ASGIApp:
    """The web application of a running gateway.

    `/` and its assets, `/healthz` (the store can be read) and `/readyz` (what `readiness` finds) hold nothing of anybody's
    and ask for no token. `/metrics` is the owner's; the API is for whoever has shown who they are.
    """
    assets = Assets()
    description = describe()

    async def health(_web: Web, _request: Request) -> Response:
        try:
            await web.store.has_any_sessions()
        except ThreadlineError:
            # Why is for the operator's eyes; whoever asks here needs only to know that it does not work.
            return told(Health("unavailable", __version__), 503)
        return told(Health("ok", __version__))

    async def ready(_web: Web, _request: Request) -> Response:
        missing = await readiness()
        status = 503 if missing else 200
        return told(Health("unavailable" if missing else "ok", __version__, tuple(missing)), status)

    async def counted(call: Call) -> Response:
        if not call.caller.is_owner:
            return refusal(403, "owners_alone", texts.OWNERS_ALONE)
        return Response(await metrics(), media_type=_PROMETHEUS)

    async def described(_web: Web, _request: Request) -> Response:
        return told(description)

    routes = Starlette(
        routes=[
            Route("/", assets.page),
            Route("/static/{name}", assets.asset),
            Route("/healthz", opened(web, health)),
            Route("/readyz", opened(web, ready)),
            Route("/metrics", known(web, counted)),
            Route("/api/openapi.json", opened(web, described)),
            *(_route(web, endpoint) for endpoint in ENDPOINTS),
        ],
        exception_handlers={HTTPException: _nowhere, Exception: _fault},
    )
    # Around everything, so that answers to our own faults are guarded too.
    return Guard(routes, site, limits={"/api/attachments": MOST_BYTES})


def _route(web: Web, endpoint: Endpoint) -> Route:
    if endpoint.work is not None:
        answer = known(web, endpoint.work)
    elif endpoint.open_work is not None:
        answer = opened(web, endpoint.open_work)
    else:
        raise ValueError(f"nothing answers at {endpoint.path}")
    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _nowhere(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, sentence = _SAYS.get(status, ("refused", texts.UNKNOWN_PATH))
    return refusal(status, code, sentence, getattr(error, "headers", None))


async def _fault(request: Request, _error: Exception) -> Response:
    # The error itself is raised again behind this, and logged.
    log.error("web.fault", method=request.method)
    return refusal(500, "fault", texts.FAULT)
