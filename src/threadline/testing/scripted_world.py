"""What happens in a scripted chat: what people say, and what we show them. No wire, no waiting."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from threadline.clock import Clock, SystemClock
from threadline.errors import InvalidRequest
from threadline.model.delivery import Button
from threadline.model.inbound import Attachment, Quote
from threadline.model.source import ChatType
from threadline.platforms.shared import length
from threadline.ports.platform import (
    Capabilities,
    Gone,
    NotDeclared,
    NotModified,
    Outgoing,
    OutgoingFile,
    PlatformError,
    TooLong,
)
from threadline.testing.scripted_codec import Edit, Fetch, Happening, Moving, Send, Showing, write_event

# What a chat can do unless a test says otherwise: nearly everything. Keys are the exception, as on most platforms.
ALL_CAPABILITIES = Capabilities(
    max_length=4096, edit=True, typing=True, threads=True, buttons=True, files=True, album=10, edit_interval=0.05
)


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of ours as people see it now. `edits` are the texts that it showed before, oldest first."""

    message_id: str
    chat: str
    thread: str | None
    text: str
    key: str
    account: str
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()
    edits: tuple[str, ...] = ()
    files: tuple[OutgoingFile, ...] = ()


class ChatEvent(msgspec.Struct, kw_only=True):
    """An event and what became of it: how often a client was told, and whether one acknowledged it."""

    number: int
    dedupe_key: str
    body: bytes
    times_told: int = 0
    is_acknowledged: bool = False


