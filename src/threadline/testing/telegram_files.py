"""The files of a Telegram of a test: what was uploaded, and what a message says of it."""

from __future__ import annotations

import itertools
from pathlib import PurePosixPath
from typing import Any

import msgspec

from threadline.testing.telegram_values import FileKind, Json

# What a kind has beside the file itself.
_SHAPES: dict[FileKind, Json] = {
    "photo": {"width": 90, "height": 60},
    "document": {},
    "voice": {"duration": 2},
    "audio": {"duration": 2},
    "video": {"duration": 2, "width": 90, "height": 60},
    "animation": {"duration": 2, "width": 90, "height": 60},
}
_USUAL: dict[FileKind, tuple[str, str]] = {
    "photo": ("photo.jpg", "image/jpeg"),
    "document": ("paper.txt", "text/plain"),
    "voice": ("voice.ogg", "audio/ogg"),
    "audio": ("song.mp3", "audio/mpeg"),
    "video": ("clip.mp4", "video/mp4"),
    "animation": ("loop.mp4", "video/mp4"),
}
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF")


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that somebody sent."""

    file_id: str
    unique_id: str
    kind: FileKind
    name: str
    mime: str
    body: bytes
    path: str


class Files:
    """All files. Each upload is a file of its own."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._paths: dict[str, StoredFile] = {}
        self._numbers = itertools.count(1)

    def add(self, body: bytes, *, kind: FileKind, name: str | None = None, mime: str | None = None) -> StoredFile:
        """Keeps a file."""
        number, (usual_name, usual_mime) = next(self._numbers), _USUAL[kind]
        called = name or usual_name
        file = StoredFile(
            file_id=f"{kind}-file-{number}",
            unique_id=f"unique-{number}",
            kind=kind,
            name=called,
            mime=mime or usual_mime,
            body=body,
            path=f"{kind}s/file_{number}{PurePosixPath(called).suffix}",
        )
        self._files[file.file_id] = self._paths[file.path] = file
        return file

    def find(self, file_id: str) -> StoredFile | None:
        """The file with this id."""
        return self._files.get(file_id)

    def at(self, path: str) -> StoredFile | None:
        """The file that is downloaded from there."""
        return self._paths.get(path)

    def wire(self, file: StoredFile, more: Json | None = None) -> Any:
        """What a message has in the field of its kind."""
        value = {"file_id": file.file_id, "file_unique_id": file.unique_id, "file_size": len(file.body)}
        value |= _SHAPES[file.kind]
        if file.kind == "photo":
            return [value | (more or {})]
        if file.kind != "voice":
            value["file_name"] = file.name
        return value | {"mime_type": file.mime} | (more or {})


def is_picture(body: bytes) -> bool:
    """Whether a file begins as pictures do."""
    return body.startswith(_PICTURES)
