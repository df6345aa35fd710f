"""The sessions that are open in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from threadline.acp.conversation import Conversation, Prompt
from threadline.acp.desk import Desk
from threadline.acp.outlet import Outlet
from threadline.acp.translate import said
from threadline.model.delivery import Target
from threadline.model.source import SessionSource
from threadline.ports.agent import Workplace
from threadline.ports.platform import Outgoing
from threadline.rpc.acp import KnownUpdate, Notice
from threadline.rpc.connection import Connection, Start

# Puts a question to the person.
Ask: TypeAlias = Callable[[Conversation, Outgoing], None]

# How deliveries are named: those that answer a command, and those that a running turn asked for.
_COMMAND = "command."
_NOTE = ".note."
# What parts one thing that is said from the next, which an editor shows as one text.
GAP = "\n\n"


class Table:
    """What lies open before the editor."""

    def __init__(self, desk: Desk, connection: Connection, ask: Ask, start: Start) -> None:
        self._desk = desk
        self._connection = connection
        self._ask = ask
        self._start = start
        self._open: dict[str, Conversation] = {}
        # Those that were spoken in, until they are looked at and found at rest.
        self._spoken_in: dict[str, Conversation] = {}
        # Whether the editor has a place of its own for what is no part of an answer.
        self.shows_notices = False

    def find(self, session_id: str) -> Conversation | None:
        """The session of that id, if it is open here."""
        return self._open.get(session_id)

    def lay(self, session_id: str, source: SessionSource) -> Conversation:
        """The session of that id, open from now on."""
        conversation = self._open.get(session_id)
        if conversation is None:
            outlet = Outlet(self._connection.send_lines, self._start)
            conversation = self._open[session_id] = Conversation(session_id, source, outlet, self._desk.fetch)
        return conversation

    def begin(self, conversation: Conversation, prompt: Prompt) -> None:
        """Somebody waits in that session from now on."""
        conversation.begin(prompt)
        self._spoken_in[conversation.session_id] = conversation

    def clear(self, conversation: Conversation) -> None:
        """The session is not open any more."""
        if self._open.get(conversation.session_id) is conversation:
            del self._open[conversation.session_id]

    def bound(self) -> list[SessionSource]:
        """Where this process answers: in the sessions that somebody waits in here, or has just cancelled something in.

        Of a session that two windows have open, the one that is spoken in does all.
        """
        bound: list[SessionSource] = []
        # However many are open, few are at work.
        for key, one in list(self._spoken_in.items()):
            if not one.is_at_work:
                del self._spoken_in[key]
            elif self._open.get(key) is one:
                bound.append(one.source)
        return bound

    def workplace_for(self, source: SessionSource) -> Workplace | None:
        """Where the editor lets the agent work in that session."""
        conversation = self._open.get(source.chat_id or "")
        return None if conversation is None else conversation.workplace

    def arrived(self, to: Target, message: Outgoing, key: str) -> None:
        """Tells what the gateway has to say besides turns: notices, questions, and answers to commands to who waits for one.

        Whoever pressed a button, in this process or in one that is gone, knows what they have pressed.
        """
        conversation = self._open.get(to.chat_id)
        if conversation is None or not conversation.is_new(key):
            return
        if message.buttons:
            self._ask(conversation, message)
        elif message.text and (conversation.awaits_command or not key.startswith(_COMMAND)):
            # What the turn said before, or says next, must not run on in the same line.
            before = GAP if conversation.has_spoken else ""
            behind = GAP if conversation.prompt is not None and conversation.prompt.is_running else ""
            conversation.tell(self.shown(key, message.text, before=before, behind=behind), key=key)

    def shown(self, key: str, text: str, *, before: str = "", behind: str = "") -> KnownUpdate:
        """What the gateway says besides turns, as this editor shows it: apart, or among what else is said, with gaps around it."""
        if _NOTE in key and self.shows_notices:
            return Notice(severity="info", title=text)
        return said(before + text + behind)
