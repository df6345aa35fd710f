"""Operations on what an agent wants back with a session's next turn: a word of its own, which nobody is shown."""

from __future__ import annotations

from threadline.errors import LeaseLost
from threadline.store.engine.database import Tx
from threadline.store.turns import Held

MOST_CHARS = 8_000


def remember(tx: Tx, held: Held, session_pk: int, agent: str, text: str) -> None:
    """Keeps what the agent of a turn wants back, in the place of what it kept before. `LeaseLost` where the turn is another's now.

    Of a session that was deleted meanwhile nothing is kept.
    """
    # The session first, as whoever ends a turn does: the other way round the two could wait for each other.
    tx.run("remember", session_pk=session_pk, agent=agent, text=text)
    if not tx.run("touch_turn", turn_pk=held.turn_pk, fence=held.fence, tools=0):
        raise LeaseLost


def remembered(tx: Tx, session_pk: int, agent: str) -> str | None:
    """What that agent keeps with the session; `None` where it keeps nothing."""
    row = tx.find("remembered", session_pk=session_pk, agent=agent)
    return None if row is None else str(row[0])


def of_session(tx: Tx, session_pk: int) -> dict[str, str]:
    """What agents keep with a session, by their names."""
    return {str(agent): str(text) for agent, text in tx.rows("memories_of", session_pk=session_pk)}
