"""`threadline outbox`: what was to be sent, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples
from threadline.cli.values import whole_number

outbox_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="What was to be sent: look, try again, give up.")

Number = Annotated[
    int,
    typer.Argument(
        parser=whole_number(1),
        metavar="NUMBER",
        help="The delivery's number, as `outbox list` shows it.",
        show_default=False,
    ),
]
_STATES = ("pending", "open", "sending", "sent", "unknown", "parked", "dropped")


@outbox_app.command("list", epilog=examples("threadline outbox list", "threadline outbox list --state parked --json"))
def list_deliveries(
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help=f"Only those: {', '.join(_STATES)}.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", parser=whole_number(1, 1000), metavar="N", help="How many, newest first.")
    ] = 50,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """List deliveries, newest first, with what became of them.

    "maybe twice" is what was sent again because the connection broke before its receipt came.
    """
    if state is not None and state not in _STATES:
        raise typer.BadParameter(f"{state!r} is no state: use one of {', '.join(_STATES)}")
    from threadline.app import with_gateway_store

    lines = with_gateway_store(db, lambda store: store.outbox.list_page(state, limit=limit))
    if as_json:
        render.show_json(lines)
        return
    if not lines:
        render.say("Nothing was to be sent.")
        return
    rows = [
        [
            str(line.pk),
            "maybe twice" if line.state == "unknown" else line.state,
            line.target.platform,
            line.target.chat_id,
            str(line.attempts),
            str(len(line.files)) if line.files else "",
            line.error or "",
        ]
        for line in lines
    ]
    render.show_table(
        ["Number", "State", "Platform", "Chat", "Tries", "Files", "Reason"],
        rows,
        numbers=["Number", "Tries", "Files"],
        gives_way="Reason",
    )


@outbox_app.command(epilog=examples("threadline outbox retry 17"))
def retry(number: Number, db: Db = None) -> None:
    """Try a parked delivery again; a running gateway sends it at once."""
    from threadline.app import with_gateway_store

    with_gateway_store(db, lambda store: store.outbox.retry(number))
    render.say(f"Delivery {number} is tried again as soon as a gateway runs.")


@outbox_app.command(epilog=examples("threadline outbox drop 17"))
def drop(number: Number, db: Db = None) -> None:
    """Give a parked or waiting delivery up; it is never sent."""
    from threadline.app import with_gateway_store

    with_gateway_store(db, lambda store: store.outbox.drop(number))
    render.say(f"Delivery {number} is dropped.")
