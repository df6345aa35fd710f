"""Verbs on what owners have on whatever platform."""

from __future__ import annotations

from collections.abc import Collection

from threadline.model.session import SessionEntry
from threadline.store.conversations import search
from threadline.store.conversations.search import Hit
from threadline.store.engine.database import Plan, read, read_along
from threadline.store.rows import check_limit
from threadline.store.text import parse_query
from threadline.store.verbs.base import VerbsBase


class OwnerVerbs(VerbsBase):
    """For owners alone: whoever asks has been found to be one. `listed` are those whom the configuration calls so."""

    def owners_sessions(self, platform: str, listed: Collection[str], *, limit: int = 10) -> Plan[list[SessionEntry]]:
        """The newest sessions that owners have on other platforms than this one, ended ones included."""
        check_limit(limit)
        return (yield from read(search.owner_sessions, platform, listed, limit=limit))

    def owners_hits(self, query: str, platform: str, listed: Collection[str], *, limit: int = 10) -> Plan[list[Hit]]:
        """The best hits in sessions that owners have on other platforms than this one; of what is indexed so far."""
        check_limit(limit)
        return (yield from read_along(search.owner_hits, parse_query(query), platform, listed, limit=limit))

    def find_owners_title(self, title: str, listed: Collection[str]) -> Plan[SessionEntry | None]:
        """The most recently updated session of that name that an owner has."""
        return (yield from read(search.find_owner_title, title, listed))
