"""A prompt with the conversation above it: the only module of platforms that uses prompt_toolkit and rich."""

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
# An indented line may still belong to a list above it; only a line at the margin begins a new block.
_FENCE_OR_GAP = re.compile(r"^[ \t]{0,12}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$|\n[^\S\n]*\n(?=\S)", re.MULTILINE)
# Lines that stay free for typing below an answer that still grows.
_LINES_BELOW = 4


class _ShownMessage:
    """A message on the screen: printed up to `done`; `printed` is its text when it was last printed to its end."""

    def __init__(self) -> None:
        self.text = ""
        self.done = 0
        self.printed = ""

    def grow(self, text: str) -> str:
        """Set the text; return the complete blocks of it that are not printed yet."""
        if not text.startswith(self.text[: self.done]):
            # Lines in the scrollback can't be changed, so the whole message is printed again.
            self.done = 0
        begin, self.text = self.done, text
        self.done = printable_prefix(text, begin)
        return text[begin : self.done]

    @property
    def tail(self) -> str:
        """The text that is not printed yet; empty if nothing has changed since."""
        return self.text[self.done :] if self.text != self.printed else ""


class TerminalPrompt:
    """A person at a terminal. Complete blocks go into the scrollback of the terminal; growing ones are drawn above the prompt."""

    def __init__(self, *, commands: Mapping[str, str], history: Path | None = None) -> None:
        """`commands` maps the commands to complete to their lines of help."""
        self.is_busy = False
        self._messages: dict[str, _ShownMessage] = {}
        self._awaits_answer = False
        self._on_line: Callable[[str], None] = lambda _line: None
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

    async def run(self, on_line: Callable[[str], None]) -> None:
        """Call `on_line` with every line until Ctrl-D. Ctrl-C is `/stop` while an answer is being written.

        One prompt serves all lines: between two prompts the terminal would read the keys itself and lose some.
        """
        self._on_line = on_line
        with patch_stdout(raw=True), contextlib.suppress(EOFError):
            await self._session.prompt_async()

    def echo(self, line: str) -> None:
        """Print the line; it stays above its answer."""
        self._awaits_answer = True
        self._print(f"\x1b[1m{_MARK}\x1b[0m" + safe_text(line).replace("\n", "\n" + " " * len(_MARK)) + "\n")

    def show(self, message_id: str, text: str) -> None:
        """Draw the message; print its complete blocks."""
        self._awaits_answer = False
        if message_id not in self._messages:
            self._messages[message_id] = _ShownMessage()
            self.finish_messages()
        if printed := self._messages[message_id].grow(safe_text(text)):
            self._print(self._rendered(printed) + "\n")
        self._session.app.invalidate()

    def finish_messages(self) -> None:
        """Print what was only drawn."""
        self._awaits_answer = False
        for message in list(self._messages.values()):
            if tail := message.tail:
                message.printed = message.text
                self._print(self._rendered(tail) + "\n")
        while len(self._messages) > _KEPT_MESSAGES:
            del self._messages[next(iter(self._messages))]

    def note(self, sentence: str) -> None:
        """Print a dim line."""
        self._print(_dim(sentence))

    def _print(self, text: str) -> None:
        """Print above the prompt, which is drawn again below the text."""
        app, output = self._session.app, self._session.output
        if app.is_running:
            app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        app.invalidate()

    def _above(self) -> AnyFormattedText:
        """Return the prompt and, above it, the messages that still grow."""
        size = self._session.output.get_size()
        growing = "\n\n".join(tail for message in self._messages.values() if (tail := message.tail))
        if self._drawn[:2] != (growing, size.columns):
            self._drawn = (growing, size.columns, self._rendered(growing) if growing else "")
        lines = self._drawn[2].splitlines(keepends=True)[-max(size.rows - _LINES_BELOW, 1) :]
        waiting = _dim("…") if self._awaits_answer and not lines else ""
        return merge_formatted_text([ANSI("".join(lines) + waiting), [("bold", _MARK)]])

    def _rendered(self, markdown: str) -> str:
        # A line as wide as the terminal would be followed by an empty line.
        width = max(self._session.output.get_size().columns - 1, 20)
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=width, highlight=False, markup=False, emoji=False)
        drawn = console.render(Markdown(markdown, code_theme="ansi_dark", hyperlinks=False))
        # Sanitized again after rendering: Markdown can spell control characters as numbers.
        segments = [Segment(safe_text(segment.text), segment.style) for segment in drawn if not segment.control]
        console.print(Segments(segments), end="")
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
        # Now, not with the next drawing: the next key may ask for the history.
        event.current_buffer.load_history_if_not_yet_loaded()
        if line:
            self._on_line(line)

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self.is_busy:
            # The text that is being typed stays.
            self._on_line(STOP)
        elif event.current_buffer.text:
            event.current_buffer.reset()
        else:
            self.note(_HINT)


def printable_prefix(text: str, start: int = 0) -> int:
    """Return the end of the last complete block of a growing Markdown text. `start` is the start of a block."""
    end, fence = start, ""
    for match in _FENCE_OR_GAP.finditer(text[start:]):
        mark, info = match.groups()
        if mark is None:
            end = end if fence else start + match.end()
        elif not fence:
            fence = mark
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return end


class _Commands(Completer):
    """Complete the first word of a line that begins with a slash."""

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
    """A history file that only its owner can read. If writing fails the history stays in memory and the conversation goes on."""

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
    """Turn cursor position requests off: each costs a round trip for every streamed line, and some terminals never answer."""
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False


def _dim(text: str) -> str:
    return f"\x1b[2m{safe_text(text)}\x1b[0m\n"
