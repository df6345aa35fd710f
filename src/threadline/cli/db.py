"""`threadline db`: the database as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples, parse_path

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="The database as a whole: look, check, copy, upgrade."
)


@app.command("info", epilog=examples("threadline db info", "threadline db info --json --db ./threadline.db"))
def describe(db: Db = None, as_json: AsJson = False) -> None:
    """Say where the database is, how big it is and what is in it."""
    from threadline.app import open_existing

    with open_existing(db) as store:
        facts = store.facts()
    engine = facts.engine
    if as_json:
        render.show_json(
            {
                "engine": engine.engine,
                "engine_version": engine.engine_version,
                "location": engine.location,
                "schema_version": engine.schema_version,
                "size_bytes": engine.size_bytes,
                "journal_bytes": engine.wal_bytes,
                "sessions": facts.sessions,
                "ended_sessions": facts.ended_sessions,
                "messages": facts.messages,
                "behind": facts.unindexed,
            }
        )
        return
    render.show_facts(
        [
            ("Where", engine.location),
            ("Engine", f"{engine.engine} {engine.engine_version}, schema {engine.schema_version}"),
            ("Size", f"{render.format_size(engine.size_bytes)} and {render.format_size(engine.wal_bytes)} of journal"),
            ("Sessions", f"{facts.sessions:,}, {facts.ended_sessions:,} of them ended"),
            ("Messages", f"{facts.messages:,}, {facts.unindexed:,} of them not searchable yet"),
        ]
    )


@app.command(epilog=examples("threadline db check", "threadline db check --json"))
def check(db: Db = None, as_json: AsJson = False) -> None:
    """Check the file, every conversation and the search index against each other.

    The exit code is 1 if anything is wrong.
    """
    from threadline.app import open_existing

    with open_existing(db) as store, render.progress("Checking") as progress:
        report = store.check(progress=progress)
    if as_json:
        render.show_json(
            {
                "ok": report.ok,
                "faults": report.faults,
                "sessions": report.sessions,
                "messages": report.messages,
                "behind": report.unindexed,
            }
        )
    elif report.ok:
        looked_at = f"{render.count_text(report.sessions, 'session')}, {render.count_text(report.messages, 'message')}"
        render.print_line(f"All is well: {looked_at}.")
    else:
        for fault in report.faults:
            render.print_line(f"- {fault}")
        render.print_error(
            f"{render.count_text(len(report.faults), 'fault')} found; restore a backup, or report this as a bug"
        )
    if not report.ok:
        raise typer.Exit(1)


@app.command(epilog=examples("threadline db backup ~/threadline-copy.db", "threadline db backup copy.db --json"))
def backup(
    target: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The new file to write.", parser=parse_path, show_default=False),
    ],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Write a consistent, verified copy while others read and write.

    FILE must not exist yet. The copy is an SQLite database: open it with --db FILE.
    """
    from threadline.app import open_existing

    with open_existing(db) as store, render.progress("Copying") as progress:
        path = store.backup(target, progress=progress)
    size = path.stat().st_size
    if as_json:
        render.show_json({"path": str(path), "size_bytes": size, "verified": True})
    else:
        render.print_line(f"Wrote {path}: {render.format_size(size)}, verified.")


@app.command(
    epilog=examples("threadline db migrate", "threadline db migrate --db postgresql://me@localhost/threadline")
)
def migrate(db: Db = None, as_json: AsJson = False) -> None:
    """Make the database where it is missing, or bring an older one up to date.

    Safe to run again. Before an older database is brought up to date, stop the programs of an older version that use it.
    """
    from threadline.app import is_there, locate, open_existing, open_or_make
    from threadline.errors import SchemaTooOld

    outcome = "is up to date" if is_there(locate(db)) else "was made"
    if outcome == "is up to date":
        try:
            open_existing(db).close()
        except SchemaTooOld:
            outcome = "was brought up to date"
    with open_or_make(db) as store:
        engine = store.facts().engine
    if as_json:
        render.show_json(
            {
                "location": engine.location,
                "schema_version": engine.schema_version,
                "changed": outcome != "is up to date",
            }
        )
        return
    render.print_line(f"{engine.location} {outcome}: schema {engine.schema_version}.")
