"""Reading long transcripts in pages, and writing them out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from threadline.cli import render
from threadline.cli.formats import WRITERS
from threadline.cli.options import Format
from threadline.errors import InvalidRequest
from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry
from threadline.store.facade import SessionStore

T = TypeVar("T")

PAGE = 500


def read_whole_log(store: SessionStore, session_id: str) -> Iterator[TranscriptMessage]:
    """All that was ever said in the session itself, oldest first, a page at a time."""
    after = 0
    while page := store.read_log(session_id, after, PAGE):
        yield from page
        after = page[-1].ref.seq


def read_whole_view(store: SessionStore, session_id: str) -> Iterator[TranscriptMessage]:
    """All that the session's agent sees, oldest first, a page at a time."""
    page = store.page_transcript(session_id, limit=PAGE)
    yield from page
    while page.cursor is not None:
        page = store.page_transcript(session_id, limit=PAGE, cursor=page.cursor)
        yield from page


def read_log_tail(store: SessionStore, session_id: str, limit: int) -> list[TranscriptMessage]:
    """The last `limit` of `read_whole_log`."""
    return list(deque(read_whole_log(store, session_id), maxlen=limit))


def export_session(
    store: SessionStore,
    session_id: str,
    style: Format,
    output: Path | None,
    *,
    limit: int | None,
    every: bool,
) -> int:
    """Writes a session to a new file, for its owner alone, or to the screen; how many messages.

    A file that exists is `InvalidRequest`: nothing is overwritten. When writing fails no file is left.
    """
    entry = store.get_session(session_id)
    counted = Counted(_messages(store, entry, limit, every=every))
    chunks = WRITERS[style](entry, counted)
    if output is not None:
        write_new(output, chunks)
    elif style == "jsonl":
        for line in chunks:
            render.say_stored(line)
    else:
        render.say_text(chunks)
    return counted.count


def _messages(
    store: SessionStore, entry: SessionEntry, limit: int | None, *, every: bool
) -> Iterator[TranscriptMessage]:
    if not every and limit is None:
        return read_whole_view(store, entry.session_id)
    if not every:
        return iter(store.read_transcript(entry.session_id, limit))
    if limit is not None:
        return iter(read_log_tail(store, entry.session_id, limit))
    return read_whole_log(store, entry.session_id)


def write_new(output: Path, chunks: Iterator[str]) -> None:
    """Writes a new file, for its owner alone. Where one exists `InvalidRequest`; when writing fails no file is left."""
    try:
        output.touch(mode=0o600, exist_ok=False)
    except FileExistsError as cause:
        raise InvalidRequest(f"{output} exists; choose a new file: nothing was overwritten") from cause
    except OSError as cause:
        raise InvalidRequest(f"{output} can't be made: {cause.strerror}; choose another place") from cause
    try:
        with output.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(chunks)
    except OSError as cause:
        output.unlink(missing_ok=True)
        raise InvalidRequest(f"{output} can't be written: {cause.strerror}; nothing is left of it") from cause
    except BaseException:
        output.unlink(missing_ok=True)
        raise


class Counted(Iterator[T]):
    """Counts what passes through."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self.count = 0

    def __next__(self) -> T:
        item = next(self._items)
        self.count += 1
        return item
