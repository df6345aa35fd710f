"""What an update of Telegram means. Pure: the bot that reads, the names of topics and the time are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from zlib import crc32

import msgspec

from threadline.clock import from_instant
from threadline.model.inbound import Attachment, IdChange, Inbound, InboundKind, Quote, Unreadable
from threadline.model.source import ChatType, SessionSource
from threadline.platforms.telegram import texts, wire

_CHAT_TYPES: Mapping[str, ChatType] = {
    "private": "dm",
    "group": "group",
    "supergroup": "group",
    "channel": "channel",
}


class SkippedUpdate(msgspec.Struct, frozen=True):
    """An update that nobody waits for, and why."""

    reason: str


class Topic(msgspec.Struct, frozen=True):
    """A topic of a forum and its name."""

    chat: int
    thread: int
    name: str


UpdateEvent: TypeAlias = Inbound | IdChange | Unreadable | SkippedUpdate
# The names of topics, by chat and thread.
Topics: TypeAlias = Mapping[tuple[int, int], str]


class BotAccount(msgspec.Struct, frozen=True):
    """Who reads: a platform and its account, and the bot that they stand for."""

    platform: str
    account: str
    us: BotIdentity


class ParsedUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """An update that was read. `number` is `None` where not even that could be."""

    number: int | None
    event: UpdateEvent
    # In which chat it has its place; `None`: it must stay where it is among those of all chats.
    chat: int | None = 0
    # The press of a button that waits for a sign.
    press: str | None = None
    topic: Topic | None = None


_update = msgspec.json.Decoder(wire.Update)
_message = msgspec.json.Decoder(wire.Message)
_pressed = msgspec.json.Decoder(wire.Pressed)
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_update(raw: bytes, here: BotAccount, *, topics: Topics, at: datetime) -> ParsedUpdate:
    """What an update means; `at` is when it came. One that makes no sense is `Unreadable`, and says why."""
    number: int | None = None
    try:
        update = _update.decode(raw)
        number = update.update_id
        return _read(update, raw, here, topics, at)
    except (msgspec.DecodeError, OverflowError, UnicodeDecodeError) as cause:
        return ParsedUpdate(number=number, event=_unreadable(raw, here, number, f"it can't be read: {cause}"))


def _read(update: wire.Update, raw: bytes, here: BotAccount, topics: Topics, at: datetime) -> ParsedUpdate:
    if update.callback_query:
        return _read_press(_pressed.decode(update.callback_query), update.update_id, here, topics, at)
    said = update.message or update.channel_post
    edited = update.edited_message or update.edited_channel_post
    found = said or edited
    if not found:
        return ParsedUpdate(number=update.update_id, event=_skipped(raw, here, update.update_id))
    message = _message.decode(found)
    moved = _moved(message, here)
    if moved is not None:
        return ParsedUpdate(number=update.update_id, event=moved, chat=None)
    topic = _topic_of(message)
    what = _message_event(message, bytes(found), here, topics, "message" if said else "edit", topic)
    outcome = _unreadable(raw, here, update.update_id, what) if isinstance(what, str) else what
    return ParsedUpdate(number=update.update_id, event=outcome, chat=message.chat.id, topic=topic)


def _message_event(
    message: wire.Message, raw: bytes, here: BotAccount, topics: Topics, kind: InboundKind, topic: Topic | None
) -> Inbound | SkippedUpdate | str:
    """What somebody said, or why that is nothing to us; as a text, why it can't be read."""
    if message.chat.type not in _CHAT_TYPES:
        return f"nobody here knows a chat of the type {message.chat.type!r}"
    if message.sender is not None and message.sender.id == here.us.id:
        return SkippedUpdate("we said it ourselves")
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities
    bot = command_bot(text, entities)
    if kind == "message" and bot is not None and bot != here.us.handle:
        return SkippedUpdate("a command for another bot")
    text = quoted(strip_mention(text, entities, here.us), entities)
    files = attachments_of(message)
    if not text and (not files or message.sticker is not None):
        text = description_line(message, raw)
    if not text and not files:
        return _nothing_said(raw)
    chat, when = message.chat.id, message.date
    # Each bot counts for itself what is said to it alone: an account that gets another bot hears the same numbers again.
    key = f"m:{here.us.id}:{chat}:{message.message_id}"
    if kind == "edit":
        when = message.edit_date or message.date
        # Telegram counts whole seconds, and somebody may have changed their mind within one.
        key = f"e:{here.us.id}:{chat}:{message.message_id}:{when}:{crc32(text.encode()):08x}"
    return Inbound(
        dedupe_key=key,
        message_id=str(message.message_id),
        source=_source(message, here, topics, topic),
        sent_at=from_instant(when * 1_000_000),
        kind=kind,
        text=text,
        reply_to=_quote(message, here.us),
        mentions_us=mentions(message.text or message.caption or "", entities, here.us),
        # What an inline bot has written are not the words of who picked it.
        is_forward=bool(message.forward_origin) or bool(message.via_bot),
        from_bot=message.sender_chat is None and message.sender is not None and message.sender.is_bot,
        # Who speaks as the chat itself is one of those who run it.
        sender_is_admin=message.sender_chat is not None and message.sender_chat.id == chat,
        attachments=files,
        album_id=message.media_group_id,
    )


