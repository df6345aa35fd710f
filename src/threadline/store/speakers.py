"""Operations on who spoke under which name in a conversation that several people share."""

from __future__ import annotations

from collections.abc import Sequence

from threadline.model.speaker import Speaker
from threadline.store.engine.database import Tx
from threadline.store.rows import StoredSession

# Of a crowd the first are told apart for certain: who comes after so many is compared with these.
_TOLD_APART = 500
_NAMES_KNOWN = 100


def of_session(tx: Tx, session: StoredSession) -> tuple[Speaker, ...]:
    """Who has spoken in a shared session, in the order in which they first used their names; nobody in a private one."""
    if not session.entry.is_shared:
        return ()
    rows = tx.rows("speakers_of", session_pk=session.pk, limit=_TOLD_APART)
    return tuple(Speaker(person, name) for person, name in rows)


def keep(tx: Tx, session_pk: int, speakers: Sequence[Speaker]) -> None:
    """Notes who has spoken; who was noted before stays in place."""
    for speaker in speakers:
        tx.run("add_speaker", session_pk=session_pk, person=speaker.person, name=speaker.name)


def names_of(tx: Tx, person: str) -> list[str]:
    """The names that a person has spoken under where others did too."""
    return [name for (name,) in tx.rows("names_of_speaker", person=person, limit=_NAMES_KNOWN)]
