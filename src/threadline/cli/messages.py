"""`threadline messages`: what came in, and what became of it. `threadline outbox`: what was to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples, whole_number

if TYPE_CHECKING:
    from threadline.store.work.outbox import DeliverySummary

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="What came in: list it, and follow one message to its end."
)

_OUTCOMES = ("waiting", "running", "answered", "failed", "merged", "interrupted", "refused", "parked", "dropped")

outbox_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="What was to be sent: look, try again, give up."
)

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


@app.command("list", epilog=examples("threadline messages list", "threadline messages list --fate parked"))
def list_(
    fate: Annotated[str | None, typer.Option("--fate", metavar="FATE", help=f"Only: {', '.join(_OUTCOMES)}.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", parser=whole_number(1, 1000), metavar="N", help="How many, newest first.")
    ] = 50,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """List what came in, newest first, with the fate of each.

    What was said is not shown: `threadline sessions show` has it. Parked is what nobody could read or answer.
    """
    from threadline.app import with_gateway_store

    if fate is not None and fate not in _OUTCOMES:
        raise typer.BadParameter(f"{fate!r} is no fate: use one of {', '.join(_OUTCOMES)}")
    lines = with_gateway_store(db, lambda store: store.maintenance.list_messages(fate, limit=limit))
    if as_json:
        render.show_json(lines)
        return
    if not lines:
        render.print_line("No message came in yet.")
        return
    rows = [
        [
            str(line.pk),
            render.format_time(line.accepted_at),
            line.platform,
            line.person or "",
            line.fate,
            line.note or "",
        ]
        for line in lines
    ]
    render.show_table(
        ["Number", "Accepted", "Platform", "Who", "Fate", "Note"], rows, numbers=["Number"], gives_way="Note"
    )


@app.command(epilog=examples("threadline messages show 12", "threadline messages show 12 --json"))
def show(
    number: Annotated[
        int,
        typer.Argument(
            parser=whole_number(1), metavar="NUMBER", help="The number that `messages list` shows.", show_default=False
        ),
    ],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Tell the whole story of one message: who, when, which turn, which deliveries.

    What nobody could read is shown as it came.
    """
    from threadline.app import with_gateway_store

    story = with_gateway_store(db, lambda store: store.maintenance.trace_message(number))
    if as_json:
        render.show_json(story)
        return
    message, turn = story.message, story.turn
    facts = [
        ("From", f"{message.person or 'unknown'} as {message.role}, on {message.platform}"),
        ("Accepted", render.format_time(message.accepted_at)),
        ("Session", message.session_id or "none"),
        ("Fate", message.fate + (f": {message.note}" if message.note else "")),
    ]
    if turn is not None:
        facts.append(
            ("Turn", f"{turn.turn_id}: {turn.outcome or turn.state}, {render.count_text(turn.attempts, 'attempt')}")
        )
        if turn.error:
            facts.append(("Error", turn.error))
    facts += [("Delivery", _delivery_text(line)) for line in story.deliveries]
    render.show_facts(facts)
    if story.raw is not None:
        render.show_heading("What came")
        render.show_indented(story.raw)


def _delivery_text(line: DeliverySummary) -> str:
    files = f", {render.count_text(len(line.files), 'file')}" if line.files else ""
    return f"{line.pk}: {line.state}, {render.count_text(line.attempts, 'try', 'tries')}{files}"


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
        render.print_line("Nothing was to be sent.")
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
    render.print_line(f"Delivery {number} is tried again as soon as a gateway runs.")


@outbox_app.command(epilog=examples("threadline outbox drop 17"))
def drop(number: Number, db: Db = None) -> None:
    """Give a parked or waiting delivery up; it is never sent."""
    from threadline.app import with_gateway_store

    with_gateway_store(db, lambda store: store.outbox.drop(number))
    render.print_line(f"Delivery {number} is dropped.")
