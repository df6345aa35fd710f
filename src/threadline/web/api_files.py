"""Files that come with messages: kept for who sent them, and given back to them alone, as something to download."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote

from starlette.responses import Response

from threadline.model.files import MAX_FILE_BYTES, StoredFile
from threadline.web.calls import Call, read_body, told
from threadline.web.shapes import Attachment, FileWanted

# A file of the greatest size in base64, and what stands around it.
MOST_BYTES = MAX_FILE_BYTES * 4 // 3 + 8_192


class Files(Protocol):
    """Keeps files."""

    async def keep_file(self, person: str, body: bytes, *, name: str = "", mime: str = "") -> StoredFile: ...

    async def read_file(self, person: str, file_id: str) -> tuple[StoredFile, bytes]: ...


async def keep(call: Call) -> Response:
    """Keeps a file until it comes with a message; the same content again is the same file."""
    wanted = await read_body(call.request, FileWanted)
    files: Files = call.web.store
    kept = await files.keep_file(call.caller.person, wanted.content, name=wanted.name, mime=wanted.mime)
    return told(Attachment(id=kept.file_id, name=kept.name, mime=kept.mime, size=kept.size), 201)


async def read(call: Call) -> Response:
    """A file of one's own, to download: nothing in it runs here, whatever it says that it is."""
    files: Files = call.web.store
    kept, body = await files.read_file(call.caller.person, call.conversation)
    return Response(
        body,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(kept.name, safe='')}",
            "Content-Security-Policy": "sandbox",
            "Cache-Control": "private, no-cache",
        },
    )