def _read_press(pressed: wire.Pressed, number: int, here: BotAccount, topics: Topics, at: datetime) -> ParsedUpdate:
    message = pressed.message
    if message is None or pressed.data is None or message.chat.type not in _CHAT_TYPES:
        # Nobody gets such a button from us, yet who pressed it waits for a sign.
        return ParsedUpdate(number=number, event=SkippedUpdate("a button that we did not make"), press=pressed.id)
    by = msgspec.structs.replace(message, sender=pressed.sender, sender_chat=None)
    what = Inbound(
        dedupe_key=f"c:{pressed.id}",
        message_id=str(message.message_id),
        source=_source(by, here, topics, None),
        sent_at=at,
        kind="button",
        button=pressed.data,
        from_bot=pressed.sender.is_bot,
    )
    return ParsedUpdate(number=number, event=what, chat=message.chat.id, press=pressed.id)


def _source(message: wire.Message, here: BotAccount, topics: Topics, topic: Topic | None) -> SessionSource:
    chat, thread = message.chat, message.message_thread_id if message.is_topic_message else None
    named = None
    if thread is not None:
        named = topic.name if topic is not None else topics.get((chat.id, thread))
    speaker, person = message.sender_chat, message.sender
    if speaker is not None:
        user = {"user_id": str(speaker.id), "user_name": speaker.title, "user_handle": speaker.username}
    elif person is not None:
        user = {"user_id": str(person.id), "user_name": person.full_name, "user_handle": person.username}
    else:
        user = {}
    return SessionSource(
        platform=here.platform,
        account=here.account,
        chat_id=str(chat.id),
        chat_type=_CHAT_TYPES[chat.type],
        # In a plain group it only marks a chain of replies.
        thread_id=None if thread is None else str(thread),
        chat_name=chat.title,
        chat_topic=named,
        **user,
    )


def _quote(message: wire.Message, us: BotIdentity) -> Quote | None:
    picked = None if message.quote is None else message.quote.text
    answered = message.reply_to_message
    if answered is not None:
        if answered.forum_topic_created is not None:
            # Every message of a topic answers its beginning; nobody meant that.
            return None
        is_ours = answered.sender is not None and answered.sender.id == us.id
        text = picked or answered.text or answered.caption or ""
        return Quote(message_id=str(answered.message_id), text=text, is_ours=is_ours)
    if message.external_reply is None:
        return None
    # Ids of messages mean something in their own chat only.
    chat, found = message.external_reply.chat, message.external_reply.message_id
    return Quote(message_id=f"{'' if chat is None else chat.id}/{found or ''}", text=picked or "")


def _topic_of(message: wire.Message) -> Topic | None:
    """The topic that a message tells the name of."""
    answered = message.reply_to_message
    named = message.forum_topic_created or message.forum_topic_edited
    if named is None and answered is not None:
        named = answered.forum_topic_created
    if named is None or named.name is None or message.message_thread_id is None:
        return None
    return Topic(message.chat.id, message.message_thread_id, named.name)


def _moved(message: wire.Message, here: BotAccount) -> IdChange | None:
    """A group has become a supergroup. It is told in both; whichever comes first counts."""
    old, new = message.migrate_from_chat_id or message.chat.id, message.migrate_to_chat_id or message.chat.id
    if old == new:
        return None
    return IdChange(
        platform=here.platform,
        account=here.account,
        dedupe_key=f"g:{old}:{new}",
        what="chat",
        old_id=str(old),
        new_id=str(new),
    )


def _nothing_said(raw: bytes) -> SkippedUpdate | str:
    fields = _names.decode(raw).keys()
    reason = next((wire.SERVICE_FIELDS[name] for name in fields if name in wire.SERVICE_FIELDS), None)
    if reason is not None:
        return SkippedUpdate(reason)
    unknown = sorted(fields - wire.READ_FIELDS - wire.SHARED_FIELDS - wire.UNUSED_FIELDS.keys())
    if unknown:
        return f"nothing in the message is known here, and these least of all: {', '.join(unknown)}"
    return SkippedUpdate("nothing was said")


def _skipped(raw: bytes, here: BotAccount, number: int) -> SkippedUpdate | Unreadable:
    fields = _names.decode(raw).keys() - {"update_id"}
    reason = next((wire.PASSED_OVER_UPDATES[name] for name in fields if name in wire.PASSED_OVER_UPDATES), None)
    if reason is not None:
        return SkippedUpdate(reason)
    return _unreadable(raw, here, number, f"nobody here knows such an update: {', '.join(sorted(fields)) or 'empty'}")


def _unreadable(raw: bytes, here: BotAccount, number: int | None, reason: str) -> Unreadable:
    return Unreadable(
        platform=here.platform,
        account=here.account,
        raw=raw.decode(errors="replace"),
        reason=reason,
        dedupe_key="" if number is None else f"u:{here.us.id}:{number}",
    )


