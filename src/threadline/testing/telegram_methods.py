"""The methods of the Bot API: each checks what it is asked as the documentation says, and does it to the world."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from threadline.testing.telegram_asking import Asked
from threadline.testing.telegram_bots import Bot
from threadline.testing.telegram_rooms import Room
from threadline.testing.telegram_text import Entity, Marked, marked
from threadline.testing.telegram_values import ApiError, BadRequest, Json
from threadline.testing.telegram_world import TelegramWorld

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
_LARGEST_DOWNLOAD = 20 * 1024 * 1024
_MOST_COMMANDS = 100
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
_ACTIONS = frozenset(
    [
        *("typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document"),
        *("choose_sticker", "find_location", "record_video_note", "upload_video_note"),
    ]
)


class ReplyParameters(msgspec.Struct):
    """What a message answers."""

    message_id: int
    allow_sending_without_reply: bool = False


class Button(msgspec.Struct):
    """A button under a message."""

    text: str
    callback_data: str | None = None
    url: str | None = None


class Markup(msgspec.Struct):
    """What stands under a message. Keyboards of other kinds are not shown in it."""

    inline_keyboard: list[list[Button]] | None = None


class Command(msgspec.Struct):
    """A command in the list that an app shows."""

    command: str
    description: str


class Calling(msgspec.Struct, frozen=True):
    """A method being called: by whom, with what, and where it acts."""

    world: TelegramWorld
    bot: Bot
    asked: Asked


Method: TypeAlias = Callable[[Calling], Any]


class Spot(msgspec.Struct, frozen=True):
    """Where a new message goes."""

    room: Room
    thread: int | None
    reply_to: int | None
    markup: Json | None


def room_asked(call: Calling) -> Room:
    """The chat that a call is about, if the bot may speak there."""
    text = call.asked.text("chat_id")
    if not text:
        raise BadRequest("chat_id is empty")
    if text.startswith("@"):
        named = (room for room in call.world.rooms.values() if room.chat.username == text[1:])
        room = next(named, None)
    else:
        room = call.world.find_room(call.bot, int(text)) if re.fullmatch(r"-?\d+", text) else None
    if room is None:
        raise BadRequest("chat not found")
    if room.moved_to is not None:
        raise BadRequest("group chat was upgraded to a supergroup chat", migrate_to_chat_id=room.moved_to)
    if call.bot.id in room.barred:
        raise ApiError(403, f"Forbidden: {room.barred[call.bot.id]}")
    return room


def spot_asked(call: Calling) -> Spot:
    """Where a new message is to go."""
    room = room_asked(call)
    thread = call.asked.number("message_thread_id")
    if thread is not None and thread not in room.topics:
        raise BadRequest("message thread not found")
    return Spot(room, thread, _reply_asked(room, call.asked), markup_asked(call.asked))


def _reply_asked(room: Room, asked: Asked) -> int | None:
    reply = asked.decoded("reply_parameters", ReplyParameters, "reply parameters")
    if reply is None and (number := asked.number("reply_to_message_id")) is not None:
        reply = ReplyParameters(number, asked.flag("allow_sending_without_reply"))
    if reply is None:
        return None
    if reply.message_id in room.messages:
        return reply.message_id
    if reply.allow_sending_without_reply:
        return None
    raise BadRequest("message to be replied not found")


def markup_asked(asked: Asked) -> Json | None:
    """The buttons under a message, as they are to be shown."""
    markup = asked.decoded("reply_markup", Markup, "reply keyboard markup")
    if markup is None or not markup.inline_keyboard:
        return None
    for button in (button for row in markup.inline_keyboard for button in row):
        _check_button(button)
    return {"inline_keyboard": msgspec.json.decode(asked.text("reply_markup"))["inline_keyboard"]}


def _check_button(button: Button) -> None:
    if not button.text.strip():
        raise BadRequest("inline keyboard button text must be non-empty")
    if button.callback_data is None and button.url is None:
        raise BadRequest("text buttons are unallowed in the inline keyboard")
    if button.callback_data is not None and not 1 <= len(button.callback_data.encode()) <= 64:
        raise BadRequest("BUTTON_DATA_INVALID")


def text_asked(asked: Asked, name: str, entities: str) -> Marked:
    """A text with its entities, trimmed."""
    mode = asked.text("parse_mode")
    if mode:
        # Adapters mark up by entities; a fake that guessed at a markup language would prove nothing.
        raise BadRequest("unsupported parse_mode")
    return marked(asked.text(name), asked.decoded(entities, list[Entity], "entities") or [])


def show(call: Calling, spot: Spot, fields: Json) -> Json:
    """The new message, which is in the chat from now on."""
    is_post = spot.room.chat.type == "channel"
    if is_post:
        fields = {"sender_chat": spot.room.chat.wire} | fields
    if spot.markup is not None:
        fields = fields | {"reply_markup": spot.markup}
    sender = None if is_post else call.bot.person.wire
    message = spot.room.add(call.world.now, sender=sender, thread=spot.thread, reply_to=spot.reply_to, fields=fields)
    spot.room.authors[message["message_id"]] = call.bot.id
    return message


def _get_me(call: Calling) -> Json:
    abilities = {"can_join_groups": True, "can_read_all_group_messages": call.bot.reads_everything}
    return call.bot.person.wire | abilities | {"supports_inline_queries": False, "has_main_web_app": False}


def _send_message(call: Calling) -> Json:
    spot = spot_asked(call)
    shown = text_asked(call.asked, "text", "entities")
    if not shown.text:
        raise BadRequest("message text is empty")
    if shown.size > LONGEST_TEXT:
        raise BadRequest("message is too long")
    return show(call, spot, _text_fields("text", "entities", shown))


def _text_fields(name: str, marks: str, shown: Marked) -> Json:
    return {name: shown.text} | ({marks: shown.wire_entities} if shown.entities else {})


def caption_fields(asked: Asked) -> Json:
    """The caption of a file, if there is one."""
    shown = text_asked(asked, "caption", "caption_entities")
    if shown.size > LONGEST_CAPTION:
        raise BadRequest("message caption is too long")
    return _text_fields("caption", "caption_entities", shown) if shown.text else {}


def _own_message(call: Calling) -> tuple[Room, Json]:
    room = room_asked(call)
    message = room.messages.get(call.asked.needed_number("message_id"))
    if message is None:
        raise BadRequest("message to edit not found")
    if room.authors.get(message["message_id"]) != call.bot.id:
        raise BadRequest("message can't be edited")
    return room, message


def _edit_text(call: Calling) -> Json:
    room, message = _own_message(call)
    if "text" not in message:
        raise BadRequest("there is no text in the message to edit")
    shown = text_asked(call.asked, "text", "entities")
    if not shown.text:
        raise BadRequest("message text is empty")
    if shown.size > LONGEST_TEXT:
        raise BadRequest("MESSAGE_TOO_LONG")
    fields = {"text": shown.text, "entities": shown.wire_entities}
    return _changed(call.world, room, message, fields | {"reply_markup": markup_asked(call.asked)})


def _edit_caption(call: Calling) -> Json:
    room, message = _own_message(call)
    if "text" in message:
        raise BadRequest("there is no caption in the message to edit")
    fields = {"caption": "", "caption_entities": []} | caption_fields(call.asked)
    return _changed(call.world, room, message, fields | {"reply_markup": markup_asked(call.asked)})


def _edit_markup(call: Calling) -> Json:
    room, message = _own_message(call)
    return _changed(call.world, room, message, {"reply_markup": markup_asked(call.asked)})


def _changed(world: TelegramWorld, room: Room, message: Json, fields: Json) -> Json:
    if all((message.get(name) or None) == (value or None) for name, value in fields.items()):
        raise BadRequest(_NOT_MODIFIED)
    room.change(message, fields, world.now)
    return message


def _delete_message(call: Calling) -> bool:
    room = room_asked(call)
    if room.messages.pop(call.asked.needed_number("message_id"), None) is None:
        raise BadRequest("message to delete not found")
    return True


def _send_chat_action(call: Calling) -> bool:
    spot_asked(call)
    if call.asked.text("action") not in _ACTIONS:
        raise BadRequest("wrong parameter action in request")
    return True


def _set_commands(call: Calling) -> bool:
    commands = call.asked.decoded("commands", list[Command], "commands list")
    if commands is None:
        raise BadRequest("can't parse commands list")
    if len(commands) > _MOST_COMMANDS:
        raise BadRequest("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", command.command.removeprefix("/")):
            raise BadRequest("BOT_COMMAND_INVALID")
        if not 1 <= len(command.description) <= 256:
            raise BadRequest("BOT_COMMAND_DESCRIPTION_INVALID")
    call.bot.commands[_scope(call.asked)] = [dict(msgspec.to_builtins(command)) for command in commands]
    return True


def _get_commands(call: Calling) -> list[Json]:
    return call.bot.commands.get(_scope(call.asked), [])


def _delete_commands(call: Calling) -> bool:
    call.bot.commands.pop(_scope(call.asked), None)
    return True


def _scope(asked: Asked) -> str:
    """The list that is meant: for whom, and in which language."""
    scope = asked.decoded("scope", dict[str, Any], "bot command scope") or {"type": "default"}
    return ":".join(filter(None, [*map(str, scope.values()), asked.text("language_code")]))


def _answer_query(call: Calling) -> bool:
    if call.asked.text("callback_query_id") not in call.bot.queries:
        raise BadRequest("query is too old and response timeout expired or query ID is invalid")
    if len(call.asked.text("text")) > 200:
        raise BadRequest("MESSAGE_TOO_LONG")
    call.bot.queries.discard(call.asked.text("callback_query_id"))
    return True


def _get_file(call: Calling) -> Json:
    file = call.world.files.find(call.asked.text("file_id"))
    if file is None:
        raise BadRequest("invalid file_id")
    if len(file.body) > _LARGEST_DOWNLOAD:
        raise BadRequest("file is too big")
    ids = {"file_id": file.file_id, "file_unique_id": file.unique_id}
    return ids | {"file_size": len(file.body), "file_path": file.path}


def _get_chat(call: Calling) -> Json:
    room = room_asked(call)
    gifts = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
    looks = {"accent_color_id": 1, "max_reaction_count": 11, "accepted_gift_types": dict.fromkeys(gifts, False)}
    return room.chat.wire | looks | ({"description": room.description} if room.description else {})


def _get_chat_member(call: Calling) -> Json:
    room, number = room_asked(call), call.asked.needed_number("user_id")
    who = call.world.find_person(number)
    if who is None:
        raise BadRequest("invalid user_id specified" if number <= 0 else "user not found")
    status = room.statuses.get(number, "member")
    return {"user": who.wire, "status": status} | (_RIGHTS if status == "administrator" else {})


def _get_administrators(call: Calling) -> list[Json]:
    room = room_asked(call)
    if room.chat.type == "private":
        raise BadRequest("there are no administrators in the private chat")
    people = [call.world.find_person(number) for number, status in room.statuses.items() if status == "administrator"]
    return [{"user": who.wire, "status": "administrator"} | _RIGHTS for who in people if who is not None]


_RIGHTS = dict.fromkeys(
    [
        *("can_be_edited", "is_anonymous", "can_manage_chat", "can_delete_messages", "can_manage_video_chats"),
        *("can_restrict_members", "can_promote_members", "can_change_info", "can_invite_users", "can_post_stories"),
        *("can_edit_stories", "can_delete_stories"),
    ],
    False,
)


def _set_webhook(call: Calling) -> bool:
    call.bot.webhook = call.asked.text("url")
    return True


def _delete_webhook(call: Calling) -> bool:
    call.bot.webhook = ""
    if call.asked.flag("drop_pending_updates"):
        call.bot.confirm(1 << 60)
    return True


def _get_webhook(call: Calling) -> Json:
    return {"url": call.bot.webhook, "has_custom_certificate": False, "pending_update_count": len(call.bot.queue)}


METHODS: Mapping[str, Method] = {
    "getme": _get_me,
    "sendmessage": _send_message,
    "editmessagetext": _edit_text,
    "editmessagecaption": _edit_caption,
    "editmessagereplymarkup": _edit_markup,
    "deletemessage": _delete_message,
    "sendchataction": _send_chat_action,
    "setmycommands": _set_commands,
    "getmycommands": _get_commands,
    "deletemycommands": _delete_commands,
    "answercallbackquery": _answer_query,
    "getfile": _get_file,
    "getchat": _get_chat,
    "getchatmember": _get_chat_member,
    "getchatadministrators": _get_administrators,
    "setwebhook": _set_webhook,
    "deletewebhook": _delete_webhook,
    "getwebhookinfo": _get_webhook,
}
