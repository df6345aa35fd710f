"""Keeping and telling the words of a turn while it runs, as soon as there is something that could wait no longer."""

from __future__ import annotations

import asyncio

from threadline.gateway.journal import SOONEST_SECONDS, Journal
from threadline.gateway.supervisor import Supervisor


class Keeping:
    """For one turn. One that is over in a moment costs nothing here: its end stores and tells all that it said."""

    def __init__(self, journal: Journal, supervisor: Supervisor) -> None:
        self._journal = journal
        self._supervisor = supervisor
        self._begins: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The turn runs."""
        if self._journal.keeps_words or self._journal.is_told:
            self._begins = asyncio.get_running_loop().call_later(SOONEST_SECONDS, self._start)

    def end(self) -> None:
        """The turn is over."""
        if self._begins is not None:
            self._begins.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        journal = self._journal
        if journal.keeps_words:
            self._task = self._supervisor.start("journal", journal.keep_words())
        else:
            self._task = self._supervisor.start("tell", journal.tell_words())
