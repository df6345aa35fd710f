"""The methods of the Bot API that send files, one or an album of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec

from threadline.testing.telegram_files import StoredFile, is_picture
from threadline.testing.telegram_methods import LONGEST_CAPTION, Calling, Method, caption_fields, show, spot_asked
from threadline.testing.telegram_text import Entity, marked
from threadline.testing.telegram_values import ApiError, BadRequest, FileKind, Json

_LARGEST_PHOTO = 10 * 1024 * 1024
_LARGEST_FILE = 50 * 1024 * 1024
_ALBUM = range(2, 11)
# These stand in an album with others of their kind alone.
_AMONG_THEMSELVES = frozenset(["document", "audio"])
_IN_ALBUMS = frozenset(["photo", "video", "document", "audio"])


class InputMedia(msgspec.Struct):
    """One file of an album."""

    type: str
    media: str
    caption: str = ""
    caption_entities: list[Entity] = msgspec.field(default_factory=list)
    parse_mode: str | None = None


def _send(kind: FileKind) -> Method:
    def send(call: Calling) -> Json:
        spot = spot_asked(call)
        caption = caption_fields(call.asked)
        file = _file_asked(call, kind, call.asked.text(kind), kind)
        return show(call, spot, {kind: call.world.files.wire(file)} | caption)

    return send


def _file_asked(call: Calling, kind: FileKind, reference: str, field: str) -> StoredFile:
    """The file that is meant: one that is uploaded with the call, or one that is there already."""
    name = reference.removeprefix("attach://") if reference.startswith("attach://") else field
    if (upload := call.asked.uploads.get(name)) is not None:
        _check_upload(kind, upload.body)
        return call.world.files.add(upload.body, kind=kind, name=upload.name, mime=upload.mime)
    if not reference:
        raise BadRequest(f"there is no {kind} in the request")
    if reference.startswith(("http://", "https://")):
        raise BadRequest("failed to get HTTP URL content")
    if (file := call.world.files.find(reference)) is None:
        raise BadRequest("wrong file identifier/HTTP URL specified")
    if file.kind != kind:
        raise BadRequest(f"can't use file of type {file.kind.capitalize()} as {kind.capitalize()}")
    return file


def _check_upload(kind: FileKind, body: bytes) -> None:
    if not body:
        raise BadRequest("file must be non-empty")
    if len(body) > _LARGEST_FILE:
        raise ApiError(413, "Request Entity Too Large")
    if kind == "photo" and len(body) > _LARGEST_PHOTO:
        raise BadRequest("file is too big for a photo")
    if kind == "photo" and not is_picture(body):
        raise BadRequest("IMAGE_PROCESS_FAILED")


def _send_album(call: Calling) -> list[Json]:
    spot = spot_asked(call)
    items = call.asked.decoded("media", list[InputMedia], "media")
    if not items:
        raise BadRequest("there are no messages to send")
    if len(items) not in _ALBUM:
        raise BadRequest("media must include 2-10 items")
    _check_kinds({item.type for item in items})
    # All or nothing: the whole album is looked at before a message is shown.
    contents = [_item(call, item) for item in items]
    album = {"media_group_id": f"{10**16 + spot.room.next_id}"}
    return [show(call, spot, content | album) for content in contents]


def _check_kinds(kinds: set[str]) -> None:
    if not kinds <= _IN_ALBUMS:
        raise BadRequest("wrong type of the media in the album")
    if len(kinds) > 1 and kinds & _AMONG_THEMSELVES:
        raise BadRequest("documents and audio files can't be mixed with other media types")


def _item(call: Calling, item: InputMedia) -> Json:
    kind = next(kind for kind in get_args(FileKind) if kind == item.type)
    if item.parse_mode:
        raise BadRequest("unsupported parse_mode")
    caption = marked(item.caption, item.caption_entities)
    if caption.size > LONGEST_CAPTION:
        raise BadRequest("message caption is too long")
    file = _file_asked(call, kind, item.media, "")
    fields: Json = {kind: call.world.files.wire(file)}
    if caption.text:
        fields["caption"] = caption.text
    if caption.entities:
        fields["caption_entities"] = caption.wire_entities
    return fields


MEDIA_METHODS: Mapping[str, Method] = {
    "sendphoto": _send("photo"),
    "senddocument": _send("document"),
    "sendvoice": _send("voice"),
    "sendaudio": _send("audio"),
    "sendvideo": _send("video"),
    "sendanimation": _send("animation"),
    "sendmediagroup": _send_album,
}