class ScriptedWorld:
    """People, their chats, and all that was said in them. It forgets nothing."""

    def __init__(self, capabilities: Capabilities = ALL_CAPABILITIES, *, clock: Clock | None = None) -> None:
        self.capabilities = capabilities
        # What we were asked to do although it was not declared: a gateway that does so is wrong.
        self.misuses: list[str] = []
        self._clock = clock or SystemClock()
        self._events: list[ChatEvent] = []
        self._untaken: dict[int, ChatEvent] = {}
        self._said: dict[str, Happening] = {}
        self._shown: dict[str, ChatMessage] = {}
        # The ids of what is shown, by chat and in order.
        self._shown_in: dict[str, dict[str, None]] = {}
        self._by_key: dict[tuple[str, str], str] = {}
        self._typings: list[str] = []
        self._files: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._edits = itertools.count(1)

    # What people do.

    def say(
        self,
        text: str,
        *,
        user: str = "ada",
        chat: str | None = None,
        thread: str | None = None,
        chat_type: ChatType = "dm",
        mention: bool = True,
        reply_to: str | None = None,
        album: str | None = None,
        attachments: Sequence[Attachment] = (),
        user_name: str | None = None,
        forward: bool = False,
        from_bot: bool = False,
        admin: bool = False,
        message_id: str | None = None,
        dedupe_key: str | None = None,
    ) -> str:
        """Someone writes a message; its id. Without a `chat` it is the direct chat with `user`, `dm-USER`.

        The same `message_id` again is the same event told twice: its `dedupe_key` is made of chat and id unless one is given.
        """
        place = chat if chat is not None else f"dm-{user}"
        number = message_id or f"u{next(self._numbers)}"
        said = Happening(
            kind="message",
            key=dedupe_key or f"{place}/{number}",
            message=number,
            chat=place,
            at=self._clock.now(),
            user=user,
            chat_type=chat_type,
            thread=thread,
            name=user_name,
            text=text,
            mention=mention,
            reply_to=None if reply_to is None else self._quote(reply_to),
            forward=forward,
            bot=from_bot,
            admin=admin,
            files=tuple(attachments),
            album=album,
        )
        self._said[number] = said
        self._tell(said.key, write_event(said))
        return number

    def add_file(self, body: bytes, *, name: str = "", mime: str = "application/octet-stream") -> Attachment:
        """A file that somebody may send along with `say`; the chat keeps it and gives it out."""
        handle = f"f{len(self._files) + 1}"
        self._files[handle] = body
        return Attachment(handle=handle, name=name, mime=mime, size=len(body))

    def edit(self, message_id: str, text: str, *, dedupe_key: str | None = None) -> None:
        """Its author changes a message."""
        said = self._said_by_someone(message_id)
        self._said[message_id] = changed = msgspec.structs.replace(said, text=text)
        self._again(changed, "edit", dedupe_key)

    def delete(self, message_id: str, *, dedupe_key: str | None = None) -> None:
        """Its author takes a message back."""
        self._again(self._said_by_someone(message_id), "delete", dedupe_key, text="")

    def press(
        self, message_id: str, value: str, *, user: str = "ada", dedupe_key: str | None = None, **more: Any
    ) -> None:
        """Someone presses the button with this value under a message of ours. `more` sets other fields of the event."""
        message = self._shown.get(message_id)
        if message is None or value not in [button.value for button in message.buttons]:
            raise InvalidRequest(f"the message {message_id} has no button {value!r}")
        pressed = Happening(
            kind="button",
            key=dedupe_key or f"{message.chat}/{message_id}/press/{next(self._edits)}",
            message=message_id,
            chat=message.chat,
            thread=message.thread,
            at=self._clock.now(),
            user=user,
            value=value,
            **more,
        )
        self._tell(pressed.key, write_event(pressed))

    def move(self, what: Literal["chat", "user"], old: str, new: str, *, dedupe_key: str | None = None) -> None:
        """A chat, or somebody, has another id from now on."""
        moving = Moving(key=dedupe_key or f"move/{what}/{old}/{new}", what=what, old=old, new=new)
        self._tell(moving.key, write_event(moving))

    def happen(self, body: bytes) -> int:
        """Something that need not make sense: `body` is any JSON. The event's number."""
        return self._tell("", body)

    # What they see.

    def messages(self, chat: str | None = None, thread: str | None = None) -> list[ChatMessage]:
        """What we sent, as it reads now, in the order in which it arrived: in this chat and thread, or in all of them."""
        shown = self._shown if chat is None else self._shown_in.get(chat, ())
        return [message for number in shown if thread in (None, (message := self._shown[number]).thread)]

    def texts(self, chat: str | None = None, thread: str | None = None) -> list[str]:
        """What our messages say now."""
        return [message.text for message in self.messages(chat, thread)]

    def typings(self, chat: str | None = None) -> int:
        """How often we have let it be seen that an answer is being written."""
        return sum(chat in (None, seen) for seen in self._typings)

    def remove(self, message_id: str) -> None:
        """Someone deletes a message of ours: nobody sees it, and editing it is `Gone`."""
        if (message := self._shown.pop(message_id, None)) is None:
            raise InvalidRequest(f"there is no message {message_id} of ours")
        del self._shown_in[message.chat][message_id]
        self._touch()

    @property
    def events(self) -> list[ChatEvent]:
        """All that was told, in order."""
        return list(self._events)

    @property
    def unacknowledged(self) -> list[str]:
        """The keys of the events that no client has acknowledged yet."""
        return [event.dedupe_key for event in self._untaken.values()]

    # What a client asks for.

    def perform(self, call: Showing, account: str) -> str:
        """Carries out a call; the id of the message that it shows. What can't be done is a `PlatformError`."""
        match call:
            case Send():
                shown = self._show(call, account)
            case Edit():
                shown = self._change(call)
            case _:
                self._declared(self.capabilities.typing, "typing")
                self._typings.append(call.to.chat_id)
                shown = ""
        self._touch()
        return shown

    def give(self, call: Fetch) -> bytes:
        """What is in a file that somebody sent; `Gone` where there is none, `TooLong` where it is more than asked for."""
        body = self._files.get(call.handle)
        if body is None:
            raise Gone(f"there is no file {call.handle}")
        if len(body) > call.at_most:
            raise TooLong(f"the file has {len(body)} bytes")
        return body

    def take_ack(self, number: int) -> None:
        """Somebody has stored this event."""
        if (event := self._untaken.pop(number, None)) is not None:
            event.is_acknowledged = True
        self._touch()

    def _show(self, call: Send, account: str) -> str:
        if self.capabilities.idempotent_send and (account, call.key) in self._by_key:
            return self._by_key[account, call.key]
        self._check(call.message)
        self._declared(self.capabilities.threads or call.to.thread_id is None, "threads")
        shown = ChatMessage(
            message_id=f"m{next(self._numbers)}",
            chat=call.to.chat_id,
            thread=call.to.thread_id,
            text=call.message.text,
            key=call.key,
            account=account,
            reply_to=call.message.reply_to,
            buttons=call.message.buttons,
            files=call.message.files,
        )
        self._shown[shown.message_id] = shown
        self._shown_in.setdefault(shown.chat, {})[shown.message_id] = None
        self._by_key[account, call.key] = shown.message_id
        self._appeared(shown)
        return shown.message_id

    def _change(self, call: Edit) -> str:
        self._declared(self.capabilities.edit, "edit")
        self._check(call.message)
        shown = self._shown.get(call.message_id)
        if shown is None:
            raise Gone(f"there is no message {call.message_id}")
        if (shown.text, shown.buttons) == (call.message.text, call.message.buttons):
            raise NotModified
        self._shown[call.message_id] = msgspec.structs.replace(
            shown, text=call.message.text, buttons=call.message.buttons, edits=(*shown.edits, shown.text)
        )
        return call.message_id

    def _check(self, message: Outgoing) -> None:
        size = length(message.text, self.capabilities.length_unit)
        if size > self.capabilities.max_length:
            raise TooLong(f"{size} is more than {self.capabilities.max_length} {self.capabilities.length_unit}")
        self._declared(self.capabilities.buttons or not message.buttons, "buttons")
        self._declared(self.capabilities.files or not message.files, "files")
        self._declared(len(message.files) <= max(1, self.capabilities.album), "albums")
        if not message.text.strip() and not message.files:
            raise PlatformError("a message needs a text")

    def _declared(self, is_declared: bool, what: str) -> None:
        if not is_declared:
            self.misuses.append(what)
            raise NotDeclared(f"this chat has no {what}")

    def _quote(self, message_id: str) -> Quote:
        if (ours := self._shown.get(message_id)) is not None:
            return Quote(message_id=message_id, text=ours.text, is_ours=True)
        return Quote(message_id=message_id, text=self._said_by_someone(message_id).text)

    def _said_by_someone(self, message_id: str) -> Happening:
        if message_id not in self._said:
            raise InvalidRequest(f"nobody said a message {message_id}")
        return self._said[message_id]

    def _again(self, said: Happening, kind: str, dedupe_key: str | None, **changes: Any) -> None:
        key = dedupe_key or f"{said.key}/{kind}/{next(self._edits)}"
        told = msgspec.structs.replace(said, kind=kind, key=key, at=self._clock.now(), **changes)
        self._tell(key, write_event(told))

    def _tell(self, key: str, body: bytes) -> int:
        event = ChatEvent(number=len(self._events) + 1, dedupe_key=key, body=body)
        self._events.append(event)
        self._untaken[event.number] = event
        self._happened(event)
        self._touch()
        return event.number

    def _happened(self, event: ChatEvent) -> None:
        """Called with every new event."""

    def _appeared(self, message: ChatMessage) -> None:
        """Called with every new message of ours."""

    def _touch(self) -> None:
        """Called after every change."""
