"""`threadline sessions`: find conversations, read them, take them away."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Cursor, Db, Format, Platform, SessionId, Yes, examples
from threadline.cli.values import one_of, parse_age, parse_path, parse_since, parse_until, whole_number

if TYPE_CHECKING:
    from threadline.model.session import SessionEntry
    from threadline.store.conversations.search import Hit

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Conversations: find them, read them, take them away."
)

_AN_ID = "20260301_142200_3f9c2a7b51de"


@app.command(
    "list",
    epilog=examples(
        "threadline sessions list",
        "threadline sessions list --all --platform telegram --limit 10",
        "threadline sessions list --person telegram:7 --json",
    ),
)
def list_(
    every: Annotated[bool, typer.Option("--all", help="Ended sessions too.")] = False,
    platform: Platform = None,
    person: Annotated[
        str | None, typer.Option(metavar="PERSON", help="Only this person's own, such as telegram:7.")
    ] = None,
    active_minutes: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, 52_560_000), metavar="N", help="Only those updated in the last N minutes."),
    ] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, 1000), metavar="N", help="At most so many.")] = 50,
    cursor: Cursor = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, the most recently updated first."""
    from threadline.app import open_existing
    from threadline.cli.shapes import page_shape

    with open_existing(db) as store:
        page = store.list_sessions(
            active_minutes, include_ended=every, person=person, platform=platform, limit=limit, cursor=cursor
        )
    if as_json:
        render.show_json(page_shape(page))
        return
    if not page.items:
        render.say("No sessions." if every else "No sessions. --all shows ended ones too.")
        return
    columns = ["Updated", "Conversation", "Messages", *(["State"] if every else []), "Session"]
    rows = [_row(entry, with_state=every) for entry in page]
    render.show_table(columns, rows, numbers=["Messages"], gives_way="Conversation")
    if page.cursor:
        render.note(f"There are more: add --cursor {page.cursor}")


