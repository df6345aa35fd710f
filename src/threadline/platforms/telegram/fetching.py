"""Files that came with messages: Telegram keeps them, and gives them out by their handle."""

from __future__ import annotations

import msgspec

from threadline.model.inbound import Attachment
from threadline.platforms.telegram.client import Client
from threadline.ports.platform import Ambiguous, Gone, TooLong, Transient


class _FilePlace(msgspec.Struct, frozen=True):
    file_path: str | None = None
    file_size: int | None = None


async def fetch_file(client: Client, attachment: Attachment, *, at_most: int) -> bytes:
    """What is in a file. `Gone` where Telegram does not have it any more, `TooLong` where it is more than so many bytes."""
    _check_size(attachment.size, at_most)
    try:
        found = msgspec.convert(await client.call("getFile", {"file_id": attachment.handle}), _FilePlace)
    except Ambiguous as cause:
        # Nothing is done by asking.
        raise Transient(str(cause)) from cause
    except msgspec.ValidationError as cause:
        raise Transient(f"Telegram does not say where the file is: {cause}") from cause
    _check_size(found.file_size, at_most)
    if not found.file_path:
        raise Gone("Telegram does not give the file out")
    return await client.download(found.file_path, at_most=at_most)


def _check_size(size: int | None, at_most: int) -> None:
    if size is not None and size > at_most:
        raise TooLong(f"the file is larger than {at_most:,} bytes")
