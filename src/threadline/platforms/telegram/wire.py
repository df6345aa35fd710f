"""The objects of the Bot API that are read, and what happens to each kind of update and field. Import it as a module.

Fields that stand in no struct are ignored. A test compares the tables below with the library's own list, so that no addition
to the Bot API goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class User(msgspec.Struct, frozen=True):
    """A person or a bot."""

    id: int
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None
    is_bot: bool = False

    @property
    def full_name(self) -> str | None:
        """The name that the user chose."""
        return f"{self.first_name} {self.last_name}" if self.last_name else self.first_name or None


class Chat(msgspec.Struct, frozen=True):
    """A chat; as the sender of a message, a channel or a group that speaks as itself."""

    id: int
    type: str = ""
    title: str | None = None
    username: str | None = None


class Entity(msgspec.Struct, frozen=True):
    """A range of a text with a meaning. `offset` and `length` count UTF-16 units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(msgspec.Struct, frozen=True):
    """A file of any kind."""

    file_id: str
    file_size: int | None = None
    file_name: str = ""
    mime_type: str | None = None
    width: int = 0
    height: int = 0


class Sticker(msgspec.Struct, frozen=True):
    """A sticker, animated or not."""

    file_id: str
    file_size: int | None = None
    emoji: str | None = None
    is_animated: bool = False
    is_video: bool = False


class TextQuote(msgspec.Struct, frozen=True):
    """The part of a message that a reply quotes."""

    text: str


class TopicNamed(msgspec.Struct, frozen=True):
    """A topic was created or renamed. Without a name only its icon was changed."""

    name: str | None = None


