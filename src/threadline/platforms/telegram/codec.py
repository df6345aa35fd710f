"""Convert updates of Telegram to inbound events: mentions, files, locations, polls. Pure."""

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
    """An update that is skipped, with the reason."""

    reason: str


class Topic(msgspec.Struct, frozen=True):
    """A topic of a forum with its name."""

    chat: int
    thread: int
    name: str


UpdateEvent: TypeAlias = Inbound | IdChange | Unreadable | SkippedUpdate
# The names of topics, by chat and thread.
Topics: TypeAlias = Mapping[tuple[int, int], str]


class BotIdentity(msgspec.Struct, frozen=True):
    """Our bot. `handle` is its username in lower case, without the `@`."""

    id: int
    handle: str


class BotAccount(msgspec.Struct, frozen=True):
    """The platform and account that read the update, and their bot."""

    platform: str
    account: str
    bot: BotIdentity


class ParsedUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A converted update. `number` is None if it could not be read."""

    number: int | None
    event: UpdateEvent
    # Updates are ordered within a chat; None: this one keeps its place among the updates of all chats.
    chat: int | None = 0
    # The id of a button press that waits for an acknowledgement.
    press: str | None = None
    topic: Topic | None = None


_update = msgspec.json.Decoder(wire.Update)
_message = msgspec.json.Decoder(wire.Message)
_pressed = msgspec.json.Decoder(wire.Pressed)
_shared = msgspec.json.Decoder(wire.Shared)
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_update(raw: bytes, account: BotAccount, *, topics: Topics, at: datetime) -> ParsedUpdate:
    """Convert an update; `at` is when it came. An update that can't be read becomes `Unreadable`, with the reason."""
    number: int | None = None
    try:
        update = _update.decode(raw)
        number = update.update_id
        return _read(update, raw, account, topics, at)
    except (msgspec.DecodeError, OverflowError, UnicodeDecodeError) as cause:
        return ParsedUpdate(number=number, event=_unreadable(raw, account, number, f"it can't be read: {cause}"))


def _read(update: wire.Update, raw: bytes, account: BotAccount, topics: Topics, at: datetime) -> ParsedUpdate:
    if update.callback_query:
        return _read_press(_pressed.decode(update.callback_query), update.update_id, account, topics, at)
    new = update.message or update.channel_post
    raw_message = new or update.edited_message or update.edited_channel_post
    if not raw_message:
        return ParsedUpdate(number=update.update_id, event=_skipped(raw, account, update.update_id))
    message = _message.decode(raw_message)
    id_change = _id_change(message, account)
    if id_change is not None:
        return ParsedUpdate(number=update.update_id, event=id_change, chat=None)
    topic = _topic_of(message)
    result = _message_event(message, bytes(raw_message), account, topics, "message" if new else "edit", topic)
    event = _unreadable(raw, account, update.update_id, result) if isinstance(result, str) else result
    return ParsedUpdate(number=update.update_id, event=event, chat=message.chat.id, topic=topic)


