"""Who is asking: logging in and out, and what there is for them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from threadline.gateway.command_table import TABLE
from threadline.model.access import Role, allows
from threadline.model.client_sources import web_source
from threadline.model.files import MAX_FILE_BYTES
from threadline.texts import web as texts
from threadline.version import __version__
from threadline.web.auth import Caller
from threadline.web.calls import Call, Web, read_body, told
from threadline.web.shapes import MOST_FILES, Card, CommandLine, Limits, LoginWanted, Me, Nothing

# Written in any script, and escaped, it still fits into the body of a request.
_TEXT_CHARS = 150_000


async def login(web: Web, request: Request) -> Response:
    """Swaps the installation's token, or an invitation's code, for a cookie."""
    wanted = await read_body(request, LoginWanted)
    logged_in = await web.auth.login(request, token=wanted.token, invite=wanted.invite)
    response = told(_me(web, logged_in.caller))
    web.auth.give_cookie(response, logged_in.cookie, request)
    return response


async def logout(web: Web, request: Request) -> Response:
    """Ends the login of this browser."""
    await read_body(request, Nothing)
    await web.auth.logout(request)
    response = Response(status_code=204)
    web.auth.take_cookie(response)
    return response


async def me(call: Call) -> Response:
    """Who is asking, and what there is for them."""
    return told(_me(call.web, call.caller))


def _me(web: Web, caller: Caller) -> Me:
    # Any conversation of theirs: who answers there is only known once there is one.
    answering = web.agent_at(web_source(caller.user_id, "-" * 8))
    return Me(
        user_id=caller.user_id,
        name=caller.name,
        role=caller.role,
        version=__version__,
        agent=answering.name,
        is_echo=answering.is_echo,
        card=_card(caller.role) if answering.is_echo else None,
        commands=tuple(
            CommandLine(command.name, command.usage, command.help)
            for command in TABLE.values()
            if allows(caller.role, command.least)
        ),
        limits=Limits(text_chars=_TEXT_CHARS, attachment_bytes=MAX_FILE_BYTES, attachments=MOST_FILES),
    )


def _card(role: Role) -> Card:
    if role == "owner":
        return Card(texts.CARD_TITLE, texts.CARD_TEXT, texts.CARD_STEPS)
    return Card(texts.CARD_TITLE, texts.CARD_TEXT_GUEST, ())
