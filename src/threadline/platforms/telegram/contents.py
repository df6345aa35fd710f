"""What a message holds beside its text: files, and things that are told in a line. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from threadline.model.inbound import Attachment
from threadline.platforms.telegram import texts
from threadline.platforms.telegram.wire import Checklist, File, Message, Shared, Sticker, Venue

_shared = msgspec.json.Decoder(Shared)


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """The files of a message. Of a picture it is the largest size."""
    return tuple(_files(message))


def shared_line(message: Message, raw: bytes) -> str:
    """A line that stands for what is neither text nor a file; empty where there is nothing of the kind."""
    if message.sticker is not None:
        return texts.STICKER.format(emoji=message.sticker.emoji) if message.sticker.emoji else ""
    shared = _shared.decode(raw)
    return _place(shared) or _list(shared) or _thing(shared)


def _place(shared: Shared) -> str:
    if shared.venue is not None:
        return _venue(shared.venue)
    if shared.location is not None:
        return texts.LOCATION.format(latitude=shared.location.latitude, longitude=shared.location.longitude)
    if shared.contact is not None:
        name = f"{shared.contact.first_name} {shared.contact.last_name or ''}".strip()
        return texts.CONTACT.format(name=name, phone=shared.contact.phone_number)
    return ""


def _list(shared: Shared) -> str:
    if shared.poll is not None:
        options = ", ".join(option.text for option in shared.poll.options)
        return texts.POLL.format(question=shared.poll.question, options=options)
    return "" if shared.checklist is None else _checklist(shared.checklist)


def _thing(shared: Shared) -> str:
    if shared.dice is not None:
        return texts.DICE.format(emoji=shared.dice.emoji, value=shared.dice.value)
    if shared.game is not None:
        return texts.GAME.format(title=shared.game.title)
    if shared.invoice is not None:
        return texts.INVOICE.format(title=shared.invoice.title)
    if shared.story:
        return texts.STORY
    return texts.PAID_MEDIA if shared.paid_media else ""


def _venue(venue: Venue) -> str:
    return texts.VENUE.format(
        title=venue.title,
        address=venue.address,
        latitude=venue.location.latitude,
        longitude=venue.location.longitude,
    )


def _checklist(checklist: Checklist) -> str:
    tasks = ", ".join(
        texts.TASK_DONE.format(text=task.text) if task.completion_date else task.text for task in checklist.tasks
    )
    return texts.CHECKLIST.format(title=checklist.title, tasks=tasks)


def _files(message: Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        yield _attachment(largest, "image/jpeg")
    elif message.live_photo is not None:
        yield _attachment(message.live_photo, "video/mp4")
    if message.animation is not None:
        # Telegram tells it a second time as a document.
        yield _attachment(message.animation, "video/mp4")
    elif message.document is not None:
        yield _attachment(message.document, "application/octet-stream")
    if message.voice is not None:
        yield _attachment(message.voice, "audio/ogg")
    if message.audio is not None:
        yield _attachment(message.audio, "audio/mpeg")
    for video in (message.video, message.video_note):
        if video is not None:
            yield _attachment(video, "video/mp4")
    if message.sticker is not None:
        yield _sticker(message.sticker)


def _attachment(file: File, usual: str) -> Attachment:
    return Attachment(handle=file.file_id, name=file.file_name, mime=file.mime_type or usual, size=file.file_size)


def _sticker(sticker: Sticker) -> Attachment:
    mime = "image/webp"
    if sticker.is_video:
        mime = "video/webm"
    elif sticker.is_animated:
        mime = "application/x-tgsticker"
    return Attachment(handle=sticker.file_id, mime=mime, size=sticker.file_size)