def _message_event(
    message: wire.Message, raw: bytes, account: BotAccount, topics: Topics, kind: InboundKind, topic: Topic | None
) -> Inbound | SkippedUpdate | str:
    """Convert a message to an event, or return why it is skipped; as a `str`, why it can't be read."""
    if message.chat.type not in _CHAT_TYPES:
        return f"nobody here knows a chat of the type {message.chat.type!r}"
    if message.sender is not None and message.sender.id == account.bot.id:
        return SkippedUpdate("we said it ourselves")
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities
    bot = command_bot(text, entities)
    if kind == "message" and bot is not None and bot != account.bot.handle:
        return SkippedUpdate("a command for another bot")
    text = quoted(strip_mention(text, entities, account.bot), entities)
    files = attachments_of(message)
    if not text and (not files or message.sticker is not None):
        text = description_line(message, raw)
    if not text and not files:
        return _nothing_said(raw)
    chat, when = message.chat.id, message.date
    # Message ids of private chats are counted per bot: an account that gets another bot sees the same ids again.
    key = f"m:{account.bot.id}:{chat}:{message.message_id}"
    if kind == "edit":
        when = message.edit_date or message.date
        # Telegram counts whole seconds, and a message may be edited twice within one.
        key = f"e:{account.bot.id}:{chat}:{message.message_id}:{when}:{crc32(text.encode()):08x}"
    return Inbound(
        dedupe_key=key,
        message_id=str(message.message_id),
        source=_source(message, account, topics, topic),
        sent_at=from_instant(when * 1_000_000),
        kind=kind,
        text=text,
        reply_to=_quote(message, account.bot),
        mentions_us=mentions(message.text or message.caption or "", entities, account.bot),
        # The text of an inline bot is not written by the person who selected it.
        is_forward=bool(message.forward_origin) or bool(message.via_bot),
        from_bot=message.sender_chat is None and message.sender is not None and message.sender.is_bot,
        # Only admins can speak as the chat itself.
        sender_is_admin=message.sender_chat is not None and message.sender_chat.id == chat,
        attachments=files,
        album_id=message.media_group_id,
    )


def _read_press(pressed: wire.Pressed, number: int, account: BotAccount, topics: Topics, at: datetime) -> ParsedUpdate:
    message = pressed.message
    if message is None or pressed.data is None or message.chat.type not in _CHAT_TYPES:
        # Not a button of ours, but the press still waits for an acknowledgement.
        return ParsedUpdate(number=number, event=SkippedUpdate("a button that we did not make"), press=pressed.id)
    by = msgspec.structs.replace(message, sender=pressed.sender, sender_chat=None)
    event = Inbound(
        dedupe_key=f"c:{pressed.id}",
        message_id=str(message.message_id),
        source=_source(by, account, topics, None),
        sent_at=at,
        kind="button",
        button=pressed.data,
        from_bot=pressed.sender.is_bot,
    )
    return ParsedUpdate(number=number, event=event, chat=message.chat.id, press=pressed.id)


def _source(message: wire.Message, account: BotAccount, topics: Topics, topic: Topic | None) -> SessionSource:
    chat, thread = message.chat, message.message_thread_id if message.is_topic_message else None
    topic_name = None
    if thread is not None:
        topic_name = topic.name if topic is not None else topics.get((chat.id, thread))
    speaker, person = message.sender_chat, message.sender
    if speaker is not None:
        user = {"user_id": str(speaker.id), "user_name": speaker.title, "user_handle": speaker.username}
    elif person is not None:
        user = {"user_id": str(person.id), "user_name": person.full_name, "user_handle": person.username}
    else:
        user = {}
    return SessionSource(
        platform=account.platform,
        account=account.account,
        chat_id=str(chat.id),
        chat_type=_CHAT_TYPES[chat.type],
        # In a group without topics the thread id only marks a chain of replies.
        thread_id=None if thread is None else str(thread),
        chat_name=chat.title,
        chat_topic=topic_name,
        **user,
    )


def _quote(message: wire.Message, bot: BotIdentity) -> Quote | None:
    quoted_part = None if message.quote is None else message.quote.text
    replied = message.reply_to_message
    if replied is not None:
        if replied.forum_topic_created is not None:
            # Telegram marks every message of a topic as a reply to its creation; that is not a quotation.
            return None
        is_ours = replied.sender is not None and replied.sender.id == bot.id
        text = quoted_part or replied.text or replied.caption or ""
        return Quote(message_id=str(replied.message_id), text=text, is_ours=is_ours)
    if message.external_reply is None:
        return None
    # Message ids are unique only within their chat.
    chat, message_id = message.external_reply.chat, message.external_reply.message_id
    return Quote(message_id=f"{'' if chat is None else chat.id}/{message_id or ''}", text=quoted_part or "")


