"""`threadline sessions`: find conversations, read them, take them away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from threadline.cli import render
from threadline.cli.options import (
    AsJson,
    Cursor,
    Db,
    Platform,
    SessionId,
    Yes,
    examples,
    one_of,
    parse_age,
    parse_path,
    parse_since,
    parse_until,
    whole_number,
)
from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry
from threadline.store.conversations.search import Hit, SearchPage
from threadline.store.facade import SessionStore
from threadline.store.rows import Page
from threadline.transfer.export import (
    WRITERS,
    CountingIterator,
    Format,
    read_log_tail,
    readable_parts,
    select_messages,
    write_new_file,
)

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Conversations: find them, read them, take them away."
)

_AN_ID = "20260301_142200_3f9c2a7b51de"

_STYLES = {"text": "", "call": "cyan", "other": "dim"}


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

    with open_existing(db) as store:
        page = store.list_sessions(
            active_minutes, include_ended=every, person=person, platform=platform, limit=limit, cursor=cursor
        )
    if as_json:
        render.show_json(page_json(page))
        return
    if not page.items:
        render.print_line("No sessions." if every else "No sessions. --all shows ended ones too.")
        return
    columns = ["Updated", "Conversation", "Messages", *(["State"] if every else []), "Session"]
    rows = [_row(entry, with_state=every) for entry in page]
    render.show_table(columns, rows, numbers=["Messages"], gives_way="Conversation")
    if page.cursor:
        render.print_note(f"There are more: add --cursor {page.cursor}")


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

    with open_existing(db) as store:
        entry = store.get_session(session_id)
        read = read_log_tail(store, session_id, limit) if every else store.read_transcript(session_id, limit)
    if as_json:
        render.show_json(transcript_json(entry, read))
        return
    render_session(entry)
    for message in read:
        render_message(message, with_id=ids)


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
        render.show_json(search_json(page))
        return
    for hit in page:
        _render_hit(hit)
    if not page.items:
        render.print_line("Nothing found.")
    if page.cursor:
        render.print_note(f"There are more: add --cursor {page.cursor}")
    if page.unindexed:
        late = render.count_text(page.unindexed, "message")
        render.print_note(f"{late} could not be searched yet: the index is still catching up; search again in a while.")


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
        render.print_line(f"{entry.session_id} has no title now.")
    else:
        render.print_line(f"{entry.session_id} is called “{entry.title}”.")


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

    with open_existing(db) as store:
        written = _export_session(store, session_id, style, output, limit=limit, every=every)
    if output is not None:
        render.print_note(f"Wrote {render.count_text(written, 'message')} to {output}.")


@app.command(epilog=examples(f"threadline sessions delete {_AN_ID}", f"threadline sessions delete {_AN_ID} --yes"))
def delete(session_id: SessionId, yes: Yes = False, db: Db = None, as_json: AsJson = False) -> None:
    """Delete a session and its messages, for good. What its forks show stays with them."""
    from threadline.app import open_existing

    with open_existing(db) as store:
        entry = store.get_session(session_id)
        count = render.count_text(entry.message_count, "message")
        if not yes and not render.confirm(f"Delete {session_id} ({_place(entry)}, {count}) for good?"):
            render.print_note("Nothing was deleted.")
            raise typer.Exit(1)
        store.delete_session(session_id)
    if as_json:
        render.show_json({"deleted": [session_id]})
    else:
        render.print_line(f"Deleted {session_id}.")


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
            if not yes and not render.confirm(f"Delete {render.count_text(count, 'session')} for good?"):
                render.print_note("Nothing was deleted.")
                raise typer.Exit(1)
            with render.progress("Deleting") as progress:
                count = store.prune(older_than, ended_only=ended_only, platform=platform, progress=progress)
    if as_json:
        render.show_json({"sessions": count, "dry_run": dry_run})
    else:
        render.print_line(f"{'Would delete' if dry_run else 'Deleted'} {render.count_text(count, 'session')}.")


def _row(entry: SessionEntry, *, with_state: bool) -> list[str]:
    state = ["ended" if entry.ended_at else "current"] if with_state else []
    return [
        render.format_time(entry.updated_at),
        _place(entry),
        f"{entry.message_count:,}",
        *state,
        entry.session_id,
    ]


def _place(entry: SessionEntry) -> str:
    return f"{entry.platform}, {entry.label}"


def _render_hit(hit: Hit) -> None:
    message = hit.message
    speaker = f"{message.role}, {message.author}" if message.author else message.role
    render.show_heading(_place(hit.session), f"{speaker}, {render.format_time(message.at)}, {hit.ref}")
    render.show_snippet(hit.snippet)


def _export_session(
    store: SessionStore,
    session_id: str,
    style: Format,
    output: Path | None,
    *,
    limit: int | None,
    every: bool,
) -> int:
    """Write a session to a new file that only its owner can read, or to the screen; return the number of messages.

    Raise `InvalidRequest` if the file exists or can't be written; no partial file is left.
    """
    entry = store.get_session(session_id)
    counted = CountingIterator(select_messages(store, entry, limit, every=every))
    chunks = WRITERS[style](entry, counted)
    if output is not None:
        write_new_file(output, chunks)
    elif style == "jsonl":
        for line in chunks:
            render.print_stored(line)
    else:
        render.print_text(chunks)
    return counted.count


def render_session(entry: SessionEntry) -> None:
    """Print the facts of a session."""
    facts = [
        ("Session", entry.session_id),
        ("Title", entry.title or ""),
        ("Conversation", entry.session_key),
        ("Where", f"{entry.platform}, {entry.origin.description}"),
        ("Folder", entry.cwd or ""),
        ("Started", render.format_time(entry.created_at)),
        ("Updated", render.format_time(entry.updated_at)),
        ("Ended", f"{render.format_time(entry.ended_at)}, {entry.end_reason}" if entry.ended_at else ""),
        ("Continues", entry.parent_session_id or ""),
        ("Model", entry.model or ""),
        ("Messages", f"{entry.message_count:,} of its own"),
        ("Tokens", f"{entry.total_tokens:,}" if entry.total_tokens else ""),
        ("Cost", f"${entry.estimated_cost_usd:.4f}, {entry.cost_status}" if entry.cost_micros else ""),
    ]
    render.show_facts((name, value) for name, value in facts if value)


def render_message(message: TranscriptMessage, *, with_id: bool) -> None:
    """Print the heading of a message, then its readable parts."""
    beside = [render.format_time(message.at)]
    beside += [message.author] if message.author else []
    beside += [tool] if isinstance(tool := message.message.get("tool_name"), str) else []
    beside += [str(message.ref)] if with_id else []
    render.print_line("")
    render.show_heading(message.role, ", ".join(beside))
    for part in readable_parts(message.message):
        render.show_indented(part.text, _STYLES[part.kind])


def message_json(message: TranscriptMessage) -> dict[str, Any]:
    """Return a message as `--json` prints it; `message` holds the stored form."""
    return {
        "id": str(message.ref),
        "role": message.role,
        "at": message.at,
        "author": message.author,
        "redacted": message.redacted,
        "message": message.message,
    }


def page_json(page: Page[SessionEntry]) -> dict[str, Any]:
    """Return a page of sessions with the cursor of the next page."""
    return {"sessions": [entry.to_dict() for entry in page], "cursor": page.cursor}


def transcript_json(entry: SessionEntry, messages: Sequence[TranscriptMessage]) -> dict[str, Any]:
    """Return a session with its messages."""
    return {"session": entry.to_dict(), "messages": [message_json(message) for message in messages]}


def search_json(page: SearchPage) -> dict[str, Any]:
    """Return hits, the cursor of the next page, and the number of messages that are not indexed yet."""
    return {"hits": [_hit_json(hit) for hit in page], "cursor": page.cursor, "behind": page.unindexed}


def _hit_json(hit: Hit) -> dict[str, Any]:
    return {
        "session": hit.session.to_dict(),
        "message": message_json(hit.message),
        "snippet": hit.snippet,
        "rank": hit.rank,
        "before": None if hit.before is None else message_json(hit.before),
        "after": None if hit.after is None else message_json(hit.after),
    }
