"""Verbs on what agents want back with a session's next turn."""

from __future__ import annotations

from threadline.store.conversations import records
from threadline.store.engine.database import Plan, read, write
from threadline.store.leases import Held
from threadline.store.verbs.arguments import clean_text
from threadline.store.verbs.base import VerbsBase


class MemoryVerbs(VerbsBase):
    """What an agent keeps with a session, for itself alone."""

    def remember(self, held: Held, session_pk: int, agent: str, text: str) -> Plan[None]:
        """Keeps what the agent of a turn wants back with the session's next one, in the place of what it kept before.

        When it returns it survives a power cut. `LeaseLost` where the turn is another's now; over 8,000 characters:
        `InvalidRequest`. Forks do not have it; with the session it goes.
        """
        kept = clean_text("what an agent remembers", text, records.MAX_STATE_CHARS)
        yield from write(records.save_state, held, session_pk, clean_text("the name of an agent", agent), kept)

    def remembered(self, session_pk: int, agent: str) -> Plan[str | None]:
        """What that agent keeps with the session; `None` where it keeps nothing."""
        return (yield from read(records.load_state, session_pk, agent))
