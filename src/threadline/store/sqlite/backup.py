"""A consistent copy of a file while others write to it."""

from __future__ import annotations

from pathlib import Path

import apsw

from threadline.errors import InvalidRequest, StoreUnavailable
from threadline.store.database import Progress
from threadline.store.sqlite.connection import translated

_PAGES_A_STEP = 2_000
_RESTARTS = 3


def copy_database(source: apsw.Connection, target: Path, progress: Progress) -> None:
    """Copies page by page. A write by someone else starts the copy over; after a few such restarts it is done in one go."""
    partial = target.with_name(target.name + ".part")
    if target.exists():
        raise InvalidRequest(f"{target} exists; choose a new file for the copy")
    try:
        partial.touch(mode=0o600)
    except OSError as cause:
        raise StoreUnavailable(f"{partial} can't be made: {cause.strerror}; choose another place") from cause
    try:
        with translated(partial):
            _copy(source, partial, progress)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _copy(source: apsw.Connection, partial: Path, progress: Progress) -> None:
    copy = apsw.Connection(str(partial))
    try:
        with copy.backup("main", source, "main") as backup:
            restarts, remaining = 0, None
            while not backup.done:
                backup.step(_PAGES_A_STEP if restarts < _RESTARTS else -1)
                if remaining is not None and backup.remaining > remaining:
                    restarts += 1
                remaining = backup.remaining
                progress(backup.page_count - backup.remaining, backup.page_count)
        # The copy stands alone: no journal beside it.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        copy.execute("PRAGMA synchronous = FULL").fetchall()
    finally:
        copy.close()
