"""A prompt with the conversation above it: the only user of prompt_toolkit and of rich in platforms."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, merge_formatted_text
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markdown import Markdown
from rich.segment import Segment, Segments

from threadline.log import get_logger
from threadline.model.safe_text import safe_text

log = get_logger(__name__)

STOP = "/stop"
_MARK = "› "  # noqa: RUF001 - looks like a prompt, and is meant to
_HINT = "Ctrl-D ends the conversation; it goes on where it was the next time."
_KEPT_MESSAGES = 64
_MENU_LINES = 6
# An indented line may still belong to a list above it; only what begins at the margin begins something new.
_FENCE_OR_GAP = re.compile(r"^[ \t]{0,12}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$|\n[^\S\n]*\n(?=\S)", re.MULTILINE)
# Room for what is typed under an answer that is still growing.
_LINES_BELOW = 4


class _ShownMessage:
    """A message on the screen: printed for good up to `done`; `printed` is what it said when it was last printed to its end."""

    def __init__(self) -> None:
        self.text = ""
        self.done = 0
        self.printed = ""

    def grow(self, text: str) -> str:
        """Takes the new text; the blocks of it that are complete and not printed yet."""
        if not text.startswith(self.text[: self.done]):
            # What has scrolled away can't be changed, so all of it is said again.
            self.done = 0
        begin, self.text = self.done, text
        self.done = printable_prefix(text, begin)
        return text[begin : self.done]

    @property
    def tail(self) -> str:
        """What is not printed yet, or has changed since."""
        return self.text[self.done :] if self.text != self.printed else ""


class TerminalPrompt:
    """A person at a terminal. What is complete goes into the terminal's own scrollback; what grows is drawn above the prompt."""

    def __init__(self, *, commands: Mapping[str, str], history: Path | None = None) -> None:
        """`commands` are completed, each shown with its one line of help."""
        self.is_busy = False
        self._messages: dict[str, _ShownMessage] = {}
        self._awaits_answer = False
        self._take: Callable[[str], None] = lambda _line: None
        self._drawn: tuple[str, int, str] = ("", 0, "")
        self._session: PromptSession[str] = PromptSession(
            self._above,
            multiline=True,
            prompt_continuation=" " * len(_MARK),
            erase_when_done=True,
            enable_suspend=True,
            history=_history(history),
            completer=_Commands(commands),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=_MENU_LINES,
            key_bindings=self._keys(),
        )
        _ask_no_positions(self._session.output)

    async def run(self, take: Callable[[str], None]) -> None:
        """Hands over what is typed, until Ctrl-D. Ctrl-C while an answer is being written is `/stop`.

        One prompt stays for all lines: between two of them the terminal itself would take the keys, and lose some.
        """
        self._take = take
        with patch_stdout(raw=True), contextlib.suppress(EOFError):
            await self._session.prompt_async()

    def echo(self, line: str) -> None:
        """The line stays above the answer to come."""
        self._awaits_answer = True
        self._print(f"\x1b[1m{_MARK}\x1b[0m" + safe_text(line).replace("\n", "\n" + " " * len(_MARK)) + "\n")

    def show(self, message_id: str, text: str) -> None:
        """Draws the message; a block of it that is complete is printed."""
        self._awaits_answer = False
        if message_id not in self._messages:
            self._messages[message_id] = _ShownMessage()
            self.finish_messages()
        if printed := self._messages[message_id].grow(safe_text(text)):
            self._print(self._rendered(printed) + "\n")
        self._session.app.invalidate()

    def finish_messages(self) -> None:
        """Prints what was only drawn."""
        self._awaits_answer = False
        for message in list(self._messages.values()):
            if tail := message.tail:
                message.printed = message.text
                self._print(self._rendered(tail) + "\n")
        while len(self._messages) > _KEPT_MESSAGES:
            del self._messages[next(iter(self._messages))]

    def note(self, sentence: str) -> None:
        """A dim line of our own."""
        self._print(_dim(sentence))

    def _print(self, text: str) -> None:
        """Prints above the prompt, which is drawn again below it."""
        app, output = self._session.app, self._session.output
        if app.is_running:
            app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        app.invalidate()

    def _above(self) -> AnyFormattedText:
        """The prompt, and above it what is still growing."""
        size = self._session.output.get_size()
        growing = "\n\n".join(tail for message in self._messages.values() if (tail := message.tail))
        if self._drawn[:2] != (growing, size.columns):
            self._drawn = (growing, size.columns, self._rendered(growing) if growing else "")
        lines = self._drawn[2].splitlines(keepends=True)[-max(size.rows - _LINES_BELOW, 1) :]
        waiting = _dim("…") if self._awaits_answer and not lines else ""
        return merge_formatted_text([ANSI("".join(lines) + waiting), [("bold", _MARK)]])

    def _rendered(self, markdown: str) -> str:
        # A line as wide as the terminal would be followed by an empty one.
        width = max(self._session.output.get_size().columns - 1, 20)
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=width, highlight=False, markup=False, emoji=False)
        drawn = console.render(Markdown(markdown, code_theme="ansi_dark", hyperlinks=False))
        # Once more: markdown can spell characters as numbers.
        console.print(Segments([Segment(safe_text(one.text), one.style) for one in drawn if not one.control]), end="")
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n")) + "\n"

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._submit)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        return keys

    def _submit(self, event: KeyPressEvent) -> None:
        line = event.current_buffer.text.rstrip()
        event.current_buffer.reset(append_to_history=bool(line))
        # Not only once it is drawn again: the next key may ask for it.
        event.current_buffer.load_history_if_not_yet_loaded()
        if line:
            self._take(line)

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self.is_busy:
            # What was being typed stays.
            self._take(STOP)
        elif event.current_buffer.text:
            event.current_buffer.reset()
        else:
            self.note(_HINT)


def printable_prefix(text: str, start: int = 0) -> int:
    """Where the last complete block of a markdown text that still grows ends, from `start` on, which is the start of one."""
    end, fence = start, ""
    for found in _FENCE_OR_GAP.finditer(text[start:]):
        mark, info = found.groups()
        if mark is None:
            end = end if fence else start + found.end()
        elif not fence:
            fence = mark
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return end


class _Commands(Completer):
    """Completes the first word of a line that begins with a slash."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        begun = document.text_before_cursor
        if not begun.startswith("/") or any(char.isspace() for char in begun):
            return
        for name, meaning in sorted(self._commands.items()):
            if name.startswith(begun):
                yield Completion(name, start_position=-len(begun), display_meta=meaning)


class _PrivateHistory(FileHistory):
    """A history that only its owner can read. One that can't be written any more stays in memory: the conversation goes on."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError as cause:
            log.warning("terminal.history_not_kept", reason=str(cause))


def _history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    except OSError as cause:
        log.warning("terminal.no_history", reason=str(cause))
        return InMemoryHistory()
    return _PrivateHistory(str(path))


def _ask_no_positions(output: Output) -> None:
    """Asking a terminal where its cursor is takes a round trip for every line of a stream, and some never answer."""
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False


def _dim(text: str) -> str:
    return f"\x1b[2m{safe_text(text)}\x1b[0m\n"
