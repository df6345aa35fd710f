"""Endpoints of an account: login, logout, the user and their limits, and their attachments."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from threadline.gateway.command_table import TABLE
from threadline.model.access import Role, allows
from threadline.model.client_sources import web_source
from threadline.model.files import MAX_FILE_BYTES
from threadline.texts import web as texts
from threadline.version import __version__
from threadline.web.auth import Caller
from threadline.web.requests import ApiCall, ApiContext, json_response, read_body
from threadline.web.shapes import (
    MAX_FILES,
    Attachment,
    Card,
    CommandLine,
    FileWanted,
    Limits,
    LoginWanted,
    Me,
    Nothing,
)

# Written in any script, and escaped, it still fits into the body of a request.
_TEXT_CHARS = 150_000

# A file of the greatest size in base64, and what stands around it.
MAX_UPLOAD_BYTES = MAX_FILE_BYTES * 4 // 3 + 8_192


async def login(web: ApiContext, request: Request) -> Response:
    """Swaps the installation's token, or an invitation's code, for a cookie."""
    wanted = await read_body(request, LoginWanted)
    logged_in = await web.auth.login(request, token=wanted.token, invite=wanted.invite)
    response = json_response(_me(web, logged_in.caller))
    web.auth.set_cookie(response, logged_in.cookie, request)
    return response


async def logout(web: ApiContext, request: Request) -> Response:
    """Ends the login of this browser."""
    await read_body(request, Nothing)
    await web.auth.logout(request)
    response = Response(status_code=204)
    web.auth.clear_cookie(response)
    return response


async def me(call: ApiCall) -> Response:
    """Who is asking, and what there is for them."""
    return json_response(_me(call.web, call.caller))


def _me(web: ApiContext, caller: Caller) -> Me:
    # Any conversation of theirs: who answers there is only known once there is one.
    answering = web.agent_at(web_source(caller.user_id, "-" * 8))
    return Me(
        user_id=caller.user_id,
        name=caller.name,
        role=caller.role,
        version=__version__,
        agent=answering.name,
        is_echo=answering.is_echo,
        card=_setup_card(caller.role) if answering.is_echo else None,
        commands=tuple(
            CommandLine(command.name, command.usage, command.help)
            for command in TABLE.values()
            if allows(caller.role, command.least)
        ),
        limits=Limits(text_chars=_TEXT_CHARS, attachment_bytes=MAX_FILE_BYTES, attachments=MAX_FILES),
    )


def _setup_card(role: Role) -> Card:
    if role == "owner":
        return Card(texts.CARD_TITLE, texts.CARD_TEXT, texts.CARD_STEPS)
    return Card(texts.CARD_TITLE, texts.CARD_TEXT_GUEST, ())


async def upload(call: ApiCall) -> Response:
    """Keeps a file until it comes with a message; the same content again is the same file."""
    wanted = await read_body(call.request, FileWanted)
    kept = await call.web.store.keep_file(call.caller.person, wanted.content, name=wanted.name, mime=wanted.mime)
    return json_response(Attachment(id=kept.file_id, name=kept.name, mime=kept.mime, size=kept.size), 201)


async def download(call: ApiCall) -> Response:
    """A file of one's own, to download: nothing in it runs here, whatever it says that it is."""
    kept, body = await call.web.store.read_file(call.caller.person, call.conversation)
    return Response(
        body,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(kept.name, safe='')}",
            "Content-Security-Policy": "sandbox",
            "Cache-Control": "private, no-cache",
        },
    )
