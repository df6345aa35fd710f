"""The terminal of this machine as a platform: one person, one chat."""

from __future__ import annotations

import asyncio
import itertools
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from threadline.clock import Clock, SystemClock
from threadline.errors import InvalidRequest, ThreadlineError
from threadline.local_user import login_name
from threadline.model.delivery import Target
from threadline.model.inbound import Inbound
from threadline.model.source import MAIN_ACCOUNT, SessionSource
from threadline.platforms.local.pipe import PipeScreen
from threadline.platforms.registry import PlatformSetup
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, Transient, refuse_undeclared


class Screen(Protocol):
    """Where the user of the terminal platform types and reads: a keyboard, or a program at the other end of a pipe.

    `is_busy` is set while an answer is being written. Only `run` waits.
    """

    is_busy: bool

    async def run(self, on_line: Callable[[str], None]) -> None:
        """Call `on_line` with every message that the user writes; return at the end of input."""

    def echo(self, line: str) -> None:
        """Show a message of the user as part of the conversation."""

    def show(self, message_id: str, text: str) -> None:
        """Show an answer, or replace its text. Raises `OSError` if the output is gone."""

    def finish_messages(self) -> None:
        """Write out the messages that were shown: they will not change any more."""

    def note(self, sentence: str) -> None:
        """Show a sentence that is not part of the conversation."""


# Returns when the platform is idle: no turn is pending or running, no message waits to be sent.
WaitUntilIdle: TypeAlias = Callable[[], Awaitable[None]]


class TerminalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the kind `local`: the file of the line history, and whether the whole input of a pipe is one message."""

    history: str | None = None
    whole_input: bool = False


def make_terminal(settings: PlatformSetup) -> Terminal:
    """Create the terminal platform from its settings; raise `InvalidRequest` if its options are wrong."""
    try:
        options = msgspec.convert(dict(settings.options), TerminalOptions)
    except msgspec.ValidationError as cause:
        raise InvalidRequest(f"the options of the terminal are wrong: {cause}") from cause
    history = None if options.history is None else Path(options.history)
    return Terminal(account=settings.account, history=history, whole_input=options.whole_input)


class Terminal:
    """A conversation at a terminal, or through a pipe if standard input or output is not a terminal."""

    name = "local"
    capabilities = Capabilities(max_length=1_000_000, edit=True, edit_interval=0.05, bursts=False)

    def __init__(
        self,
        screen: Screen | None = None,
        *,
        account: str = MAIN_ACCOUNT,
        user: str | None = None,
        commands: Mapping[str, str] | Iterable[str] = (),
        history: Path | None = None,
        whole_input: bool = False,
        idle: WaitUntilIdle | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`commands` are completed while typing; a mapping gives each a line of help. `user` is the login name by default.

        `idle` returns when an answer is complete. Without it Ctrl-C is always `/stop`, and a pipe writes answers at `close`.
        """
        self.account = account
        self._user = user or login_name()
        self._idle = idle
        self._clock = clock or SystemClock()
        self._screen = screen or _screen(commands, history, whole_input=whole_input, waits=idle is not None)
        # Messages of an earlier terminal may still be edited here; their ids must differ from ours.
        self._run_id = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)
        self._unaccepted = 0
        self._changed = asyncio.Event()

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Pass every line to `accept`; return at the end of input, in a pipe after the last answer."""
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            # A task of its own: reading the keyboard never waits for the store.
            accepting = group.create_task(self._accept_lines(lines, accept))
            watching = group.create_task(self._watch())
            ready.set()
            await self._screen.run(lambda line: self._take_line(line, lines))
            lines.put_nowait(None)
            await accepting
            watching.cancel()

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:  # noqa: ARG002 - nothing here can repeat
        """Show a message and return its id."""
        message_id = f"{self._run_id}-{next(self._numbers)}"
        await self.edit(to, message_id, message)
        return message_id

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Replace the text of a message. A message of an earlier terminal is shown again."""
        refuse_undeclared(self.capabilities, message, to)
        try:
            self._screen.show(message_id, message.text)
        except OSError as cause:
            raise Transient(f"the terminal is gone: {cause.strerror}") from cause
        self._changed.set()

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """Raise `NotDeclared`: the person at the terminal sees that the answer is not complete."""
        raise NotDeclared("nobody is seen typing at a terminal")

    async def close(self) -> None:
        """Write out what was shown; it stays on the screen."""
        self._screen.finish_messages()

    def _take_line(self, line: str, lines: asyncio.Queue[str | None]) -> None:
        if self._idle is None:
            # Without `idle` the next line of the reader is the only sign that an answer is complete.
            self._screen.finish_messages()
        self._screen.echo(line)
        self._unaccepted += 1
        lines.put_nowait(line)

    async def _accept_lines(self, lines: asyncio.Queue[str | None], accept: Accept) -> None:
        while (line := await lines.get()) is not None:
            message_id = f"{self._run_id}-{next(self._numbers)}"
            event = typed_event(
                line, user=self._user, account=self.account, message_id=message_id, at=self._clock.now()
            )
            self._screen.is_busy = True
            try:
                await accept(event)
            except ThreadlineError as cause:
                self._screen.note(f"Not taken: {cause}")
            self._unaccepted -= 1
            self._changed.set()

    async def _watch(self) -> None:
        """Finish the messages on the screen whenever everything is answered."""
        while self._idle is not None:
            await self._changed.wait()
            self._changed.clear()
            await self._idle()
            if not self._unaccepted and not self._changed.is_set():
                self._screen.is_busy = False
                self._screen.finish_messages()


def _screen(
    commands: Mapping[str, str] | Iterable[str], history: Path | None, *, whole_input: bool, waits: bool
) -> Screen:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return PipeScreen(sys.stdin.fileno(), sys.stdout, sys.stderr, whole_input=whole_input, waits=waits)
    from threadline.platforms.local.prompt import TerminalPrompt

    help_lines = commands if isinstance(commands, Mapping) else dict.fromkeys(commands, "")
    return TerminalPrompt(commands=help_lines, history=history)


def typed_event(text: str, *, user: str, account: str, message_id: str, at: datetime) -> Inbound:
    """Return the event of a line that `user` typed."""
    source = SessionSource.local_cli()
    return Inbound(
        dedupe_key=message_id,
        message_id=message_id,
        source=msgspec.structs.replace(source, account=account, user_id=user, user_name=user),
        sent_at=at,
        text=text,
        mentions_us=True,
    )
