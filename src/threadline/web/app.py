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
from threadline.web.api_account import MAX_UPLOAD_BYTES
from threadline.web.assets import Assets
from threadline.web.endpoints import ENDPOINTS, Endpoint
from threadline.web.guard import RequestGuard, SiteNames, error_json
from threadline.web.openapi import describe
from threadline.web.requests import ApiCall, ApiContext, authenticated, json_response, public
from threadline.web.shapes import Health

log = get_logger(__name__)

# What keeps the gateway from its work, by name; nothing where it is ready.
Readiness: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
# Everything that is counted, in the text format of Prometheus.
MetricsText: TypeAlias = Callable[[], Awaitable[str]]

_PROMETHEUS = "text/plain; version=0.0.4"
_SAYS = {404: ("not_found", texts.UNKNOWN_PATH), 405: ("wrong_method", texts.WRONG_METHOD)}


def make_app(web: ApiContext, site: SiteNames, *, readiness: Readiness, metrics: MetricsText) -> ASGIApp:
    """The web application of a running gateway.

    `/` and its assets, `/healthz` (the store can be read) and `/readyz` (what `readiness` finds) hold nothing of anybody's
    and ask for no token. `/metrics` is the owner's; the API is for whoever has shown who they are.
    """
    assets = Assets()
    description = describe()

    async def health(_web: ApiContext, _request: Request) -> Response:
        try:
            await web.store.has_any_sessions()
        except ThreadlineError:
            # Why is for the operator's eyes; whoever asks here needs only to know that it does not work.
            return json_response(Health("unavailable", __version__), 503)
        return json_response(Health("ok", __version__))

    async def ready(_web: ApiContext, _request: Request) -> Response:
        missing = await readiness()
        status = 503 if missing else 200
        return json_response(Health("unavailable" if missing else "ok", __version__, tuple(missing)), status)

    async def counted(call: ApiCall) -> Response:
        if not call.caller.is_owner:
            return error_json(403, "owners_alone", texts.OWNERS_ALONE)
        return Response(await metrics(), media_type=_PROMETHEUS)

    async def described(_web: ApiContext, _request: Request) -> Response:
        return json_response(description)

    routes = Starlette(
        routes=[
            Route("/", assets.page),
            Route("/static/{name}", assets.asset),
            Route("/healthz", public(web, health)),
            Route("/readyz", public(web, ready)),
            Route("/metrics", authenticated(web, counted)),
            Route("/api/openapi.json", public(web, described)),
            *(_route(web, endpoint) for endpoint in ENDPOINTS),
        ],
        exception_handlers={HTTPException: _not_found, Exception: _fault},
    )
    # Around everything, so that answers to our own faults are guarded too.
    return RequestGuard(routes, site, limits={"/api/attachments": MAX_UPLOAD_BYTES})


def _route(web: ApiContext, endpoint: Endpoint) -> Route:
    if endpoint.work is not None:
        answer = authenticated(web, endpoint.work)
    elif endpoint.open_work is not None:
        answer = public(web, endpoint.open_work)
    else:
        raise ValueError(f"nothing answers at {endpoint.path}")
    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _not_found(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, sentence = _SAYS.get(status, ("refused", texts.UNKNOWN_PATH))
    return error_json(status, code, sentence, getattr(error, "headers", None))


async def _fault(request: Request, _error: Exception) -> Response:
    # The error itself is raised again behind this, and logged.
    log.error("web.fault", method=request.method)
    return error_json(500, "fault", texts.FAULT)
