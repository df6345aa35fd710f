"""A toy store in memory: what a user sees, in plain lists. Real stores are compared with it, step by step.

It knows nothing of views, spans or databases: a session is a list of messages that are shown, and a list of those that
compaction hid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from threadline.model.message import Message, tombstone
from threadline.model.source import SessionSource


@dataclass(eq=False)
class Said:
    """One message, which any number of sessions may show."""

    home: ToySession
    seq: int
    message: Message
    word: str | None = None
    redacted: bool = False

    @property
    def ref(self) -> str:
        """The message's lasting name."""
        return f"{self.home.session_id}:{self.seq}"

    def redact(self) -> None:
        """Takes away what it says."""
        self.redacted = True
        self.message = json.loads(tombstone(json.dumps(self.message)).body)


@dataclass(eq=False)
class ToyAddress:
    """A conversation. `owner` is None where it is shared."""

    source: SessionSource
    owner: str | None
    chat: str
    key: str = ""
    current: ToySession | None = None
    parent: ToyAddress | None = None


@dataclass(eq=False)
class ToySession:
    """What is shown, what was folded away, and what redo would bring back."""

    session_id: str
    address: ToyAddress
    order: int
    updated: int = 0
    ended: bool = False
    title: str | None = None
    log: list[Said] = field(default_factory=list)
    shown: list[Said] = field(default_factory=list)
    folded: list[Said] = field(default_factory=list)
    undone: list[tuple[list[Said], list[Said]]] = field(default_factory=list)
    external: dict[str, Said] = field(default_factory=dict)

    def append(self, message: Message, word: str | None = None) -> Said:
        """Says something; what was undone before can no longer be redone."""
        said = Said(self, len(self.log) + 1, message, word)
        self.log.append(said)
        self.shown.append(said)
        self.undone = []
        return said

    @property
    def messages(self) -> list[Message]:
        """What the model sees."""
        return [said.message for said in self.shown]

    @property
    def own_count(self) -> int:
        """How many messages of its own it shows."""
        return sum(said.home is self for said in self.shown)

    def finds(self, said: Said) -> bool:
        """Whether a search finds the message here."""
        return not said.redacted and (said in self.shown or said in self.folded)

    def undo(self, n: int) -> bool:
        """Takes the last exchanges away: each is the user messages answered together and all up to the next ones."""
        starts = [
            place
            for place, said in enumerate(self.shown)
            if said.message["role"] == "user" and (place == 0 or self.shown[place - 1].message["role"] != "user")
        ]
        return self._cut(starts[-n:][0]) if starts else False

    def retry(self) -> bool:
        """Takes away what follows the last user message."""
        last = max((place for place, said in enumerate(self.shown) if said.message["role"] == "user"), default=-1)
        return last >= 0 and (last + 1 == len(self.shown) or self._cut(last + 1))

    def redo(self) -> bool:
        """Takes the last undo or retry back."""
        if not self.undone:
            return False
        self.shown, self.folded = self.undone.pop()
        return True

    def rewrite(self, messages: list[Message]) -> None:
        """Shows these instead; what is the same at both ends stays the same message."""
        before, wanted = [json.dumps(m) for m in self.messages], [json.dumps(m) for m in messages]
        limit = min(len(before), len(wanted))
        head = next((i for i in range(limit) if before[i] != wanted[i]), limit)
        rest = limit - head
        tail = next((i for i in range(rest) if before[-1 - i] != wanted[-1 - i]), rest)
        old = self.shown
        self.shown = old[:head]
        for message in messages[head : len(messages) - tail]:
            self.append(message)
        self.shown += old[len(old) - tail :]
        hidden = [*self.folded, *old]
        self.folded = [said for said in dict.fromkeys(hidden) if said not in self.shown]
        self.undone = []

    def inherit(self, parent: ToySession, upto: Said | None = None) -> None:
        """Starts with what another session shows, up to a message."""
        end = len(parent.shown) if upto is None else parent.shown.index(upto) + 1
        self.shown, self.folded = parent.shown[:end], list(parent.folded)

    def _cut(self, place: int) -> bool:
        self.undone.append((self.shown, self.folded))
        self.shown = self.shown[:place]
        return True


def may_resume(here: ToyAddress, session: ToySession) -> bool:
    """In a DM: any session of the same person. In a group: that chat's alone, private ones for their owner alone."""
    there = session.address
    if here.source.chat_type == "dm":
        return there.owner == here.owner
    return there.chat == here.chat and there.owner == here.owner
