"""The API as one table: method, path, function, body and response. Routes and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from threadline.web import api_account, api_conversations, sse
from threadline.web.requests import EndpointFunction, OpenWork
from threadline.web.shapes import (
    Attachment,
    Conversation,
    Conversations,
    FileWanted,
    FollowWanted,
    ForkWanted,
    Hits,
    LoginWanted,
    Me,
    MessageWanted,
    Nothing,
    PressWanted,
    RenameWanted,
    Snapshot,
    Taken,
)

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]
# What an answer holds: JSON of that shape, nothing, a stream of events, a file's bytes.
Answer: TypeAlias = type[msgspec.Struct] | Literal["nothing", "events", "bytes"]

_ID = "/api/conversations/{id}"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint of the API. The docstring of its function is its summary."""

    method: Method
    path: str
    work: EndpointFunction | None = None
    # Instead, where anybody may ask.
    open_work: OpenWork | None = None
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    status: int = 200
    response: Answer
    # What else may come of it, besides what may come of anything.
    errors: Mapping[int, str] = {}

    @property
    def summary(self) -> str:
        """Return the first line of the docstring of the function."""
        return ((self.work or self.open_work).__doc__ or "").strip().split("\n")[0]


_UNKNOWN = {404: "There is no such conversation of theirs."}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/api/login",
        open_work=api_account.login,
        body=LoginWanted,
        response=Me,
    ),
    Endpoint(
        method="POST", path="/api/logout", open_work=api_account.logout, body=Nothing, status=204, response="nothing"
    ),
    Endpoint(method="GET", path="/api/me", work=api_account.me, response=Me),
    Endpoint(
        method="GET",
        path="/api/conversations",
        work=api_conversations.conversations,
        query=api_conversations.ListQuery,
        response=Conversations,
    ),
    Endpoint(
        method="GET",
        path=_ID,
        work=api_conversations.conversation,
        query=api_conversations.LookQuery,
        response=Snapshot,
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="PATCH",
        path=_ID,
        work=api_conversations.rename,
        body=RenameWanted,
        response=Conversation,
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="DELETE",
        path=_ID,
        work=api_conversations.delete,
        query=api_conversations.SessionQuery,
        status=204,
        response="nothing",
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="POST",
        path=f"{_ID}/messages",
        work=api_conversations.send_message,
        body=MessageWanted,
        status=202,
        response=Taken,
        errors={
            404: "There is no such message or file of theirs.",
            409: "The id is another message's, or a message can't be taken back while something is being answered.",
        },
    ),
    Endpoint(
        method="POST",
        path=f"{_ID}/buttons",
        work=api_conversations.press_button,
        body=PressWanted,
        status=202,
        response=Taken,
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="POST",
        path=f"{_ID}/fork",
        work=api_conversations.fork,
        body=ForkWanted,
        status=201,
        response=Conversation,
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="GET",
        path="/api/search",
        work=api_conversations.search,
        query=api_conversations.SearchQuery,
        response=Hits,
    ),
    Endpoint(
        method="POST",
        path="/api/attachments",
        work=api_account.upload,
        body=FileWanted,
        status=201,
        response=Attachment,
    ),
    Endpoint(
        method="GET",
        path="/api/attachments/{id}",
        work=api_account.download,
        response="bytes",
        errors={404: "There is no such file of theirs."},
    ),
    Endpoint(
        method="GET",
        path="/api/events",
        work=sse.events,
        query=FollowWanted,
        response="events",
        errors=_UNKNOWN,
    ),
    Endpoint(
        method="POST",
        path="/api/events",
        work=sse.events,
        body=FollowWanted,
        response="events",
        errors=_UNKNOWN,
    ),
)
