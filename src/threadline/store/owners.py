"""Operations on what owners have: they may go on with one another's sessions, and so with their own from another platform."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from threadline.model.editors import AT_THE_MACHINE, is_at_machine
from threadline.model.ownership import Viewer
from threadline.model.session import SessionEntry
from threadline.model.transcript import MessageRef
from threadline.store import listing, sessions
from threadline.store.engine.database import Tx
from threadline.store.listing import Listing
from threadline.store.rows import entry_of
from threadline.store.search import Hit, Search, search
from threadline.store.text import Query

# More owners than that are not looked at for a list; all of them are found by name.
_OWNERS_AT_MOST = 50


def sessions_elsewhere(tx: Tx, platform: str, listed: Collection[str], *, limit: int) -> list[SessionEntry]:
    """The newest sessions that owners have on other platforms, ended ones included. `listed`: owners by the configuration."""
    found = [entry for wanted in _listings(tx, platform, listed, limit) for entry in listing.list_sessions(tx, wanted)]
    theirs = {entry.session_id: entry for entry in found if entry.owner is not None and entry.platform != platform}
    return sorted(theirs.values(), key=lambda entry: (entry.updated_at, entry.session_id), reverse=True)[:limit]


def find_titled(tx: Tx, title: str, listed: Collection[str]) -> SessionEntry | None:
    """The most recently updated session of that name that an owner has."""
    owners = _owners(tx, listed)
    for row in tx.rows("find_titled", title_key=sessions.title_key(title)):
        entry = entry_of(row)
        if entry.owner is not None and (entry.owner in owners or is_at_machine(entry.owner)):
            return entry
    return None


def search_elsewhere(tx: Tx, query: Query, platform: str, listed: Collection[str], *, limit: int) -> list[Hit]:
    """The best hits in what owners have on other platforms, each message once."""
    found: dict[MessageRef, Hit] = {}
    for wanted in _listings(tx, platform, listed, limit):
        look = Search(query=query, viewer=wanted.viewer, platform=wanted.platform, limit=limit)
        for hit in search(tx, look):
            if hit.session.owner is not None and hit.session.platform != platform:
                found.setdefault(hit.ref, hit)
    return sorted(found.values(), key=lambda hit: hit.rank)[:limit]


def _listings(tx: Tx, platform: str, listed: Collection[str], limit: int) -> Iterator[Listing]:
    for machine in AT_THE_MACHINE:
        if machine != platform:
            yield Listing(include_ended=True, platform=machine, limit=limit)
    for owner in sorted(_owners(tx, listed))[:_OWNERS_AT_MOST]:
        yield Listing(include_ended=True, viewer=Viewer(owner), limit=limit)


def _owners(tx: Tx, listed: Collection[str]) -> set[str]:
    return {*listed, *(str(person) for (person,) in tx.rows("owners"))}
