"""What `--json` prints: plain values, the same names as in the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry
from threadline.store.conversations.search import Hit, SearchPage
from threadline.store.rows import Page


def message_shape(message: TranscriptMessage) -> dict[str, Any]:
    """A message with its id, time and author; under `message` it stands as it was stored."""
    return {
        "id": str(message.ref),
        "role": message.role,
        "at": message.at,
        "author": message.author,
        "redacted": message.redacted,
        "message": message.message,
    }


def page_shape(page: Page[SessionEntry]) -> dict[str, Any]:
    """A page of sessions and where the next one starts."""
    return {"sessions": [entry.to_dict() for entry in page], "cursor": page.cursor}


def transcript_shape(entry: SessionEntry, messages: Sequence[TranscriptMessage]) -> dict[str, Any]:
    """A session and what was said in it."""
    return {"session": entry.to_dict(), "messages": [message_shape(message) for message in messages]}


def search_shape(page: SearchPage) -> dict[str, Any]:
    """Hits, where the next ones start, and how many messages could not be looked at yet."""
    return {"hits": [_hit_shape(hit) for hit in page], "cursor": page.cursor, "behind": page.unindexed}


def _hit_shape(hit: Hit) -> dict[str, Any]:
    return {
        "session": hit.session.to_dict(),
        "message": message_shape(hit.message),
        "snippet": hit.snippet,
        "rank": hit.rank,
        "before": None if hit.before is None else message_shape(hit.before),
        "after": None if hit.after is None else message_shape(hit.after),
    }