@app.command(
    epilog=examples(
        f"threadline sessions show {_AN_ID}",
        f"threadline sessions show {_AN_ID} --limit 5 --ids",
        f"threadline sessions show {_AN_ID} --all --json",
    ),
)
def show(
    session_id: SessionId,
    limit: Annotated[int, typer.Option(parser=whole_number(1, 100_000), metavar="N", help="The last N messages.")] = 50,
    ids: Annotated[bool, typer.Option("--ids", help="Show each message's id.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All that was ever said here, also what was undone or summed up.")
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show a session and the last messages that its agent sees."""
    from threadline.app import open_existing
    from threadline.cli.shapes import transcript_shape
    from threadline.cli.transcripts import read_log_tail

    with open_existing(db) as store:
        entry = store.get_session(session_id)
        read = read_log_tail(store, session_id, limit) if every else store.read_transcript(session_id, limit)
    if as_json:
        render.show_json(transcript_shape(entry, read))
        return
    from threadline.cli.portrait import show_message, show_session

    show_session(entry)
    for message in read:
        show_message(message, with_id=ids)


@app.command(
    epilog=examples(
        "threadline sessions search invoice",
        "threadline sessions search '\"exact phrase\" -draft pre*' --newest",
        "threadline sessions search backup --role user --since 30d --platform telegram",
    ),
)
def search(
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help='Words, "phrases", -not these, pre* for beginnings.', show_default=False),
    ],
    person: Annotated[
        str | None,
        typer.Option(metavar="PERSON", help="Only what this person wrote or owns, such as telegram:7."),
    ] = None,
    platform: Platform = None,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="Only this role, such as user.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="WHEN", parser=parse_since, help="From 2026-03-01, 2026-03-01T14:00 or 7d ago on."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="WHEN", parser=parse_until, help="Up to then; a day counts to its end."),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only in this session.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The latest first instead of the best.")] = False,
    limit: Annotated[int, typer.Option(parser=whole_number(1, 1000), metavar="N", help="At most so many.")] = 20,
    cursor: Cursor = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Search what was said, in any language; the found words stand out."""
    from threadline.app import open_existing
    from threadline.cli.shapes import search_shape

    with open_existing(db) as store:
        page = store.search(
            query,
            person=person,
            platform=platform,
            role=role,
            since=since,
            until=until,
            session=session,
            order="newest" if newest else "rank",
            limit=limit,
            cursor=cursor,
        )
    if as_json:
        render.show_json(search_shape(page))
        return
    for hit in page:
        _show_hit(hit)
    if not page.items:
        render.say("Nothing found.")
    if page.cursor:
        render.note(f"There are more: add --cursor {page.cursor}")
    if page.unindexed:
        late = render.counted(page.unindexed, "message")
        render.note(f"{late} could not be searched yet: the index is still catching up; search again in a while.")


@app.command(
    epilog=examples(f'threadline sessions title {_AN_ID} "Garden plans"', f"threadline sessions title {_AN_ID} --clear")
)
def title(
    session_id: SessionId,
    name: Annotated[str | None, typer.Argument(metavar="TITLE", help="The new title.", show_default=False)] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the title away.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Name a session, so that it can be resumed by name."""
    if (name is None) is not clear:
        raise typer.BadParameter("give a title, or --clear to take it away, and not both", param_hint="TITLE")
    from threadline.app import open_existing

    with open_existing(db) as store:
        entry = store.set_title(session_id, name)
    if as_json:
        render.show_json(entry.to_dict())
    elif entry.title is None:
        render.say(f"{entry.session_id} has no title now.")
    else:
        render.say(f"{entry.session_id} is called “{entry.title}”.")


@app.command(
    epilog=examples(
        f"threadline sessions export {_AN_ID} > talk.jsonl",
        f"threadline sessions export {_AN_ID} --format markdown -o talk.md",
        f"threadline sessions export {_AN_ID} --format html -o talk.html --all",
    )
)
def export(
    session_id: SessionId,
    style: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            parser=one_of(*get_args(Format)),
            help="jsonl (one message a line, exactly as stored), markdown or html.",
        ),
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", parser=parse_path, help="A new file instead of the screen."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(parser=whole_number(1), metavar="N", help="Only the last N messages.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All that was ever said here, also what was undone or summed up.")
    ] = False,
    db: Db = None,
) -> None:
    """Write a session's messages to the screen or a file.

    Markdown and HTML show text and tool calls; JSON lines hold everything.
    """
    from threadline.app import open_existing
    from threadline.cli.transcripts import export_session

    with open_existing(db) as store:
        written = export_session(store, session_id, style, output, limit=limit, every=every)
    if output is not None:
        render.note(f"Wrote {render.counted(written, 'message')} to {output}.")


@app.command(epilog=examples(f"threadline sessions delete {_AN_ID}", f"threadline sessions delete {_AN_ID} --yes"))
def delete(session_id: SessionId, yes: Yes = False, db: Db = None, as_json: AsJson = False) -> None:
    """Delete a session and its messages, for good. What its forks show stays with them."""
    from threadline.app import open_existing

    with open_existing(db) as store:
        entry = store.get_session(session_id)
        count = render.counted(entry.message_count, "message")
        if not yes and not render.confirm(f"Delete {session_id} ({_place(entry)}, {count}) for good?"):
            render.note("Nothing was deleted.")
            raise typer.Exit(1)
        store.delete_session(session_id)
    if as_json:
        render.show_json({"deleted": [session_id]})
    else:
        render.say(f"Deleted {session_id}.")


@app.command(
    epilog=examples(
        "threadline sessions prune --older-than 90d --dry-run",
        "threadline sessions prune --older-than 1y --ended-only --yes",
        "threadline sessions prune --older-than 8w --platform web",
    )
)
def prune(
    older_than: Annotated[
        timedelta,
        typer.Option(
            "--older-than",
            metavar="AGE",
            parser=parse_age,
            help="Last updated longer ago than this: 12h, 30d, 8w, 1y.",
            show_default=False,
        ),
    ],
    ended_only: Annotated[bool, typer.Option("--ended-only", help="Leave current conversations alone.")] = False,
    platform: Platform = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")] = False,
    yes: Yes = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Delete sessions that have been quiet for long, the oldest first."""
    from threadline.app import open_existing

    with open_existing(db) as store:
        count = store.prune(older_than, ended_only=ended_only, platform=platform, dry_run=True)
        if count and not dry_run:
            if not yes and not render.confirm(f"Delete {render.counted(count, 'session')} for good?"):
                render.note("Nothing was deleted.")
                raise typer.Exit(1)
            with render.progress("Deleting") as told:
                count = store.prune(older_than, ended_only=ended_only, platform=platform, progress=told)
    if as_json:
        render.show_json({"sessions": count, "dry_run": dry_run})
    else:
        render.say(f"{'Would delete' if dry_run else 'Deleted'} {render.counted(count, 'session')}.")


def _row(entry: SessionEntry, *, with_state: bool) -> list[str]:
    state = ["ended" if entry.ended_at else "current"] if with_state else []
    return [
        render.when(entry.updated_at),
        _place(entry),
        f"{entry.message_count:,}",
        *state,
        entry.session_id,
    ]


def _place(entry: SessionEntry) -> str:
    return f"{entry.platform}, {entry.label}"


def _show_hit(hit: Hit) -> None:
    message = hit.message
    who = f"{message.role}, {message.author}" if message.author else message.role
    render.show_heading(_place(hit.session), f"{who}, {render.when(message.at)}, {hit.ref}")
    render.show_snippet(hit.snippet)