class RepliedMessage(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """The message that another message replies to."""

    message_id: int
    sender: User | None = None
    text: str | None = None
    caption: str | None = None
    forum_topic_created: TopicNamed | None = None


class ExternalReply(msgspec.Struct, frozen=True):
    """A message of another chat that is replied to."""

    message_id: int | None = None
    chat: Chat | None = None


class Message(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A message, or an event in a chat."""

    message_id: int
    chat: Chat
    date: int = 0
    sender: User | None = None
    sender_chat: Chat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    edit_date: int | None = None
    forward_origin: msgspec.Raw = msgspec.Raw()
    via_bot: msgspec.Raw = msgspec.Raw()
    reply_to_message: RepliedMessage | None = None
    external_reply: ExternalReply | None = None
    quote: TextQuote | None = None
    media_group_id: str | None = None
    text: str | None = None
    entities: tuple[Entity, ...] = ()
    caption: str | None = None
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[File, ...] = ()
    live_photo: File | None = None
    animation: File | None = None
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    sticker: Sticker | None = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None
    forum_topic_created: TopicNamed | None = None
    forum_topic_edited: TopicNamed | None = None


class Pressed(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A person pressed a button."""

    id: str
    sender: User
    # Of a message that is too old only the chat and the id.
    message: Message | None = None
    data: str | None = None


class Update(msgspec.Struct, frozen=True):
    """One update: at most one of its fields is set."""

    update_id: int
    message: msgspec.Raw = msgspec.Raw()
    edited_message: msgspec.Raw = msgspec.Raw()
    channel_post: msgspec.Raw = msgspec.Raw()
    edited_channel_post: msgspec.Raw = msgspec.Raw()
    callback_query: msgspec.Raw = msgspec.Raw()


class Location(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class Venue(msgspec.Struct, frozen=True):
    location: Location
    title: str
    address: str = ""


class Contact(msgspec.Struct, frozen=True):
    first_name: str
    phone_number: str
    last_name: str | None = None


class Option(msgspec.Struct, frozen=True):
    text: str


class Poll(msgspec.Struct, frozen=True):
    question: str
    options: tuple[Option, ...] = ()


class Task(msgspec.Struct, frozen=True):
    text: str
    completion_date: int | None = None


class Checklist(msgspec.Struct, frozen=True):
    title: str
    tasks: tuple[Task, ...] = ()


class Dice(msgspec.Struct, frozen=True):
    emoji: str
    value: int


class TitledThing(msgspec.Struct, frozen=True):
    title: str


class Shared(msgspec.Struct, frozen=True):
    """The contents of a message that are neither text nor a file."""

    venue: Venue | None = None
    location: Location | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    checklist: Checklist | None = None
    dice: Dice | None = None
    game: TitledThing | None = None
    invoice: TitledThing | None = None
    story: msgspec.Raw = msgspec.Raw()
    paid_media: msgspec.Raw = msgspec.Raw()


# The kinds of update that are requested. Telegram does not send any other.
ALLOWED_UPDATES: Final = tuple(name for name in Update.__struct_fields__ if name != "update_id")

# Kinds that are skipped, with the reason. They may still be pending from before the first request.
PASSED_OVER_UPDATES: Final[Mapping[str, str]] = {
    "business_connection": "we answer for ourselves, not on behalf of a business",
    "business_message": "we answer for ourselves, not on behalf of a business",
    "edited_business_message": "we answer for ourselves, not on behalf of a business",
    "deleted_business_messages": "we answer for ourselves, not on behalf of a business",
    "chat_boost": "nothing was said",
    "removed_chat_boost": "nothing was said",
    "chat_join_request": "who may join is for the chat's admins",
    "chat_member": "nothing was said",
    "my_chat_member": "whether we may speak shows when we do",
    "chosen_inline_result": "inline queries are not answered",
    "inline_query": "inline queries are not answered",
    "guest_message": "we answer where we are a member",
    "managed_bot": "we look after no other bots",
    "message_reaction": "a reaction is no message",
    "message_reaction_count": "a reaction is no message",
    "poll": "votes are no messages",
    "poll_answer": "votes are no messages",
    "pre_checkout_query": "nothing is sold here",
    "purchased_paid_media": "nothing is sold here",
    "shipping_query": "nothing is sold here",
}

READ_FIELDS: Final = frozenset(Message.__struct_encode_fields__)
SHARED_FIELDS: Final = frozenset(Shared.__struct_fields__)

_PEOPLE = "who comes and goes is no message"
_CHAT = "the chat itself has changed"
_TOPIC = "a topic was opened or closed"
_CALL = "a call is no message"
_MONEY = "it is about money or gifts"
_TOLD = "a note of the platform about something said elsewhere"

# Fields of messages that only report an event in the chat, with the reason why they are skipped.
SERVICE_FIELDS: Final[Mapping[str, str]] = {
    "new_chat_members": _PEOPLE,
    "left_chat_member": _PEOPLE,
    "chat_owner_changed": _PEOPLE,
    "chat_owner_left": _PEOPLE,
    "users_shared": "people were chosen for a bot's keyboard, and we show none",
    "chat_shared": "a chat was chosen for a bot's keyboard, and we show none",
    "new_chat_title": _CHAT,
    "new_chat_photo": _CHAT,
    "delete_chat_photo": _CHAT,
    "chat_background_set": _CHAT,
    "group_chat_created": _CHAT,
    "supergroup_chat_created": _CHAT,
    "channel_chat_created": _CHAT,
    "message_auto_delete_timer_changed": _CHAT,
    "direct_message_price_changed": _CHAT,
    "paid_message_price_changed": _CHAT,
    "boost_added": _CHAT,
    "forum_topic_created": _TOPIC,
    "forum_topic_edited": _TOPIC,
    "forum_topic_closed": _TOPIC,
    "forum_topic_reopened": _TOPIC,
    "general_forum_topic_hidden": _TOPIC,
    "general_forum_topic_unhidden": _TOPIC,
    "video_chat_scheduled": _CALL,
    "video_chat_started": _CALL,
    "video_chat_ended": _CALL,
    "video_chat_participants_invited": _CALL,
    "gift": _MONEY,
    "unique_gift": _MONEY,
    "gift_upgrade_sent": _MONEY,
    "giveaway": _MONEY,
    "giveaway_created": _MONEY,
    "giveaway_winners": _MONEY,
    "giveaway_completed": _MONEY,
    "successful_payment": _MONEY,
    "refunded_payment": _MONEY,
    "suggested_post_approved": _MONEY,
    "suggested_post_approval_failed": _MONEY,
    "suggested_post_declined": _MONEY,
    "suggested_post_paid": _MONEY,
    "suggested_post_refunded": _MONEY,
    "pinned_message": _TOLD,
    "checklist_tasks_added": _TOLD,
    "checklist_tasks_done": _TOLD,
    "poll_option_added": _TOLD,
    "poll_option_deleted": _TOLD,
    "proximity_alert_triggered": _TOLD,
    "connected_website": "somebody logged in on a website",
    "write_access_allowed": "we may write; that shows when we do",
    "managed_bot_created": "we look after no other bots",
    "passport_data": "documents are not asked for",
    "web_app_data": "we show no web apps",
}

_LOOKS = "only how it looks"
_BUSINESS = "we answer for ourselves, not on behalf of a business"
_GUEST = "we answer where we are a member"

# Fields beside the text of a message that are not used, with the reason.
UNUSED_FIELDS: Final[Mapping[str, str]] = {
    "author_signature": "a title that its bearer may choose; the sender is told apart by an id",
    "sender_tag": "a title that its bearer may choose; the sender is told apart by an id",
    "sender_boost_count": "who supports a chat has no other rights here",
    "business_connection_id": _BUSINESS,
    "sender_business_bot": _BUSINESS,
    "guest_bot_caller_chat": _GUEST,
    "guest_bot_caller_user": _GUEST,
    "guest_query_id": _GUEST,
    "direct_messages_topic": "the chat itself says whose it is",
    "effect_id": _LOOKS,
    "has_media_spoiler": _LOOKS,
    "show_caption_above_media": _LOOKS,
    "link_preview_options": _LOOKS,
    "has_protected_content": "what is kept here is never forwarded",
    "is_automatic_forward": "the origin of a forward says as much",
    "is_from_offline": "a message sent by a clock is a message",
    "is_paid_post": _MONEY,
    "paid_star_count": _MONEY,
    "suggested_post_info": _MONEY,
    "reply_markup": "buttons under a message of a bot",
    "reply_to_checklist_task_id": "the message itself is quoted",
    "reply_to_poll_option_id": "the message itself is quoted",
    "reply_to_story": "stories can't be seen by bots",
}
