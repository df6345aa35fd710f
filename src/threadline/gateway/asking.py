"""Questions that an agent puts to people: what may be asked, and how it is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from threadline.model.delivery import Button
from threadline.model.safe_text import safe_json, safe_line, safe_text
from threadline.ports.agent import AskPermission, Event
from threadline.texts import gateway as texts

ASK_LASTS = timedelta(days=1)
# What nobody can read in a chat, nobody can answer for.
ASK_AT_MOST = 20_000
_NAME_AT_MOST = 120
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f]")
_FENCES = re.compile("`{3,}")


def checked_ask(ask: AskPermission) -> AskPermission:
    """The question, if it can be shown and kept whole; else `ValueError` says why not."""
    checked = msgspec.convert(msgspec.structs.asdict(ask), AskPermission)
    asked = len(checked.tool) + len(checked.arguments) + len(checked.reason)
    if asked > ASK_AT_MOST:
        raise ValueError(f"a question of {asked} characters is more than anybody reads; {ASK_AT_MOST} are the limit")
    if _UNREADABLE.search(checked.arguments):
        raise ValueError("a question holds control characters, which nobody can read; write them as JSON escapes")
    return checked


def question(ask: AskPermission, code: str) -> str:
    """The question as a chat shows it: the whole call, and how to answer."""
    longest = max((len(run) for run in _FENCES.findall(ask.arguments)), default=2)
    fence = "`" * (longest + 1)
    return texts.ASK.format(
        tool=safe_line(ask.tool, _NAME_AT_MOST),
        call=f"{fence}\n{safe_json(ask.arguments)}\n{fence}",
        reason=f"{safe_text(ask.reason)}\n\n" if ask.reason.strip() else "",
        code=code,
        what=texts.ASK_FOR_GOOD if ask.is_for_good else texts.ASK_ONCE,
    )


def buttons(code: str) -> tuple[Button, ...]:
    """The answers, for those who would rather press than type."""
    return (Button(texts.ASK_YES, f"/approve {code}"), Button(texts.ASK_NO, f"/deny {code}"))


def since_asked(events: Sequence[Event]) -> Sequence[Event]:
    """What a turn said and did since it last asked: what came before stands in the chat already."""
    for place in range(len(events) - 1, -1, -1):
        if isinstance(events[place], AskPermission):
            return events[place + 1 :]
    return events
