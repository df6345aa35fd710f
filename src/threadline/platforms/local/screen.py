"""What a terminal platform needs of the place where somebody writes and reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Screen(Protocol):
    """A person at a keyboard, or a program at the other end of a pipe.

    `is_busy` is set while an answer is being written. Nothing but `run` waits for anything.
    """

    is_busy: bool

    async def run(self, take: Callable[[str], None]) -> None:
        """Hands over every message that is written; returns at the end of input."""

    def echo(self, line: str) -> None:
        """Shows a message that was written as part of the conversation."""

    def show(self, message_id: str, text: str) -> None:
        """Shows an answer, or what it says now. `OSError` where nobody can see it any more."""

    def settle(self) -> None:
        """What was shown will not change any more."""

    def note(self, sentence: str) -> None:
        """Tells something that is no part of the conversation."""