def _topic_of(message: wire.Message) -> Topic | None:
    """Return the topic whose name a message contains, or None."""
    replied = message.reply_to_message
    named = message.forum_topic_created or message.forum_topic_edited
    if named is None and replied is not None:
        named = replied.forum_topic_created
    if named is None or named.name is None or message.message_thread_id is None:
        return None
    return Topic(message.chat.id, message.message_thread_id, named.name)


def _id_change(message: wire.Message, account: BotAccount) -> IdChange | None:
    """Return the id change of a group that became a supergroup. Telegram reports it in both chats; both get one key."""
    old, new = message.migrate_from_chat_id or message.chat.id, message.migrate_to_chat_id or message.chat.id
    if old == new:
        return None
    return IdChange(
        platform=account.platform,
        account=account.account,
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


def _skipped(raw: bytes, account: BotAccount, number: int) -> SkippedUpdate | Unreadable:
    fields = _names.decode(raw).keys() - {"update_id"}
    reason = next((wire.PASSED_OVER_UPDATES[name] for name in fields if name in wire.PASSED_OVER_UPDATES), None)
    if reason is not None:
        return SkippedUpdate(reason)
    return _unreadable(
        raw, account, number, f"nobody here knows such an update: {', '.join(sorted(fields)) or 'empty'}"
    )


def _unreadable(raw: bytes, account: BotAccount, number: int | None, reason: str) -> Unreadable:
    return Unreadable(
        platform=account.platform,
        account=account.account,
        raw=raw.decode(errors="replace"),
        reason=reason,
        dedupe_key="" if number is None else f"u:{account.bot.id}:{number}",
    )


def attachments_of(message: wire.Message) -> tuple[Attachment, ...]:
    """Return the files of a message, of a picture the largest size."""
    return tuple(_files(message))


def description_line(message: wire.Message, raw: bytes) -> str:
    """Return a line that describes content which is neither text nor a file; empty if there is none."""
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
        # Telegram repeats it in the field `document`.
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


def mentions(text: str, entities: Iterable[wire.Entity], bot: BotIdentity) -> bool:
    """Return whether a text mentions our bot."""
    return any(_names_bot(text, entity, bot) for entity in entities)


def command_bot(text: str, entities: Sequence[wire.Entity]) -> str | None:
    """Return the handle of the bot that the command at the start of a text is for; None if it names no bot."""
    first = _first_command(entities)
    if first is None:
        return None
    _, at, bot = _marked(text, first).partition("@")
    return bot.lower() if at else None


def strip_mention(text: str, entities: Sequence[wire.Entity], bot: BotIdentity) -> str:
    """Return the text with `/command` instead of `/command@our_bot` at its start."""
    first = _first_command(entities)
    if first is None or command_bot(text, entities) != bot.handle:
        return text
    command = _marked(text, first)
    return command.partition("@")[0] + text[len(command) :]


def quoted(text: str, entities: Iterable[wire.Entity]) -> str:
    """Prefix a text that begins with a quotation with `> `: a quoted command must not be run."""
    return f"> {text}" if any(entity.type in _QUOTATIONS and entity.offset == 0 for entity in entities) else text


def _first_command(entities: Sequence[wire.Entity]) -> wire.Entity | None:
    return next((entity for entity in entities if entity.type == "bot_command" and entity.offset == 0), None)


def _names_bot(text: str, entity: wire.Entity, bot: BotIdentity) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == bot.id
    if entity.type == "mention":
        return _marked(text, entity).lower() == f"@{bot.handle}"
    return entity.type == "bot_command" and _marked(text, entity).lower().endswith(f"@{bot.handle}")


def _marked(text: str, entity: wire.Entity) -> str:
    """Return the range of the text that an entity marks; empty if it lies outside."""
    start, end = max(entity.offset, 0), max(entity.offset + entity.length, 0)
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")
