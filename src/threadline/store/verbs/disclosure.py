"""The verb that tells people what is known of them."""

from __future__ import annotations

from threadline.errors import InvalidRequest
from threadline.model.source import SessionSource
from threadline.store.engine.database import Plan, read
from threadline.store.people import person_export
from threadline.store.people.person_export import PersonRecord
from threadline.store.rows import Page
from threadline.store.verbs.arguments import person_named
from threadline.store.verbs.base import VerbsBase


class DisclosureVerbs(VerbsBase):
    """What a store knows of a person."""

    def export(
        self, person: SessionSource | str, *, limit: int = 500, cursor: str | None = None
    ) -> Plan[Page[PersonRecord]]:
        """A page of all that is known of a person, and of nobody else; `cursor` goes on exactly where a page ended.

        First who they are and how much follows; then each session of theirs, oldest first, with all that was ever said in it; what
        forks still show of deleted sessions of theirs; what they wrote in sessions that others share; what their turns cost; what
        came in from them, refused or waiting; what was sent to them or is to be.
        Of somebody unknown there is the first record alone, and it counts nothing.
        What is stored between two pages may turn up in a later one. Nothing is told twice, unless a session is deleted meanwhile
        and a fork of it lives on.
        """
        name = person_named(person)
        if not name:
            raise InvalidRequest("say who it is about: a name such as telegram:7")
        return (yield from read(person_export.export, name, limit=limit, cursor=cursor))
