"""`threadline web`: who may use the web page, and the links that let them in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar, get_args

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples, one_of, whole_number

if TYPE_CHECKING:
    from threadline.store.facade import GatewayStore
    from threadline.store.people.web_access import WebInvite, WebPerson
    from threadline.web.token import TokenFile

T = TypeVar("T")
GivenRole: TypeAlias = Literal["guest", "trusted"]

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="The web page: your own link, and links for people you invite."
)


@app.command(
    "link", epilog=examples("threadline web link", "threadline web link --json", 'xdg-open "$(threadline web link)"')
)
def link(as_json: AsJson = False) -> None:
    """Show the owner's link to the page.

    Whoever has it is the owner: give it to nobody. Its token is made at the first start and stays the same until `threadline
    web token --rotate`. While no page runs and no address is configured, only the end of the link is shown: what listens at a
    guessed address may be another program.
    """
    from threadline.web.token import owner_fragment

    base, fragment = _base(), owner_fragment(_token_file().current())
    if as_json:
        render.show_json({"link": _join_link(base, fragment), "fragment": fragment})
    else:
        _print_link(base, fragment)


@app.command(
    "token",
    epilog=examples(
        "threadline web token",
        "threadline web token --rotate",
        'curl -H "Authorization: Bearer $(threadline web token)" http://127.0.0.1:8765/api/me',
    ),
)
def token(
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Make a new token: the old one and all of the owner's logins end.")
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show the owner's token, for programs, or make a new one.

    A gateway that runs takes the new token at once. People whom you invited stay logged in.
    """
    token_file = _token_file()
    if not rotate:
        current = token_file.current()
        if as_json:
            render.show_json({"token": current})
        else:
            render.print_line(current)
        return
    new_token = token_file.rotate()
    ended = _end_owners_logins(db)
    if as_json:
        render.show_json({"token": new_token, "ended_logins": ended})
    else:
        render.print_line(
            f"There is a new token, and {render.count_text(ended, 'login')} ended; `threadline web link` shows the new link."
        )


@app.command(
    "invite",
    epilog=examples(
        "threadline web invite Ada",
        "threadline web invite Ada --role trusted --days 1",
        "threadline web invite u3k9x0p2m7qab",
    ),
)
def invite(
    who: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A name for somebody new; or the id of somebody who is known, for another browser of theirs.",
            show_default=False,
        ),
    ],
    role: Annotated[
        GivenRole | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            parser=one_of(*get_args(GivenRole)),
            help="What they may do: guest or trusted.",
            show_default="guest; somebody who is known keeps the role they have",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", parser=whole_number(1, 365), metavar="DAYS", help="How long the link holds.")
    ] = 7,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Make a link that lets somebody in on the page, once.

    Each person sees only their own conversations. Send the link to them alone: whoever opens it first is let in by it.
    """
    from threadline.web.token import invite_fragment

    created = _with_store(db, lambda store: store.web_access.invite(who, role, days=days))
    base, fragment, invited = _base(), invite_fragment(created.code), created.invite
    if as_json:
        render.show_json(
            {
                "link": _join_link(base, fragment),
                "fragment": fragment,
                "name": invited.name,
                "user_id": invited.user_id,
                "role": invited.role,
                "expires_at": invited.expires_at,
            }
        )
        return
    _print_link(base, fragment)
    render.print_note(
        f"This link lets {invited.name} in once, until {render.format_time(invited.expires_at)}. It can't be shown again."
    )


@app.command("people", epilog=examples("threadline web people", "threadline web people --json"))
def people(db: Db = None, as_json: AsJson = False) -> None:
    """Show who may use the page, and which links nobody has used yet."""
    listing = _with_store(db, lambda store: store.web_access.list_all())
    if as_json:
        render.show_json({"people": listing.people, "invites": listing.invites})
        return
    _render_people(listing.people)
    if listing.invites:
        _render_invites(listing.invites)


@app.command(
    "revoke",
    epilog=examples(
        "threadline web revoke Ada", "threadline web revoke u3k9x0p2m7qab", "threadline web revoke Ada --json"
    ),
)
def revoke(
    who: Annotated[
        str,
        typer.Argument(metavar="NAME_OR_ID", help="The name or the id that `web people` shows.", show_default=False),
    ],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Take somebody's access to the page away, or take a link back.

    All their logins end. What they wrote stays; `threadline people erase` erases it.
    """
    revoked = _with_store(db, lambda store: store.web_access.revoke(who))
    if as_json:
        render.show_json(revoked)
    elif revoked.user_id is None:
        render.print_line(f"The link for {revoked.name} is taken back.")
    else:
        logins = render.count_text(revoked.logins, "login")
        render.print_line(f"{revoked.name} ({revoked.user_id}) can't use the page any more: {logins} ended.")


def _render_people(people: list[WebPerson]) -> None:
    render.show_heading("People")
    rows = [
        (
            person.user_id,
            person.name,
            person.role,
            render.format_time(person.since) if person.since else "",
            str(person.logins),
            render.format_time(person.seen_at) if person.seen_at else "",
        )
        for person in people
    ]
    columns = ("Id", "Name", "Role", "Since", "Logins", "Last seen")
    render.show_table(columns, rows, numbers=("Logins",), gives_way="Name")


def _render_invites(invites: list[WebInvite]) -> None:
    render.show_heading("Links that nobody has used yet")
    rows = [
        (
            invite.name,
            invite.role or "",
            invite.user_id or "",
            render.format_time(invite.created_at),
            render.format_time(invite.expires_at),
        )
        for invite in invites
    ]
    render.show_table(("For", "Role", "Id", "Made", "Until"), rows, gives_way="For")


def _end_owners_logins(db: str | None) -> int:
    from threadline.app import is_there, locate
    from threadline.store.people.web_access import OWNER

    if not is_there(locate(db)):
        return 0
    return _with_store(db, lambda store: store.web_access.log_out_everywhere(OWNER))


def _base() -> str | None:
    """Return the address of the running page, else the configured address; None if there is neither."""
    from threadline.config.load import load_config
    from threadline.local_user import web_token_file
    from threadline.web.server import address_file, read_address

    web = load_config().web
    running = read_address(address_file(web_token_file())) or web.public_url
    if running is not None or not web.port:
        return running
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(web.host, web.host)  # noqa: S104 - a browser can't open these
    return f"http://{f'[{host}]' if ':' in host else host}:{web.port}"


def _join_link(base: str | None, fragment: str) -> str | None:
    return None if base is None else f"{base.rstrip('/')}/{fragment}"


def _print_link(base: str | None, fragment: str) -> None:
    link = _join_link(base, fragment)
    render.print_line(link or fragment)
    if link is None:
        render.print_note(
            "That is the end of the link. No page runs here, so its address is not known: start `threadline serve` and ask"
            " again, or put this behind the address yourself."
        )


def _token_file() -> TokenFile:
    from threadline.local_user import web_token_file
    from threadline.web.token import TokenFile

    return TokenFile(web_token_file(), render.print_note)


def _with_store(db: str | None, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    from threadline.app import with_gateway_store

    return with_gateway_store(db, work)
