"""A blocking store for packages of ours that put operations of the store together in their own way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from threadline.store.engine.database import Tx, drive, read, write
from threadline.store.facade import SessionStore
from threadline.store.rows import Page

P = ParamSpec("P")
T = TypeVar("T")


class ComposableStore(SessionStore):
    """A `SessionStore` that also carries out operations which are no verbs of it."""

    def run_write(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> T:
        """Run the operation in a transaction that is durable when this returns; return its result."""
        result = drive(self._database, write(operation, *args, **options))
        self._upkeep.nudge()
        return result

    def run_read(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> T:
        """Run the operation on one consistent snapshot; return its result."""
        return drive(self._database, read(operation, *args, **options))

    def read_pages(self, operation: Callable[..., Page[T]], /, *args: object) -> Iterator[T]:
        """Yield what an operation that takes a cursor finds, page by page; each page is a snapshot of its own."""
        cursor: str | None = None
        while True:
            page: Page[T] = self.run_read(operation, cursor, *args)
            yield from page
            cursor = page.cursor
            if cursor is None:
                return


# Files that this process has open as stores. To open and close such a file otherwise would drop the locks that SQLite holds on it.
_OPEN_HERE: Counter[tuple[int, int]] = Counter()
_COUNTING = threading.Lock()


def is_open_here(path: Path) -> bool:
    """Whether this process has the file open as a store that is opened at first use."""
    return _OPEN_HERE[_file_id(path)] > 0


def _file_id(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return 0, 0
    return facts.st_dev, facts.st_ino


class OpenedAtFirstUse:
    """A store file that is opened by the first call that needs it. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = threading.RLock()
        self._opened: ComposableStore | None = None
        self._file_id = (0, 0)

    @property
    def core(self) -> ComposableStore:
        """Our own store behind this one."""
        if (opened := self._opened) is not None:
            return opened
        with self._opening:
            # Another thread may have opened it meanwhile.
            self._opened = self._opened or self._open()
            return self._opened

    def _open(self) -> ComposableStore:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = ComposableStore.open(self._path)
        try:
            self._begin(opened)
        except BaseException:
            opened.close()
            raise
        self._file_id = _file_id(self._path)
        with _COUNTING:
            _OPEN_HERE[self._file_id] += 1
        return opened

    def _begin(self, opened: ComposableStore) -> None:
        """Do what is to be done once before anything else."""

    def close(self) -> None:
        """Release the file. The next call opens it again."""
        with self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                # By what it was when it was opened: the file may have been deleted or replaced.
                with _COUNTING:
                    _OPEN_HERE[self._file_id] -= 1
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
