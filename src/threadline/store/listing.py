"""Pages of sessions, newest first, at a cost that does not depend on how many there are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidCursor, InvalidRequest
from threadline.model.ownership import Viewer
from threadline.model.session import SessionEntry
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import StoredSession, entry_of, session_of

T = TypeVar("T")

MAX_PAGE = 1_000
# So few at once that nobody waits long.
RELIST_STEP = 256
END = 2**62


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a longer list. It iterates like one; `cursor` asks for what follows, `None` at the end."""

    items: list[T]
    cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions a page shows. `cwd` is for whoever sees all: those alone that work in this very folder."""

    include_ended: bool = False
    active_since: Instant = Instant(-END)
    viewer: Viewer | None = None
    platform: str | None = None
    cwd: str | None = None
    limit: int = 50
    cursor: str | None = None


def list_sessions(tx: Tx, wanted: Listing) -> Page[SessionEntry]:
    """A page of sessions, the most recently updated first."""
    return _page(tx, wanted, entry_of)


def list_stored(tx: Tx, wanted: Listing) -> Page[StoredSession]:
    """The same page, with the numbers behind each session."""
    return _page(tx, wanted, session_of)


def relist_some(tx: Tx, limit: int = RELIST_STEP) -> int:
    """Brings the places of sessions in the indexes level with what happened to them; of how many. 0: all of them are."""
    moved = tx.rows("moved_sessions", limit=limit)
    for (session_pk,) in moved:
        tx.run("relist_session", session_pk=session_pk)
    return len(moved)


def _page(tx: Tx, wanted: Listing, made: Callable[[Row], T]) -> Page[T]:
    check_limit(wanted.limit)
    before_at, before_pk = decode_cursor("s", wanted.cursor, 2) if wanted.cursor else (END, END)
    common: dict[str, Any] = {
        "before_at": before_at,
        "before_pk": before_pk,
        "since": wanted.active_since,
        "limit": wanted.limit + 1,
    }
    rows = _rows(tx, wanted, common)[: wanted.limit + 1]
    entries = [made(row) for row in rows[: wanted.limit]]
    if len(rows) <= wanted.limit:
        return Page(entries)
    last = session_of(rows[wanted.limit - 1])
    return Page(entries, encode_cursor("s", to_instant(last.entry.updated_at), last.pk))


def _rows(tx: Tx, wanted: Listing, common: dict[str, Any]) -> list[Row]:
    ended = int(wanted.include_ended)
    viewer = wanted.viewer
    if viewer is not None and viewer.chat is not None:
        place = {"chat": viewer.chat, "owner": viewer.person, "platform": wanted.platform}
        return tx.rows("list_of_chat", ended=ended, **place, **common)
    if viewer is not None:
        return tx.rows("list_of_owner", ended=ended, owner=viewer.person, platform=wanted.platform, **common)
    return _of_platforms(tx, wanted, common)


def _of_platforms(tx: Tx, wanted: Listing, common: dict[str, Any]) -> list[Row]:
    """What everyone has on a platform, or on each: the index has them apart, the ended ones too."""
    rows: list[Row] = []
    for platform in platforms(tx, wanted.platform):
        for ended in (0, 1) if wanted.include_ended else (0,):
            if wanted.cwd is None:
                rows += tx.rows("list_of_platform", platform=platform, ended=ended, **common)
            else:
                rows += tx.rows("list_of_cwd", platform=platform, cwd=wanted.cwd, ended=ended, **common)
    # Each stretch is in order; the page is their merge.
    rows.sort(key=lambda row: (row[3], row[30]), reverse=True)
    return rows


def platforms(tx: Tx, only: str | None) -> list[str]:
    """The platforms that there are sessions of; or the one that is asked for."""
    return [platform for (platform,) in tx.rows("platforms")] if only is None else [only]


def check_limit(limit: int) -> None:
    """A page has at least one item and at most a thousand."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PAGE}, not {limit}")


def encode_cursor(kind: str, *numbers: int) -> str:
    """An opaque place in a listing."""
    text = ".".join([kind, *(str(number) for number in numbers)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str, count: int) -> tuple[int, ...]:
    """The place that `encode_cursor` named, or `InvalidCursor`."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        found, *parts = text.split(".")
        numbers = tuple(int(part) for part in parts)
    except (ValueError, binascii.Error) as cause:
        raise InvalidCursor from cause
    if found != kind or len(numbers) != count or any(abs(number) > END for number in numbers):
        raise InvalidCursor
    return numbers
