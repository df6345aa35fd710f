"""One request to the API: who asks, what they ask, read once and checked; and what is answered where that fails."""

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
from threadline.ports.live import Door, Speaker
from threadline.ports.platform import PlatformError
from threadline.store.facade import GatewayStore
from threadline.texts import web as texts
from threadline.web.auth import Auth, Caller, LoginRefused, TooManyFailures, answer_refused, unauthorised
from threadline.web.frames import encoded
from threadline.web.guard import refusal
from threadline.web.live import Hub

log = get_logger(__name__)

T = TypeVar("T")

_ID = re.compile(CONVERSATION)
_NO_ID = "-" * 8


class Answering(msgspec.Struct, frozen=True):
    """Who answers somewhere. `is_echo`: nobody was configured to."""

    name: str
    is_echo: bool


class Web(msgspec.Struct, frozen=True, kw_only=True):
    """What the API works with."""

    store: GatewayStore
    auth: Auth
    hub: Hub
    door: Door
    agent_at: Callable[[SessionSource], Answering]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request of somebody who has shown who they are."""

    web: Web
    caller: Caller
    request: Request

    @property
    def conversation(self) -> str:
        """The conversation that the path names."""
        return str(self.request.path_params["id"])

    @property
    def speaker(self) -> Speaker:
        """Who it is, as those know them whom they speak to."""
        return Speaker(user_id=self.caller.user_id, name=self.caller.name)

    def source(self, conversation: str | None = None) -> SessionSource:
        """Where they speak from, in that conversation or the one of the path. Nobody can name another's."""
        return web_source(self.caller.user_id, conversation or self.conversation, self.caller.name)

    def agent(self) -> str:
        """The name of the agent that answers there."""
        return self.web.agent_at(self.source()).name

    def changed(self, conversation: str | None = None) -> None:
        """Lets those who look at the conversation know."""
        self.web.hub.said(self.caller.user_id, conversation or self.conversation)


# What answers a request of somebody who is known.
Work: TypeAlias = Callable[[Call], Awaitable[Response]]
# What answers anybody's.
OpenWork: TypeAlias = Callable[[Web, Request], Awaitable[Response]]


def told(value: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(encoded(value), status, media_type="application/json")


async def read_body(request: Request, shape: type[T]) -> T:
    """What was sent, as it must be; `InvalidRequest` says what is wrong with it."""
    body = await request.body()
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as cause:
        raise InvalidRequest(texts.NOT_AS_DESCRIBED.format(reason=cause)) from cause
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(texts.NOT_READABLE) from cause


def read_query(request: Request, shape: type[T]) -> T:
    """What the query says; `InvalidRequest` says what is wrong with it."""
    given = {name: value for name, value in request.query_params.items() if value != ""}
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as cause:
        raise InvalidRequest(texts.NOT_AS_DESCRIBED.format(reason=cause)) from cause


def known(web: Web, work: Work) -> Callable[[Request], Awaitable[Response]]:
    """The work for those who have shown who they are; everybody else is turned away."""

    async def answer(request: Request) -> Response:
        caller = await web.auth.who(request)
        if caller is None:
            return unauthorised()
        if not _ID.fullmatch(request.path_params.get("id", _NO_ID)):
            return refusal(400, "invalid", texts.BAD_ID)
        return await work(Call(web=web, caller=caller, request=request))

    return _answered(answer)


def opened(web: Web, work: OpenWork) -> Callable[[Request], Awaitable[Response]]:
    """The work for anybody."""

    async def answer(request: Request) -> Response:
        return await work(web, request)

    return _answered(answer)


def _answered(work: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await work(request)
        except ThreadlineError as error:
            return refused(error)
        except ClientDisconnect:
            # Nobody is left who could read it.
            return refusal(400, "broken_off", texts.NOT_READABLE)

    return answer


def refused(error: ThreadlineError) -> Response:
    """The answer to what could not be done."""
    if isinstance(error, (LoginRefused, TooManyFailures)):
        return answer_refused(error)
    if isinstance(error, (UnknownSession, NotYours)):
        return refusal(404, "unknown_conversation", texts.UNKNOWN_CONVERSATION)
    if isinstance(error, UnknownMessage):
        return refusal(404, "unknown_message", texts.UNKNOWN_MESSAGE)
    if isinstance(error, UnknownFile):
        return refusal(404, "unknown_file", str(error))
    if isinstance(error, (NothingToUndo, IdempotencyConflict)):
        return refusal(409, "conflict", str(error))
    if isinstance(error, InvalidRequest):
        return refusal(400, "invalid", str(error))
    if not isinstance(error, (StoreError, PlatformError)):
        log.error("web.failed", error=repr(error))
    return refusal(503, "unavailable", texts.UNAVAILABLE, {"Retry-After": "1"})
