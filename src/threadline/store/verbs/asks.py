"""Verbs for permissions: a turn asks, somebody answers, or nobody does."""

from __future__ import annotations

from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.base import VerbsBase
from threadline.store.work import approvals


class AskVerbs(VerbsBase):
    """What a gateway does about questions that agents put to people."""

    def ask(self, wanted: approvals.Asking) -> Plan[None]:
        """Lets a turn wait for somebody's word."""
        yield from write(approvals.ask, wanted)

    def open_ask(self, session_id: str) -> Plan[approvals.OpenAsk | None]:
        """The question that a session waits for."""
        return (yield from read(approvals.open_ask, self._now(), session_id))

    def ask_in_chat(self, lane: str, code: str) -> Plan[approvals.OpenAsk | None]:
        """The open question with that code that a chat shows."""
        return (yield from read(approvals.ask_in_chat, self._now(), lane, code))

    def expire_asks(self) -> Plan[int]:
        """Ends turns whose question nobody answered in time; how many."""
        return (yield from write(approvals.expire, self._now()))
