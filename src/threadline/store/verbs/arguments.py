"""What callers may say: arguments are checked and brought into form before anything is asked of a database."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TypeAlias

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidRequest
from threadline.model.ownership import Viewer, person_of, viewer_of_source
from threadline.model.source import SessionSource

Who: TypeAlias = SessionSource | str | None

MAX_KEY_CHARS = 512
MAX_TITLE_CHARS = 200
MAX_PATH_CHARS = 4_096
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(what: str, text: str, limit: int = MAX_KEY_CHARS) -> str:
    """Text that both engines can keep in a column: no NUL, no half surrogates, not endless. Else `InvalidRequest`."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} must be text, not {type(text).__name__}")
    if len(text) > limit:
        raise InvalidRequest(f"{what} has {len(text)} characters; {limit} is the most")
    if _UNSTORABLE.search(text):
        raise InvalidRequest(f"{what} must not hold NUL or half of a surrogate pair")
    return text


def clean_or_none(what: str, text: str | None, limit: int = MAX_KEY_CHARS) -> str | None:
    """`clean_text` for what may be left out."""
    return None if text is None else clean_text(what, text, limit)


def clean_title(title: str | None) -> str | None:
    """A title on one line; `None` where there is to be none. One that nobody could see is `InvalidRequest`."""
    text = None if title is None else " ".join(clean_text("title", title, MAX_TITLE_CHARS).split())
    if text == "":
        raise InvalidRequest("a title needs at least one visible character; use None to take it away")
    return text


def person_named(who: Who) -> str | None:
    """The person that a source speaks for, or that a name such as `telegram:7` names."""
    return (
        person_of(who) if isinstance(who, SessionSource) else clean_or_none("a person's name", who, 2 * MAX_KEY_CHARS)
    )


def viewer_of(who: Who) -> Viewer | None:
    """What a person sees, or the sender of a source from where they write; `None`: the operator, who sees all."""
    if who is None:
        return None
    return viewer_of_source(who) if isinstance(who, SessionSource) else Viewer(person_named(who))


def instant_of(moment: datetime | None, otherwise: int = 0) -> Instant:
    """A moment that a caller named; a naive one is `InvalidRequest`, because its zone would be a guess."""
    if moment is None:
        return Instant(otherwise)
    try:
        return to_instant(moment)
    except ValueError as cause:
        raise InvalidRequest(str(cause)) from cause


def minutes_before(now: datetime, minutes: float) -> Instant:
    """The instant so many minutes ago."""
    try:
        return to_instant(now - timedelta(minutes=minutes))
    except (OverflowError, ValueError, TypeError) as cause:
        raise InvalidRequest(f"{minutes!r} is no number of minutes that can be counted back from now") from cause


def moment_before(now: datetime, older_than: timedelta | datetime) -> Instant:
    """A moment, or the one that lies so long ago."""
    if isinstance(older_than, datetime):
        return instant_of(older_than)
    try:
        return to_instant(now - older_than)
    except (OverflowError, TypeError) as cause:
        raise InvalidRequest(f"{older_than!r} is no time span that can be counted back from now") from cause
