"""A disk whose power can be cut afterwards, at any instant.

Everything that SQLite asks of its files is carried out and written down. A cut replays what was written down
up to some moment into a folder: what was synced by then is there; of what was not, nothing, a part, or torn
sectors, as the cut says.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import apsw
import msgspec

Loss: TypeAlias = Literal["everything unsynced", "the latest unsynced", "some unsynced sectors", "nothing"]
LOSSES: tuple[Loss, ...] = ("everything unsynced", "the latest unsynced", "some unsynced sectors", "nothing")
SECTORS = (512, 4096)


class Write(msgspec.Struct, frozen=True):
    """Bytes at a place; not durable before the file's next sync."""

    file: str
    offset: int
    body: bytes


class Truncate(msgspec.Struct, frozen=True):
    """The file got this size; not durable before its next sync."""

    file: str
    size: int


class Sync(msgspec.Struct, frozen=True):
    """All that was done to the file before is durable."""

    file: str


class Delete(msgspec.Struct, frozen=True):
    """The file is gone."""

    file: str


class Acknowledged(msgspec.Struct, frozen=True):
    """The store told its caller that this is kept."""

    what: str


Change: TypeAlias = Write | Truncate
Event: TypeAlias = Change | Sync | Delete | Acknowledged


class RecordingDisk(apsw.VFS):
    """SQLite's own disk, with a record of every change in the order in which they came."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.record: list[Event] = []
        self._lock = threading.Lock()

    def acknowledge(self, what: str) -> None:
        """To be called when an append has returned."""
        self.note(lambda: None, Acknowledged(what))

    def note(self, change: Callable[[], None], event: Event) -> None:
        """Carries a change out and writes it down, in one order for all files."""
        with self._lock:
            change()
            self.record.append(event)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.note(lambda: super(RecordingDisk, self).xDelete(filename, syncdir), Delete(Path(filename).name))


class _RecordedFile(apsw.VFSFile):
    """An open file. Shared memory and locks are the base disk's: they don't outlive the power."""

    def __init__(self, disk: RecordingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        spelled = name.filename() if isinstance(name, apsw.URIFilename) else name
        # A file without a name is SQLite's scratch space; nobody looks for it after a crash.
        self._name = Path(spelled).name if spelled else ""

    def xWrite(self, data: object, offset: int) -> None:  # noqa: N802
        body = bytes(data)  # type: ignore[call-overload]
        self._disk.note(lambda: super(_RecordedFile, self).xWrite(body, offset), Write(self._name, offset, body))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.note(lambda: super(_RecordedFile, self).xTruncate(newsize), Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        # The real sync is left out: it is the record that is looked at afterwards.
        self._disk.note(lambda: None, Sync(self._name))


def acknowledged(record: list[Event]) -> list[str]:
    """What the store had promised to keep by the end of a record."""
    return [event.what for event in record if isinstance(event, Acknowledged)]


def cut_power(record: list[Event], folder: Path, loss: Loss, rng: random.Random) -> None:
    """Makes the files as they are found after the power went at the end of `record`."""
    files: dict[str, bytearray] = {}
    unsynced: list[Change] = []
    for event in record:
        match event:
            case Sync(file):
                _apply(files, [change for change in unsynced if change.file == file])
                unsynced = [change for change in unsynced if change.file != file]
            case Delete(file):
                files.pop(file, None)
                unsynced = [change for change in unsynced if change.file != file]
            case Write() | Truncate():
                unsynced.append(event)
    _apply(files, _surviving(unsynced, loss, rng))
    for name, content in files.items():
        if name:
            (folder / name).write_bytes(content)


def _surviving(unsynced: list[Change], loss: Loss, rng: random.Random) -> list[Change]:
    if loss == "everything unsynced":
        return []
    if loss == "the latest unsynced":
        return unsynced[: rng.randint(0, len(unsynced))]
    if loss == "some unsynced sectors":
        sector = rng.choice(SECTORS)
        torn = [part for change in unsynced for part in _sectors(change, sector)]
        return [part for part in torn if rng.random() < 0.5]
    return unsynced


def _sectors(change: Change, sector: int) -> list[Change]:
    if isinstance(change, Truncate):
        return [change]
    parts: list[Change] = []
    start, end = change.offset, change.offset + len(change.body)
    while start < end:
        stop = min(end, (start // sector + 1) * sector)
        parts.append(Write(change.file, start, change.body[start - change.offset : stop - change.offset]))
        start = stop
    return parts


def _apply(files: dict[str, bytearray], changes: list[Change]) -> None:
    for change in changes:
        content = files.setdefault(change.file, bytearray())
        if isinstance(change, Truncate):
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        else:
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset : change.offset + len(change.body)] = change.body
