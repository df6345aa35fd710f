"""One `serve` per SQLite file: a lock that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from threadline.errors import AlreadyServed, StoreReadOnly

_MOST = 200


class ServeLock:
    """Held for the length of a `with`. Whoever gets it knows that no other gateway lives on the file."""

    def __init__(self, database: Path, holder: str) -> None:
        """`holder` is what others are told of who has it."""
        self._path = database.with_name(database.name + ".serve")
        self._holder = holder
        self._file: int | None = None

    @classmethod
    def holder_of(cls, database: Path) -> str | None:
        """Who serves the file now; `None` if nobody does."""
        try:
            opened = os.open(database.with_name(database.name + ".serve"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(opened, _MOST, 0).decode(errors="replace").strip() or "another gateway"
        finally:
            os.close(opened)
        return None

    def __enter__(self) -> Self:
        try:
            opened = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{self._path} can't be written; check who owns the file and its folder") from cause
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            told = os.pread(opened, _MOST, 0).decode(errors="replace").strip()
            os.close(opened)
            raise AlreadyServed(
                f"{self._path.with_suffix('')} is served by {told or 'another gateway'} already;"
                " stop that one first, or use another database with --db"
            ) from cause
        os.ftruncate(opened, 0)
        os.pwrite(opened, self._holder.encode()[:_MOST], 0)
        self._file = opened
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # The lock goes with the file; the name stays, so that nobody locks a file that is no longer there.
            os.close(self._file)
            self._file = None
