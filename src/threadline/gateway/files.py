"""Files on their way through the gateway: fetched where they are when somebody wants them, read again when they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from threadline.errors import UnknownFile
from threadline.gateway.patience import patiently
from threadline.log import get_logger
from threadline.model.files import MAX_FILE_BYTES
from threadline.model.inbound import Attachment, stored_id
from threadline.ports.platform import (
    Capabilities,
    Fetches,
    Gone,
    Outgoing,
    OutgoingFile,
    Platform,
    PlatformError,
    TooLong,
)
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import Delivery
from threadline.texts import gateway as texts

log = get_logger(__name__)

_FETCH_SECONDS = 120.0


async def fetched(store: GatewayStore, platform: Platform | None, file: Attachment) -> bytes:
    """What is in a file that came with a message; `UnknownFile` says why it can't be had.

    `platform`: the account that has it, where it is connected. It is asked each time: nothing of it is kept here.
    """
    if (file_id := stored_id(file.handle)) is not None:
        return await store.files.read_body(file_id)
    name = file.name or "this file"
    if not isinstance(platform, Fetches):
        raise UnknownFile(f"what is in {name} can't be had from its platform")
    if (file.size or 0) > MAX_FILE_BYTES:
        raise _too_large(name)
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            body = await platform.fetch(file, at_most=MAX_FILE_BYTES)
    except Gone as cause:
        raise UnknownFile(f"{name} is gone from its platform; send it again") from cause
    except TooLong as cause:
        raise _too_large(name) from cause
    except (PlatformError, TimeoutError) as cause:
        raise UnknownFile(f"{name} can't be had from its platform just now; try again later") from cause
    except Exception as cause:  # an adapter is somebody else's: whatever it raises, the file can't be had
        log.exception("file.not_fetched", platform=file.platform)
        raise UnknownFile(f"{name} can't be had from its platform") from cause
    if len(body) > MAX_FILE_BYTES:
        raise _too_large(name)
    return body


async def outgoing(store: GatewayStore, can: Capabilities, delivery: Delivery, is_late: Callable[[], bool]) -> Outgoing:
    """The message of a delivery, with what is in its files.

    Where one is gone (somebody took back what it came with) or the platform takes none, the message says so instead.
    """
    bodies = [await _body(store, file, is_late) for file in delivery.files] if can.files else []
    files = tuple(
        OutgoingFile(name=file.name, mime=file.mime, body=body)
        for file, body in zip(delivery.files, bodies, strict=False)
        if body is not None
    )
    is_whole = len(files) == len(delivery.files)
    return Outgoing(
        text=delivery.text if is_whole else texts.FILES_NOT_SENT,
        reply_to=delivery.reply_to,
        buttons=delivery.buttons if can.buttons else (),
        files=files,
    )


async def _body(store: GatewayStore, file: Attachment, is_late: Callable[[], bool]) -> bytes | None:
    try:
        return await patiently(lambda: store.files.read_body(stored_id(file.handle) or ""), is_late)
    except UnknownFile:
        return None


def _too_large(name: str) -> UnknownFile:
    return UnknownFile(f"{name} is larger than {MAX_FILE_BYTES // 1_000_000} MB; send a smaller one, or a link to it")
