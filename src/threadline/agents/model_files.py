"""Files that came with a message, as a model is shown them: pictures as pictures, text as text, of others that they are there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadline.errors import UnknownFile
from threadline.model.inbound import Attachment
from threadline.model.safe_text import safe_line
from threadline.ports.agent import Turn

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml"}
)
_MOST_PICTURE_BYTES = 5_000_000
_MOST_TEXT_BYTES = 200_000
_NAME_CHARS = 120


async def shown_files(turn: Turn) -> list[UserContent]:
    """What a model is shown of the files that a turn came with, in their order."""
    files = [file for spoken in turn.messages for file in spoken.attachments]
    return [part for file in files for part in await _shown(turn, file)]


def mention(files: Sequence[Attachment]) -> str:
    """A line for each file that went with an earlier message: what was in it is not sent again."""
    return "\n".join(f"[file: {named(file)}]" for file in files)


def named(file: Attachment) -> str:
    """The name of a file as a model reads it. It is a stranger's text: quoted, on one line, and of bounded length."""
    return json.dumps(safe_line(file.name, _NAME_CHARS) or "without a name", ensure_ascii=False)


async def _shown(turn: Turn, file: Attachment) -> list[UserContent]:
    from pydantic_ai.messages import BinaryContent

    most = _most_bytes(file.mime)
    if most is None or (file.size or 0) > most:
        return [f"[file: {named(file)}, which can't be shown here]"]
    try:
        body = await turn.fetch(file)
        if file.mime in PICTURES and len(body) <= most:
            return [f"[file: {named(file)}]", BinaryContent(body, media_type=file.mime)]
        text = body[:most].decode() if file.mime not in PICTURES else None
    except (UnknownFile, UnicodeDecodeError):
        text = None
    if text is None:
        return [f"[file: {named(file)}, which can't be shown here]"]
    return [f"[file: {named(file)}]\n{text}\n[end of file]"]


def _most_bytes(mime: str) -> int | None:
    if mime in PICTURES:
        return _MOST_PICTURE_BYTES
    return _MOST_TEXT_BYTES if mime.startswith("text/") or mime in _TEXTS else None
