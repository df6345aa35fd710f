"""What happens in a Telegram of a test: who there is, what they say, and what bots show them. No wire, no waiting."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.clock import Clock, SystemClock
from threadline.errors import InvalidRequest
from threadline.testing.telegram_bots import Bot
from threadline.testing.telegram_files import Files
from threadline.testing.telegram_rooms import Room
from threadline.testing.telegram_text import Entity, found_entities
from threadline.testing.telegram_values import Chat, FileKind, Happened, Json, Person, ShownMessage

_FIRST_PERSON = 700_000_001
_FIRST_GROUP = 500_001
_FIRST_SUPERGROUP = 1_002_000_001
_SUPERGROUP_BASE = -1_000_000_000_000


class TelegramWorld:
    """People, their chats, and all that was said in them.

    In every chat ids of messages begin anew, so that no two chats differ in them. What happens in a private chat is told to
    one bot, the first one unless another is named; what happens elsewhere is told to all bots.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.files = Files()
        self.bots: list[Bot] = []
        self.rooms: dict[int, Room] = {}
        self._private: dict[tuple[int, int], Room] = {}
        self._people: dict[str, Person] = {}
        self._clock = clock or SystemClock()
        self._people_ids = itertools.count(_FIRST_PERSON)
        self._group_ids = itertools.count(_FIRST_GROUP)
        self._supergroup_ids = itertools.count(_FIRST_SUPERGROUP)
        self._numbers = itertools.count(1)

    @property
    def now(self) -> int:
        """The time as Telegram tells it."""
        return int(self._clock.now().timestamp())

    # Who and what there is.

    def add_bot(self, username: str = "our_bot", *, reads_everything: bool = True) -> Bot:
        """Another bot, with a token of its own. Unless it reads everything, it is told in groups only what is meant for it."""
        number = 110_000_001 + len(self.bots)
        bot = Bot(Person(id=number, first_name=username, username=username, is_bot=True), reads_everything)
        self.bots.append(bot)
        return bot

    def person(self, name: str = "ada", **more: Any) -> Person:
        """Whoever is called so; the first time `more` sets other fields."""
        if name not in self._people:
            usual: Json = {"id": next(self._people_ids), "first_name": name.capitalize(), "username": name}
            self._people[name] = Person(**usual | more)
        return self._people[name]

    def group(self, title: str = "Friends", *, bots: Sequence[Bot] | None = None) -> Chat:
        """A small group, which may migrate."""
        return self._found(Chat(id=-next(self._group_ids), type="group", title=title), bots)

    def supergroup(self, title: str = "Crowd", *, forum: bool = False, bots: Sequence[Bot] | None = None) -> Chat:
        """A large group, with topics if it is a forum."""
        number = _SUPERGROUP_BASE - next(self._supergroup_ids)
        return self._found(Chat(id=number, type="supergroup", title=title, is_forum=forum or None), bots)

    def channel(self, title: str = "News", *, bots: Sequence[Bot] | None = None) -> Chat:
        """A channel in which bots may post."""
        number = _SUPERGROUP_BASE - next(self._supergroup_ids)
        return self._found(Chat(id=number, type="channel", title=title), bots)

    def private(self, user: Person | str = "ada", *, bot: Bot | None = None) -> Chat:
        """The chat of a person with a bot, open from now on."""
        who, whose = self._who(user), bot or self.bots[0]
        key = (whose.id, who.id)
        if key not in self._private:
            named: Json = {"username": who.username, "first_name": who.first_name, "last_name": who.last_name}
            self._private[key] = Room(Chat(id=who.id, type="private", **named), [whose])
        return self._private[key].chat

    def topic(self, chat: Chat, name: str, *, user: Person | str = "ada") -> int:
        """Somebody opens a topic in a forum; its thread."""
        room, who = self.room_of(chat), self._who(user)
        number = room.next_id
        room.topics[number] = name
        fields = {"forum_topic_created": {"name": name, "icon_color": 7_322_096}}
        message = room.add(self.now, sender=who.wire, thread=number, fields=fields)
        self._tell_all(room, "message", message)
        return number

    def promote(self, user: Person | str, chat: Chat) -> None:
        """Makes somebody an administrator of a chat."""
        self.room_of(chat).statuses[self._who(user).id] = "administrator"

    def describe(self, chat: Chat, description: str) -> None:
        """Says what a group or channel is about. No update tells of it."""
        self.room_of(chat).description = description

    def add_file(
        self, body: bytes, *, kind: FileKind = "document", name: str | None = None, mime: str | None = None, **more: Any
    ) -> Any:
        """What a message has in the field of that kind: `say("look", photo=world.add_file(png, kind="photo"))`."""
        return self.files.wire(self.files.add(body, kind=kind, name=name, mime=mime), more)

    # What people do.

    def say(
        self,
        text: str = "",
        *,
        chat: Chat | None = None,
        user: Person | str | None = "ada",
        bot: Bot | None = None,
        thread: int | None = None,
        reply_to: int | None = None,
        entities: Sequence[Json] | None = None,
        **extra: Any,
    ) -> Happened:
        """Somebody writes a message, in the private chat with the bot unless a chat is given.

        `extra` are other fields of Telegram's message: with a file in it, `text` is its caption. Commands, mentions and links
        are marked as an app would, unless entities are given. Nobody (`None`) speaks in a channel but the channel.
        """
        who = self._who(user) if user is not None else None
        room = self._room_for(chat, who, bot)
        is_post = room.chat.type == "channel"
        sender = None if is_post or who is None else who.wire
        found = [Entity(**entity) for entity in entities] if entities is not None else found_entities(text)
        fields = _written(text, [dict(msgspec.to_builtins(one)) for one in found], extra) | extra
        if is_post:
            fields = {"sender_chat": room.chat.wire} | fields
        message = room.add(self.now, sender=sender, thread=thread, reply_to=reply_to, fields=fields)
        return self._tell_all(room, "channel_post" if is_post else "message", message, bot)

    def edit(self, said: Happened, text: str, **extra: Any) -> Happened:
        """Its author changes a message."""
        room = self._room_of_happened(said)
        message = room.messages[said.message_id]
        entities = [dict(msgspec.to_builtins(one)) for one in found_entities(text)]
        for field in ("text", "caption", "entities", "caption_entities"):
            message.pop(field, None)
        message |= _written(text, entities, message) | {"edit_date": self.now} | extra
        kind = "edited_channel_post" if room.chat.type == "channel" else "edited_message"
        return self._tell_all(room, kind, message)

    def press(self, message: ShownMessage, value: str, *, user: Person | str = "ada") -> Happened:
        """Somebody presses the button that sends this value."""
        if value not in message.buttons:
            raise InvalidRequest(f"the message {message.message_id} has no button {value!r}")
        bot = self.bot_of(message.sender)
        query: Json = {
            "id": str(10**17 + next(self._numbers)),
            "from": self._who(user).wire,
            "message": self.room_for_call(bot, message.chat).messages[message.message_id],
            "chat_instance": str(message.chat),
            "data": value,
        }
        bot.queries.add(query["id"])
        return self._tell(bot, "callback_query", query, message.chat, message.message_id)

    def migrate(self, chat: Chat, *, user: Person | str = "ada") -> Chat:
        """Somebody makes a group a supergroup, with another id."""
        old, sender = self.room_of(chat), self._who(user).wire
        new = self.supergroup(chat.title or "", bots=old.bots)
        old.moved_to = new.id
        self.describe(new, old.description)
        leaving = old.add(self.now, sender=sender, fields={"migrate_to_chat_id": new.id})
        arriving = self.room_of(new).add(self.now, sender=sender, fields={"migrate_from_chat_id": chat.id})
        self._tell_all(old, "message", leaving)
        self._tell_all(self.room_of(new), "message", arriving)
        return new

    def block(self, user: Person | str = "ada", *, bot: Bot | None = None) -> None:
        """Somebody does not want to hear of the bot any more."""
        self._set_member(user, bot, "kicked", "bot was blocked by the user")

    def unblock(self, user: Person | str = "ada", *, bot: Bot | None = None) -> None:
        """Somebody wants to hear of the bot again."""
        self._set_member(user, bot, "member", None)

    def kick(self, chat: Chat, *, bot: Bot | None = None) -> None:
        """The bot is thrown out of a group or channel."""
        self.room_of(chat).barred[(bot or self.bots[0]).id] = f"bot was kicked from the {chat.type} chat"

    def raw(self, update: Json | bytes, *, bot: Bot | None = None) -> Happened:
        """Something that need not make sense. A mapping is given the next `update_id` unless it has one."""
        whose = bot or self.bots[0]
        happened = whose.tell(update, chat=0, message_id=0)
        self._touch()
        return happened

    def remove(self, message: ShownMessage) -> None:
        """Somebody deletes a message of a bot. No update tells of it."""
        del self.room_for_call(self.bot_of(message.sender), message.chat).messages[message.message_id]
        self._touch()

    # What they see.

    def messages(self, chat: Chat | int | None = None, *, thread: int | None = None) -> list[ShownMessage]:
        """What bots sent, as it reads now: in this chat and thread, or in all of them."""
        number = chat.id if isinstance(chat, Chat) else chat
        rooms = [*self.rooms.values(), *self._private.values()]
        return [
            shown
            for room in rooms
            if number in (None, room.chat.id)
            for shown in room.shown(self.files)
            if thread in (None, shown.thread)
        ]

    def texts(self, chat: Chat | int | None = None, *, thread: int | None = None) -> list[str]:
        """What the messages of bots say now."""
        return [message.text for message in self.messages(chat, thread=thread)]

    def shown(self, bot: Bot, chat: int, message_id: int) -> ShownMessage:
        """One message that this bot sent, as it reads now."""
        return self.room_for_call(bot, chat).shown_one(message_id, self.files)

    # What methods need.

    def find_person(self, number: int) -> Person | None:
        """Whoever has this id, bots included."""
        people = [*self._people.values(), *(bot.person for bot in self.bots)]
        return next((person for person in people if person.id == number), None)

    def bot_of(self, number: int) -> Bot:
        """The bot with this id."""
        return next(bot for bot in self.bots if bot.id == number)

    def find_room(self, bot: Bot, chat: int) -> Room | None:
        """The chat with this id, as far as this bot can see it."""
        room = self.rooms.get(chat)
        if room is not None:
            return room if bot in room.bots else None
        return self._private.get((bot.id, chat))

    def room_for_call(self, bot: Bot, chat: int) -> Room:
        """The chat with this id, which is there."""
        if (room := self.find_room(bot, chat)) is None:
            raise InvalidRequest(f"there is no chat {chat}")
        return room

    def room_of(self, chat: Chat) -> Room:
        """The group or channel, or the private chat with the first bot."""
        return self.rooms[chat.id] if chat.id in self.rooms else self.room_for_call(self.bots[0], chat.id)

    def _found(self, chat: Chat, bots: Sequence[Bot] | None) -> Chat:
        self.rooms[chat.id] = Room(chat, list(self.bots if bots is None else bots))
        return chat

    def _who(self, user: Person | str) -> Person:
        return self.person(user) if isinstance(user, str) else user

    def _room_for(self, chat: Chat | None, who: Person | None, bot: Bot | None) -> Room:
        if chat is not None and chat.id in self.rooms:
            return self.rooms[chat.id]
        if chat is None and who is None:
            raise InvalidRequest("say who speaks, or where")
        whose = bot or self.bots[0]
        number = self.private(who, bot=whose).id if chat is None and who is not None else chat.id if chat else 0
        return self.room_for_call(whose, number)

    def _room_of_happened(self, said: Happened) -> Room:
        if said.chat in self.rooms:
            return self.rooms[said.chat]
        return next(
            room for (_, chat), room in self._private.items() if chat == said.chat and said.message_id in room.messages
        )

    def _set_member(self, user: Person | str, bot: Bot | None, status: str, reason: str | None) -> None:
        whose, who = bot or self.bots[0], self._who(user)
        room = self.room_for_call(whose, self.private(who, bot=whose).id)
        before = "member" if status == "kicked" else "kicked"
        room.barred.pop(whose.id, None)
        if reason is not None:
            room.barred[whose.id] = reason
        me = whose.person.wire
        change = {
            "chat": room.chat.wire,
            "from": who.wire,
            "date": self.now,
            "old_chat_member": _membership(me, before),
            "new_chat_member": _membership(me, status),
        }
        self._tell(whose, "my_chat_member", change, room.chat.id, 0)

    def _tell_all(self, room: Room, kind: str, content: Json, only: Bot | None = None) -> Happened:
        told = [
            self._tell(bot, kind, content, room.chat.id, content["message_id"])
            for bot in room.bots
            if only in (None, bot) and bot.id not in room.barred and bot.is_meant(room.chat, content)
        ]
        if told:
            return told[0]
        return Happened(update_id=0, chat=room.chat.id, message_id=content["message_id"], body=b"{}")

    def _tell(self, bot: Bot, kind: str, content: Json, chat: int, message_id: int) -> Happened:
        happened = bot.tell({kind: content}, chat=chat, message_id=message_id, kind=kind)
        self._touch()
        return happened

    def _touch(self) -> None:
        """Called after every change."""


def _membership(who: Json, status: str) -> Json:
    return {"user": who, "status": status} | ({"until_date": 0} if status == "kicked" else {})


def _written(text: str, entities: list[Json], beside: Json) -> Json:
    """A text, or a caption where there is a file beside it."""
    if not text:
        return {}
    name, marks = ("caption", "caption_entities") if _FILES & beside.keys() else ("text", "entities")
    return {name: text} | ({marks: entities} if entities else {})


_FILES = {"photo", "document", "voice", "audio", "video", "animation", "video_note", "sticker"}
