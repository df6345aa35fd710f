"""A session and its messages as people read them on a terminal."""

from __future__ import annotations

from threadline.cli import render
from threadline.cli.parts import parts_of
from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry

_STYLES = {"text": "", "call": "cyan", "other": "dim"}


def show_session(entry: SessionEntry) -> None:
    """What the session is."""
    facts = [
        ("Session", entry.session_id),
        ("Title", entry.title or ""),
        ("Conversation", entry.session_key),
        ("Where", f"{entry.platform}, {entry.origin.description}"),
        ("Folder", entry.cwd or ""),
        ("Started", render.when(entry.created_at)),
        ("Updated", render.when(entry.updated_at)),
        ("Ended", f"{render.when(entry.ended_at)}, {entry.end_reason}" if entry.ended_at else ""),
        ("Continues", entry.parent_session_id or ""),
        ("Model", entry.model or ""),
        ("Messages", f"{entry.message_count:,} of its own"),
        ("Tokens", f"{entry.total_tokens:,}" if entry.total_tokens else ""),
        ("Cost", f"${entry.estimated_cost_usd:.4f}, {entry.cost_status}" if entry.cost_micros else ""),
    ]
    render.show_facts((name, value) for name, value in facts if value)


def show_message(message: TranscriptMessage, *, with_id: bool) -> None:
    """Who said it and when, then what was said."""
    beside = [render.when(message.at)]
    beside += [message.author] if message.author else []
    beside += [tool] if isinstance(tool := message.message.get("tool_name"), str) else []
    beside += [str(message.ref)] if with_id else []
    render.say("")
    render.show_heading(message.role, ", ".join(beside))
    for part in parts_of(message.message):
        render.show_indented(part.text, _STYLES[part.kind])
