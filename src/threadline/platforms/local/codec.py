"""What is typed at a terminal, and what of an answer may be shown for good. Pure."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource

# An indented line may still belong to a list above it; only what begins at the margin begins something new.
_FENCE_OR_GAP = re.compile(r"^[ \t]{0,12}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$|\n[^\S\n]*\n(?=\S)", re.MULTILINE)


def typed(text: str, *, user: str, account: str, message_id: str, at: datetime) -> Inbound:
    """A line that `user` typed."""
    place = SessionSource.local_cli()
    return Inbound(
        dedupe_key=message_id,
        message_id=message_id,
        source=msgspec.structs.replace(place, account=account, user_id=user, user_name=user),
        sent_at=at,
        text=text,
        mentions_us=True,
    )


def finished(text: str, start: int = 0) -> int:
    """Where the last complete block of a markdown text that still grows ends, from `start` on, which is the start of one."""
    end, fence = start, ""
    for found in _FENCE_OR_GAP.finditer(text[start:]):
        mark, info = found.groups()
        if mark is None:
            end = end if fence else start + found.end()
        elif not fence:
            fence = mark
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return end
