"""Operations on what was chosen for one conversation: the model that is to answer in it."""

from __future__ import annotations

from threadline.clock import Instant
from threadline.model.session import CHOSEN_MODEL, SessionEntry
from threadline.store import sessions
from threadline.store.engine.database import Tx


def choose_model(tx: Tx, session_id: str, name: str | None, *, at: Instant) -> SessionEntry:
    """The model that answers in a session from now on; `None`: the agent's own. All else of its runtime stays."""
    entry = sessions.get_session(tx, session_id, lock=True).entry
    kept = {option: value for option, value in entry.runtime.items() if option != CHOSEN_MODEL}
    runtime = kept if name is None else {**kept, CHOSEN_MODEL: name}
    return sessions.set_runtime(tx, session_id, {"runtime": runtime}, at=at)
