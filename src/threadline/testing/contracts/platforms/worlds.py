"""The other end of an adapter's wire, as the contract drives it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from threadline.model.source import SessionSource
from threadline.ports.platform import OfferedCommand, OutgoingFile, Platform


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What a service does and lets happen. What is not said of it, it does not do, and then the opposite is tested.

    Each fact names a verb of the world that makes it happen.
    """

    # Events are told again until they are acknowledged, to whoever connects: `unacknowledged`.
    redelivers: bool = False
    # Messages are counted in each chat: the first in two of `places` has the same id.
    repeats_ids: bool = False
    # People can change what they said: `amend`.
    amends: bool = False
    # People can take back what they said: `delete`.
    deletes: bool = False
    # A message can answer another: `answer`, and `Shown.reply_to`.
    quotes: bool = False
    # Files come with messages: `attach`.
    attaches: bool = False
    # A chat can be given another id: `move`.
    moves: bool = False
    # There is a line that can break: `cut`.
    breaks: bool = False
    # A message can arrive although nobody hears so: `lose_answer`.
    loses_answers: bool = False
    # A call can take as long as it likes: `hold`.
    holds: bool = False
    # Too much at once is refused, with the time to wait: `limit_rate`.
    limits: bool = False
    # Markup that makes no sense is refused: `refuse_markup`.
    refuses_markup: bool = False
    # Chats end for good: `lose_chat`.
    forgets_chats: bool = False
    # There is a key, and it can be taken away: `revoke`.
    checks_key: bool = False
    # Something can come that nobody can read: `garble`.
    garbles: bool = False
    # Every line of a text is shown as a message of its own, empty ones not at all.
    by_line: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A message of ours as people see it now.

    `code`: what of it is shown as code; `None` where the service shows markdown as it is written. `buttons` are their labels.
    """

    text: str
    reply_to: str | None = None
    buttons: tuple[str, ...] = ()
    files: tuple[bytes, ...] = ()
    code: tuple[str, ...] | None = None


class PlatformWorld:
    """A service with people in it, who do what a test tells them. Subclass it, and say with `service` what it can do.

    The first four members every world has; of the others it has those that its `service` or the adapter's capabilities call for.
    A verb that is not there does nothing, so a fact without its verb fails the test of that fact.
    """

    service: Service = Service()
    # Seconds after which what was promised and is not there has failed.
    patience: float = 30.0

    @property
    def places(self) -> Sequence[SessionSource]:
        """Where somebody speaks, exactly as the adapter has to tell it: every field that it can fill.

        The first is a direct chat. Others are in other chats; one is in a thread if there are threads, one in a group if there
        are groups. Together they show every field of a source that the service knows anything of.
        """
        raise NotImplementedError

    def connect(self) -> Platform:
        """An adapter for the account, not yet running. Each call makes another, as a gateway that starts again would."""
        raise NotImplementedError

    async def say(self, text: str, where: SessionSource) -> str | None:
        """That person says this there, so that it is meant for us. The message's id; `None` where only the adapter knows it."""
        raise NotImplementedError

    async def shown(self, where: SessionSource) -> list[Shown]:
        """Our messages there as they are now, in the order in which they came."""
        raise NotImplementedError

    # What people do.

    async def mutter(self, text: str, where: SessionSource) -> None:
        """That person says this in a group, to others."""

    async def amend(self, message_id: str, text: str, where: SessionSource) -> None:
        """Whoever said that says this instead."""

    async def delete(self, message_id: str, where: SessionSource) -> None:
        """Whoever said that takes it back."""

    async def answer(self, message_id: str, text: str, where: SessionSource) -> None:
        """That person says this as an answer to a message."""

    async def attach(self, files: Sequence[OutgoingFile], text: str, where: SessionSource) -> None:
        """That person says this with files."""

    async def press(self, message_id: str, value: str, where: SessionSource) -> None:
        """That person presses the button of this value."""

    async def move(self, where: SessionSource) -> SessionSource:
        """The chat, which is a group, has another id from now on. The place as it is then."""
        return where

    async def garble(self) -> None:
        """Something comes in the direct chat that nobody can read."""

    # What else can be seen.

    async def unacknowledged(self) -> int:
        """How many events nobody has acknowledged yet."""
        return 0

    async def typings(self, where: SessionSource) -> int:  # noqa: ARG002 - a verb that is not there
        """How often it was shown there that somebody types."""
        return 0

    async def offered(self) -> Sequence[OfferedCommand]:
        """The commands that people are shown."""
        return ()

    # What goes wrong.

    async def cut(self) -> None:
        """Every connection ends; new ones are taken."""

    async def lose_answer(self) -> None:
        """The next send is carried out, but its answer is lost."""

    async def hold(self) -> None:
        """Sends get no answer from now on."""

    async def release(self) -> None:
        """They get it now."""

    async def limit_rate(self, seconds: int) -> None:
        """The next send is refused: it comes too soon, by so many seconds."""

    async def refuse_markup(self) -> None:
        """The next send is refused if it has markup."""

    async def lose_chat(self, where: SessionSource) -> None:
        """The chat is gone for good."""

    async def revoke(self) -> None:
        """Our key is not known any more, from now on and for those who are connected."""


class OpenWorld(Protocol):
    """Opens the service in the loop of the test that calls it."""

    def __call__(self) -> AbstractAsyncContextManager[PlatformWorld]: ...
