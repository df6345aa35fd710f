"""`threadline messages`: what came in, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples
from threadline.cli.values import whole_number

if TYPE_CHECKING:
    from threadline.store.work.outbox import DeliverySummary

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="What came in: list it, and follow one message to its end."
)

_FATES = ("waiting", "running", "answered", "failed", "merged", "interrupted", "refused", "parked", "dropped")


@app.command("list", epilog=examples("threadline messages list", "threadline messages list --fate parked"))
def list_(
    fate: Annotated[str | None, typer.Option("--fate", metavar="FATE", help=f"Only: {', '.join(_FATES)}.")] = None,
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

    if fate is not None and fate not in _FATES:
        raise typer.BadParameter(f"{fate!r} is no fate: use one of {', '.join(_FATES)}")
    lines = with_gateway_store(db, lambda store: store.maintenance.list_messages(fate, limit=limit))
    if as_json:
        render.show_json(lines)
        return
    if not lines:
        render.say("No message came in yet.")
        return
    rows = [
        [str(line.pk), render.when(line.accepted_at), line.platform, line.person or "", line.fate, line.note or ""]
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
        ("Accepted", render.when(message.accepted_at)),
        ("Session", message.session_id or "none"),
        ("Fate", message.fate + (f": {message.note}" if message.note else "")),
    ]
    if turn is not None:
        facts.append(
            ("Turn", f"{turn.turn_id}: {turn.outcome or turn.state}, {render.counted(turn.attempts, 'attempt')}")
        )
        if turn.error:
            facts.append(("Error", turn.error))
    facts += [("Delivery", _told(line)) for line in story.deliveries]
    render.show_facts(facts)
    if story.raw is not None:
        render.show_heading("What came")
        render.show_indented(story.raw)


def _told(line: DeliverySummary) -> str:
    files = f", {render.counted(len(line.files), 'file')}" if line.files else ""
    return f"{line.pk}: {line.state}, {render.counted(line.attempts, 'try', 'tries')}{files}"
