"""One `serve` per SQLite file: a lock that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from threadline.errors import AlreadyServed, StoreReadOnly

_MOST = 1000


class Holder(msgspec.Struct, frozen=True):
    """The gateway that has the lock. `address` is empty until its page answers."""

    process: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.process} at {self.address}" if self.address else self.process


class ServeLock:
    """Held for the length of a `with`. Whoever gets it knows that no other gateway lives on the file."""

    def __init__(self, database: Path, process: str) -> None:
        """`process` is what others are told of who has it."""
        self._path = database.with_name(database.name + ".serve")
        self._process = process
        self._file: int | None = None

    @classmethod
    def holder_of(cls, database: Path) -> Holder | None:
        """Who serves the file now; `None` if nobody does."""
        try:
            opened = os.open(database.with_name(database.name + ".serve"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(opened)
        finally:
            os.close(opened)
        return None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise StoreReadOnly(f"{self._path} can't be written; check who owns the file and its folder") from cause
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            holder = _read(opened)
            os.close(opened)
            raise AlreadyServed(
                f"{self._path.with_suffix('')} is served by {holder} already;"
                " stop that one first, or use another database with --db"
            ) from cause
        self._file = opened
        self.announce("")
        return self

    def announce(self, address: str) -> None:
        """Tells others, while the lock is held, at which address the page of its holder is."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{self._process}\n{address}".encode()[:_MOST], 0)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # The lock goes with the file; the name stays, so that nobody locks a file that is no longer there.
            os.close(self._file)
            self._file = None


def _read(opened: int) -> Holder:
    process, _, address = os.pread(opened, _MOST, 0).decode(errors="replace").partition("\n")
    return Holder(process.strip() or "another gateway", address.strip())
