"""Plain lines in and out, for pipes and files: no prompt, no colours; answers are written once they are complete."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections.abc import Callable
from typing import TextIO

from threadline.model.safe_text import safe_text

_CHUNK = 65_536


class PipeScreen:
    """A pipe as a screen. Each line of the input is a message, or the whole input is one message.

    With `waits` a line is read only after everything before it was answered, so `run` returns after the last answer.
    """

    def __init__(
        self, source: int, answers: TextIO, notes: TextIO, *, whole_input: bool = False, waits: bool = True
    ) -> None:
        """`source` is a file descriptor, read as UTF-8."""
        self.is_busy = False
        self._source = source
        self._answers = answers
        self._notes = notes
        self._whole_input = whole_input
        self._waits = waits
        self._finished = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unread = ""
        self._has_ended = False
        self._shown: dict[str, str] = {}
        self._written: dict[str, str] = {}

    async def run(self, on_line: Callable[[str], None]) -> None:
        """Call `on_line` with every line that is not blank, without its line end."""
        while (text := await self._next()) is not None:
            if not text.strip():
                continue
            self._finished.clear()
            on_line(text)
            if self._waits:
                await self._finished.wait()

    def echo(self, line: str) -> None:
        """Do nothing: the input of a pipe is not repeated in its output."""

    def show(self, message_id: str, text: str) -> None:
        """Keep the text until `finish_messages`."""
        self._shown[message_id] = text

    def finish_messages(self) -> None:
        """Write the messages that were shown and not yet written, in the order in which they came."""
        try:
            for message_id, text in self._shown.items():
                if self._written.get(message_id) != text:
                    self._written[message_id] = text
                    _write(self._answers, text)
        except BrokenPipeError:
            # The reader of the answers is gone, so the rest of the input is not read.
            self._has_ended, self._unread = True, ""
        finally:
            self._finished.set()

    def note(self, sentence: str) -> None:
        """Write the sentence to the error output, not among the answers."""
        with contextlib.suppress(BrokenPipeError):
            _write(self._notes, sentence)

    async def _next(self) -> str | None:
        while not self._has_ended and (self._whole_input or "\n" not in self._unread):
            chunk = await _read(self._source)
            self._has_ended = not chunk
            self._unread += self._decoder.decode(chunk, final=self._has_ended)
        if not self._unread:
            return None
        text, _, self._unread = (self._unread, "", "") if self._whole_input else self._unread.partition("\n")
        return text.removesuffix("\r")


async def _read(source: int) -> bytes:
    """Return the available bytes, at least one; none at the end of input."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(source, readable.set)
    except OSError:
        # A file on disk can't be polled, and is always readable.
        return os.read(source, _CHUNK)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(source)
    return os.read(source, _CHUNK)


def _write(out: TextIO, text: str) -> None:
    # Characters outside the encoding are written as escapes instead of ending the program.
    encoding = out.encoding or "utf-8"
    out.write(safe_text(text).rstrip("\n").encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()
