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
        render.show_json({"link": _joined(base, fragment), "fragment": fragment})
    else:
        _say_link(base, fragment)


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
    held = _token_file()
    if not rotate:
        current = held.current()
        if as_json:
            render.show_json({"token": current})
        else:
            render.say(current)
        return
    fresh = held.rotate()
    ended = _end_owners_logins(db)
    if as_json:
        render.show_json({"token": fresh, "ended_logins": ended})
    else:
        render.say(
            f"There is a new token, and {render.counted(ended, 'login')} ended; `threadline web link` shows the new link."
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

    made = _with_store(db, lambda store: store.web_access.invite(who, role, days=days))
    base, fragment, known = _base(), invite_fragment(made.code), made.invite
    if as_json:
        render.show_json(
            {
                "link": _joined(base, fragment),
                "fragment": fragment,
                "name": known.name,
                "user_id": known.user_id,
                "role": known.role,
                "expires_at": known.expires_at,
            }
        )
        return
    _say_link(base, fragment)
    render.note(f"This link lets {known.name} in once, until {render.when(known.expires_at)}. It can't be shown again.")


@app.command("people", epilog=examples("threadline web people", "threadline web people --json"))
def people(db: Db = None, as_json: AsJson = False) -> None:
    """Show who may use the page, and which links nobody has used yet."""
    found = _with_store(db, lambda store: store.web_access.list_all())
    if as_json:
        render.show_json({"people": found.people, "invites": found.invites})
        return
    _show_people(found.people)
    if found.invites:
        _show_invites(found.invites)


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
    gone = _with_store(db, lambda store: store.web_access.revoke(who))
    if as_json:
        render.show_json(gone)
    elif gone.user_id is None:
        render.say(f"The link for {gone.name} is taken back.")
    else:
        logins = render.counted(gone.logins, "login")
        render.say(f"{gone.name} ({gone.user_id}) can't use the page any more: {logins} ended.")


def _show_people(known: list[WebPerson]) -> None:
    render.show_heading("People")
    rows = [
        (
            one.user_id,
            one.name,
            one.role,
            render.when(one.since) if one.since else "",
            str(one.logins),
            render.when(one.seen_at) if one.seen_at else "",
        )
        for one in known
    ]
    columns = ("Id", "Name", "Role", "Since", "Logins", "Last seen")
    render.show_table(columns, rows, numbers=("Logins",), gives_way="Name")


def _show_invites(waiting: list[WebInvite]) -> None:
    render.show_heading("Links that nobody has used yet")
    rows = [
        (one.name, one.role or "", one.user_id or "", render.when(one.created_at), render.when(one.expires_at))
        for one in waiting
    ]
    render.show_table(("For", "Role", "Id", "Made", "Until"), rows, gives_way="For")


def _end_owners_logins(db: str | None) -> int:
    from threadline.app import is_there, locate
    from threadline.store.people.web_access import OWNER

    if not is_there(locate(db)):
        return 0
    return _with_store(db, lambda store: store.web_access.log_out_everywhere(OWNER))


def _base() -> str | None:
    """The address that people open: that of the page that runs, else the configured one. `None`: nobody knows it."""
    from threadline.config.load import load_config
    from threadline.local_user import web_token_file
    from threadline.web.address import address_file, announced_at

    web = load_config().web
    running = announced_at(address_file(web_token_file())) or web.public_url
    if running is not None or not web.port:
        return running
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(web.host, web.host)  # noqa: S104 - none that a browser can open
    return f"http://{f'[{host}]' if ':' in host else host}:{web.port}"


def _joined(base: str | None, fragment: str) -> str | None:
    return None if base is None else f"{base.rstrip('/')}/{fragment}"


def _say_link(base: str | None, fragment: str) -> None:
    link = _joined(base, fragment)
    render.say(link or fragment)
    if link is None:
        render.note(
            "That is the end of the link. No page runs here, so its address is not known: start `threadline serve` and ask"
            " again, or put this behind the address yourself."
        )


def _token_file() -> TokenFile:
    from threadline.local_user import web_token_file
    from threadline.web.token import TokenFile

    return TokenFile(web_token_file(), render.note)


def _with_store(db: str | None, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    from threadline.app import with_gateway_store

    return with_gateway_store(db, work)