_shared = msgspec.json.Decoder(wire.Shared)


def attachments_of(message: wire.Message) -> tuple[Attachment, ...]:
    """The files of a message. Of a picture it is the largest size."""
    return tuple(_files(message))


def description_line(message: wire.Message, raw: bytes) -> str:
    """A line that stands for what is neither text nor a file; empty where there is nothing of the kind."""
    if message.sticker is not None:
        return texts.STICKER.format(emoji=message.sticker.emoji) if message.sticker.emoji else ""
    shared = _shared.decode(raw)
    return _place(shared) or _list(shared) or _thing(shared)


def _place(shared: wire.Shared) -> str:
    if shared.venue is not None:
        return _venue(shared.venue)
    if shared.location is not None:
        return texts.LOCATION.format(latitude=shared.location.latitude, longitude=shared.location.longitude)
    if shared.contact is not None:
        name = f"{shared.contact.first_name} {shared.contact.last_name or ''}".strip()
        return texts.CONTACT.format(name=name, phone=shared.contact.phone_number)
    return ""


def _list(shared: wire.Shared) -> str:
    if shared.poll is not None:
        options = ", ".join(option.text for option in shared.poll.options)
        return texts.POLL.format(question=shared.poll.question, options=options)
    return "" if shared.checklist is None else _checklist(shared.checklist)


def _thing(shared: wire.Shared) -> str:
    if shared.dice is not None:
        return texts.DICE.format(emoji=shared.dice.emoji, value=shared.dice.value)
    if shared.game is not None:
        return texts.GAME.format(title=shared.game.title)
    if shared.invoice is not None:
        return texts.INVOICE.format(title=shared.invoice.title)
    if shared.story:
        return texts.STORY
    return texts.PAID_MEDIA if shared.paid_media else ""


def _venue(venue: wire.Venue) -> str:
    return texts.VENUE.format(
        title=venue.title,
        address=venue.address,
        latitude=venue.location.latitude,
        longitude=venue.location.longitude,
    )


def _checklist(checklist: wire.Checklist) -> str:
    tasks = ", ".join(
        texts.TASK_DONE.format(text=task.text) if task.completion_date else task.text for task in checklist.tasks
    )
    return texts.CHECKLIST.format(title=checklist.title, tasks=tasks)


def _files(message: wire.Message) -> Iterator[Attachment]:
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


def _attachment(file: wire.File, usual: str) -> Attachment:
    return Attachment(handle=file.file_id, name=file.file_name, mime=file.mime_type or usual, size=file.file_size)


def _sticker(sticker: wire.Sticker) -> Attachment:
    mime = "image/webp"
    if sticker.is_video:
        mime = "video/webm"
    elif sticker.is_animated:
        mime = "application/x-tgsticker"
    return Attachment(handle=sticker.file_id, mime=mime, size=sticker.file_size)


_QUOTATIONS = ("blockquote", "expandable_blockquote")


class BotIdentity(msgspec.Struct, frozen=True):
    """The bot that we are. `handle` is its username in small letters, without the `@`."""

    id: int
    handle: str


def mentions(text: str, entities: Iterable[wire.Entity], us: BotIdentity) -> bool:
    """Whether a text speaks to us by name."""
    return any(_names_us(text, entity, us) for entity in entities)


def command_bot(text: str, entities: Sequence[wire.Entity]) -> str | None:
    """The bot, in small letters, that the command at the start of a text is for; `None` where it names none."""
    first = _first_command(entities)
    if first is None:
        return None
    _, at, bot = _marked(text, first).partition("@")
    return bot.lower() if at else None


def strip_mention(text: str, entities: Sequence[wire.Entity], us: BotIdentity) -> str:
    """The text with `/command` for a `/command@us` at its start."""
    first = _first_command(entities)
    if first is None or command_bot(text, entities) != us.handle:
        return text
    written = _marked(text, first)
    return written.partition("@")[0] + text[len(written) :]


def quoted(text: str, entities: Iterable[wire.Entity]) -> str:
    """The text with a `> ` before it where it begins with a quotation: a command in there is somebody else's."""
    return f"> {text}" if any(one.type in _QUOTATIONS and one.offset == 0 for one in entities) else text


def _first_command(entities: Sequence[wire.Entity]) -> wire.Entity | None:
    return next((one for one in entities if one.type == "bot_command" and one.offset == 0), None)


def _names_us(text: str, entity: wire.Entity, us: BotIdentity) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == us.id
    if entity.type == "mention":
        return _marked(text, entity).lower() == f"@{us.handle}"
    return entity.type == "bot_command" and _marked(text, entity).lower().endswith(f"@{us.handle}")


def _marked(text: str, entity: wire.Entity) -> str:
    """The stretch of the text. One that lies outside of it is empty."""
    start, end = max(entity.offset, 0), max(entity.offset + entity.length, 0)
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")
