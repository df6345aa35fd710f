"""`threadline people`: what is known of someone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, Yes, examples
from threadline.cli.values import parse_path

if TYPE_CHECKING:
    from threadline.store.engine.database import Progress
    from threadline.store.facade import SessionStore
    from threadline.store.people.person_export import PersonRecord

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="People: hand out what is known of them, or erase it."
)
Who: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="WHO", help="The person, named by platform and sender id, such as telegram:7.", show_default=False
    ),
]


@app.command(
    epilog=examples(
        "threadline people export telegram:7 > ada.jsonl",
        "threadline people export telegram:7 --output ada.jsonl",
        "threadline people export telegram@work:7 -o ada.jsonl",
    )
)
def export(
    who: Who,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", parser=parse_path, help="A new file instead of the screen."),
    ] = None,
    db: Db = None,
) -> None:
    """Write all that is known of a person as JSON lines.

    One record a line, told apart by its `kind`: the person, then each session of theirs with all that was ever said in
    it, what they wrote in shared sessions, what their turns cost, what came in from them and what was sent to them. What
    others wrote is not in it.
    """
    from threadline.app import open_existing
    from threadline.cli.transcripts import Counted, write_new

    with open_existing(db) as store, _progress(output) as told:
        is_known = _is_known(store, who)
        lines = Counted(_lines(store, who, told))
        if output is not None:
            write_new(output, lines)
        for line in lines:
            render.say_stored(line)
    wrote = f"Wrote {render.counted(lines.count, 'record')}{'' if output is None else f' to {output}'}."
    render.note(wrote if is_known else f"{wrote} Nothing is known of {who}; people are named like telegram:7.")


@app.command(
    epilog=examples("threadline people erase telegram:7", "threadline people erase telegram:7 --yes"),
)
def erase(who: Who, yes: Yes = False, db: Db = None, as_json: AsJson = False) -> None:
    """Erase all that a person wrote, for good.

    What they wrote anywhere goes, the answers in conversations that were theirs alone, and their traces; so do the folders on
    this machine in which agents have worked for them. Afterwards the database's files no longer hold their words; copies and
    backups made before do. Export first what they should have.
    """
    from threadline.app import erase_agent_folders, open_existing

    with open_existing(db) as store:
        if not _is_known(store, who):
            render.note(f"Nothing is known of {who}; people are named like telegram:7.")
        elif not yes and not render.confirm(f"Erase all that {who} ever wrote, for good?"):
            render.note("Nothing was erased.")
            raise typer.Exit(1)
        count = store.erase_person(who) + erase_agent_folders(who)
    if as_json:
        render.show_json({"erased": count, "person": who})
    else:
        render.say(f"Erased {who}: {render.counted(count, 'thing')} went.")


def _is_known(store: SessionStore, who: str) -> bool:
    summary = store.export(who, limit=1)[0].summary
    return summary is not None and not summary.is_empty


def _progress(output: Path | None) -> AbstractContextManager[Progress]:
    """A bar, unless the lines themselves are on the screen."""
    return nullcontext(lambda _done, _total: None) if output is None else render.progress("Exporting")


def _lines(store: SessionStore, who: str, told: Progress) -> Iterator[str]:
    from threadline.store.rows import json_text

    total = 0
    for done, record in enumerate(_records(store, who), 1):
        if record.summary is not None:
            total = 1 + record.summary.following
        yield json_text(record.to_dict()) + "\n"
        # What is stored meanwhile comes on top of what was counted.
        told(done, max(done, total))


def _records(store: SessionStore, who: str) -> Iterator[PersonRecord]:
    page = store.export(who)
    yield from page
    while page.cursor is not None:
        page = store.export(who, cursor=page.cursor)
        yield from page
