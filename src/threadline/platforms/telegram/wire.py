"""What Telegram says, as far as it is read here. Fields that are not named are passed over."""

from __future__ import annotations

import msgspec


class User(msgspec.Struct, frozen=True):
    """Somebody, or a bot."""

    id: int
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None
    is_bot: bool = False

    @property
    def full_name(self) -> str | None:
        """The name that they gave themselves."""
        return f"{self.first_name} {self.last_name}" if self.last_name else self.first_name or None


class Chat(msgspec.Struct, frozen=True):
    """A place where people talk, or one that speaks by itself, as channels do."""

    id: int
    type: str = ""
    title: str | None = None
    username: str | None = None


class Entity(msgspec.Struct, frozen=True):
    """A stretch of a text that means something. Places count in UTF-16 units."""

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
    """A picture that moves, or does not."""

    file_id: str
    file_size: int | None = None
    emoji: str | None = None
    is_animated: bool = False
    is_video: bool = False


class TextQuote(msgspec.Struct, frozen=True):
    """The part of a message that somebody answers."""

    text: str


class TopicNamed(msgspec.Struct, frozen=True):
    """A topic has this name from now on; one whose icon alone was changed keeps its own."""

    name: str | None = None


class Answered(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """The message that another one answers."""

    message_id: int
    sender: User | None = None
    text: str | None = None
    caption: str | None = None
    forum_topic_created: TopicNamed | None = None


class Elsewhere(msgspec.Struct, frozen=True):
    """A message of another chat that is answered."""

    message_id: int | None = None
    chat: Chat | None = None


class Message(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A message, or something that happened in a chat."""

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
    reply_to_message: Answered | None = None
    external_reply: Elsewhere | None = None
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
    """Somebody pressed a button."""

    id: str
    sender: User
    # Of one that is too old, no more than where it is.
    message: Message | None = None
    data: str | None = None


class Update(msgspec.Struct, frozen=True):
    """One update: at most one of its fields is there."""

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


class Titled(msgspec.Struct, frozen=True):
    title: str


class Shared(msgspec.Struct, frozen=True):
    """What a message can hold that is neither text nor a file."""

    venue: Venue | None = None
    location: Location | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    checklist: Checklist | None = None
    dice: Dice | None = None
    game: Titled | None = None
    invoice: Titled | None = None
    story: msgspec.Raw = msgspec.Raw()
    paid_media: msgspec.Raw = msgspec.Raw()
