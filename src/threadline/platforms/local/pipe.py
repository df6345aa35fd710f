"""Plain lines in and out, for pipes and files: no prompt, no colours, answers written once they are complete."""

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
    """Each line of the input is a message, or the whole input is one.

    With `waits` a line is read only when everything before it was answered: the end of input is told after the last answer.
    """

    def __init__(
        self, source: int, answers: TextIO, notes: TextIO, *, whole_input: bool = False, waits: bool = True
    ) -> None:
        """`source` is a file descriptor; it is read as UTF-8."""
        self.is_busy = False
        self._source = source
        self._answers = answers
        self._notes = notes
        self._whole_input = whole_input
        self._waits = waits
        self._settled = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unread = ""
        self._has_ended = False
        self._shown: dict[str, str] = {}
        self._written: dict[str, str] = {}

    async def run(self, take: Callable[[str], None]) -> None:
        """Hands over every line that is not blank, without its end."""
        while (text := await self._next()) is not None:
            if not text.strip():
                continue
            self._settled.clear()
            take(text)
            if self._waits:
                await self._settled.wait()

    def echo(self, line: str) -> None:
        """Nobody needs to see what they have piped in themselves."""

    def show(self, message_id: str, text: str) -> None:
        """Keeps the text until it is settled."""
        self._shown[message_id] = text

    def finish_messages(self) -> None:
        """Writes what was shown and not yet written, in the order in which it came."""
        try:
            for message_id, text in self._shown.items():
                if self._written.get(message_id) != text:
                    self._written[message_id] = text
                    _write(self._answers, text)
        except BrokenPipeError:
            # Nobody reads the answers any more, so there is nothing left to ask.
            self._has_ended, self._unread = True, ""
        finally:
            self._settled.set()

    def note(self, sentence: str) -> None:
        """Goes where errors go, not among the answers."""
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
    """What is there to read, at least one byte; none at the end."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(source, readable.set)
    except OSError:
        # A file on disk can't be waited for, and need not be.
        return os.read(source, _CHUNK)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(source)
    return os.read(source, _CHUNK)


def _write(out: TextIO, text: str) -> None:
    # What the encoding can't say is written as numbers instead of ending the program.
    encoding = out.encoding or "utf-8"
    out.write(safe_text(text).rstrip("\n").encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()
