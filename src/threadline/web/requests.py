"""Read and check one request to the API, and turn errors into JSON responses."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from threadline.errors import (
    IdempotencyConflict,
    InvalidRequest,
    NothingToUndo,
    NotYours,
    StoreError,
    ThreadlineError,
    UnknownFile,
    UnknownMessage,
    UnknownSession,
)
from threadline.log import get_logger
from threadline.model.client_sources import CONVERSATION, web_source
from threadline.model.source import SessionSource
from threadline.ports.platform import PlatformError
from threadline.store.facade import GatewayStore
from threadline.texts import web as texts
from threadline.web.auth import Auth, Caller, LoginRefused, TooManyFailures, login_error_response, login_required
from threadline.web.frames import encode_json
from threadline.web.guard import error_json
from threadline.web.live import LiveHub
from threadline.web.platform import WebPlatform, WebUser

log = get_logger(__name__)

T = TypeVar("T")

_ID = re.compile(CONVERSATION)
_NO_ID = "-" * 8


class AnsweringAgent(msgspec.Struct, frozen=True):
    """The agent of a conversation. `is_echo`: no agent is configured."""

    name: str
    is_echo: bool


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    """The services that the endpoints of the API use."""

    store: GatewayStore
    auth: Auth
    hub: LiveHub
    door: WebPlatform
    agent_at: Callable[[SessionSource], AnsweringAgent]


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request of an authenticated user."""

    web: ApiContext
    caller: Caller
    request: Request

    @property
    def conversation(self) -> str:
        """Return the id of the conversation from the path."""
        return str(self.request.path_params["id"])

    @property
    def speaker(self) -> WebUser:
        """Return the user as the platform knows them."""
        return WebUser(user_id=self.caller.user_id, name=self.caller.name)

    def source(self, conversation: str | None = None) -> SessionSource:
        """Return the source of that conversation, or of the one in the path. It always belongs to the caller."""
        return web_source(self.caller.user_id, conversation or self.conversation, self.caller.name)

    def agent(self) -> str:
        """Return the name of the agent of the conversation."""
        return self.web.agent_at(self.source()).name

    def changed(self, conversation: str | None = None) -> None:
        """Notify the subscribers of the conversation of a change."""
        self.web.hub.changed(self.caller.user_id, conversation or self.conversation)


# What answers a request of somebody who is known.
EndpointFunction: TypeAlias = Callable[[ApiCall], Awaitable[Response]]
# What answers anybody's.
OpenWork: TypeAlias = Callable[[ApiContext, Request], Awaitable[Response]]


def json_response(value: Any, status: int = 200) -> Response:
    """Return a response with the value as JSON."""
    return Response(encode_json(value), status, media_type="application/json")


async def read_body(request: Request, shape: type[T]) -> T:
    """Decode the body as `shape`. Raise `InvalidRequest`, which says what is wrong, if it does not match."""
    body = await request.body()
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as cause:
        raise InvalidRequest(texts.NOT_AS_DESCRIBED.format(reason=cause)) from cause
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(texts.NOT_READABLE) from cause


def read_query(request: Request, shape: type[T]) -> T:
    """Decode the query as `shape`. Raise `InvalidRequest`, which says what is wrong, if it does not match."""
    given = {name: value for name, value in request.query_params.items() if value != ""}
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as cause:
        raise InvalidRequest(texts.NOT_AS_DESCRIBED.format(reason=cause)) from cause


def authenticated(web: ApiContext, work: EndpointFunction) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint function so that only authenticated users reach it."""

    async def answer(request: Request) -> Response:
        caller = await web.auth.authenticate(request)
        if caller is None:
            return login_required()
        if not _ID.fullmatch(request.path_params.get("id", _NO_ID)):
            return error_json(400, "invalid", texts.BAD_ID)
        return await work(ApiCall(web=web, caller=caller, request=request))

    return _answered(answer)


def public(web: ApiContext, work: OpenWork) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint function that needs no login."""

    async def answer(request: Request) -> Response:
        return await work(web, request)

    return _answered(answer)


def _answered(work: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await work(request)
        except ThreadlineError as error:
            return error_response(error)
        except ClientDisconnect:
            # Nobody is left who could read it.
            return error_json(400, "broken_off", texts.NOT_READABLE)

    return answer


def error_response(error: ThreadlineError) -> Response:
    """Return the response to an error."""
    if isinstance(error, (LoginRefused, TooManyFailures)):
        return login_error_response(error)
    if isinstance(error, (UnknownSession, NotYours)):
        return error_json(404, "unknown_conversation", texts.UNKNOWN_CONVERSATION)
    if isinstance(error, UnknownMessage):
        return error_json(404, "unknown_message", texts.UNKNOWN_MESSAGE)
    if isinstance(error, UnknownFile):
        return error_json(404, "unknown_file", str(error))
    if isinstance(error, (NothingToUndo, IdempotencyConflict)):
        return error_json(409, "conflict", str(error))
    if isinstance(error, InvalidRequest):
        return error_json(400, "invalid", str(error))
    if not isinstance(error, (StoreError, PlatformError)):
        log.error("web.failed", error=repr(error))
    return error_json(503, "unavailable", texts.UNAVAILABLE, {"Retry-After": "1"})
