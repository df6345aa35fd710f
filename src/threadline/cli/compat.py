"""`threadline compat`: what other programs of this kind left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from threadline.cli import render
from threadline.cli.options import AsJson, examples, parse_path
from threadline.errors import InvalidRequest

if TYPE_CHECKING:
    from threadline.store.engine.database import Progress
    from threadline.transfer.adoption import AdoptionReport

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Folders of another gateway: take them in.")


@app.command(
    epilog=examples(
        "threadline compat adopt ~/.hermes/sessions --dry-run",
        "threadline compat adopt ~/.hermes/sessions",
    )
)
def adopt(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", parser=parse_path, help="The folder with sessions.json and *.jsonl.", show_default=False
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be taken in.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take in every session and transcript of an older folder now.

    Otherwise each is taken in at its first use. They go into DIR/threadline.db, which `threadline.compat.SessionStore(DIR, config)`
    opens. The files stay as they are; what was taken in before is passed over.
    """
    if not folder.is_dir():
        raise InvalidRequest(f"{folder} is no folder; name the one that has sessions.json in it")
    try:
        with render.progress("Reading" if dry_run else "Taking in") as progress:
            report = _adopt(folder, progress, dry_run=dry_run)
    except OSError as cause:
        raise InvalidRequest(f"{cause.filename or folder} can't be read: {cause.strerror or cause}") from cause
    if as_json:
        render.show_json({"dry_run": dry_run, **msgspec.to_builtins(report)})
        return
    counts = f"{render.count_text(report.sessions, 'session')}, {render.count_text(report.messages, 'message')}"
    render.print_line(
        f"Would take in: {counts}." if dry_run else f"Taken in: {counts}. The old files are as they were."
    )
    for skipped in report.skipped:
        render.print_note(f"left out: {skipped.place}: {skipped.why}")


def _adopt(folder: Path, progress: Progress, *, dry_run: bool) -> AdoptionReport:
    from threadline.compat import SessionStore
    from threadline.compat.session import spelled_key
    from threadline.transfer.adopted_folder import survey

    if dry_run:
        return survey(folder, spelled_key, progress)
    with SessionStore(folder) as store:
        return store.adopt_all(progress)
