"""Verbs on what people choose: a time zone, a model, a home channel, and where a conversation goes on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadline.clock import to_instant
from threadline.ids import new_session_id
from threadline.model.address import SessionAddress
from threadline.model.context import HomeChannel, NamedHomeChannel
from threadline.model.delivery import target_of
from threadline.model.ownership import person_of
from threadline.model.policy import checked_zone
from threadline.model.safe_text import safe_label
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.conversations import records, resume, sessions
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.arguments import MAX_KEY_CHARS, clean_or_none, clean_text
from threadline.store.verbs.base import VerbsBase

_MODEL_CHARS = 200


class PersonZone(msgspec.Struct, frozen=True):
    """The time zone that a person's days are counted in, and whether they named it themselves."""

    name: str
    is_own: bool


class ChoiceVerbs(VerbsBase):
    """What commands choose, for a person, a conversation or a platform."""

    def zone_of_person(self, person: str) -> Plan[PersonZone]:
        """The zone that a person named, else the installation's."""
        named = yield from read(records.timezone_of, person)
        return PersonZone(self._settings.zone if named is None else named, is_own=named is not None)

    def set_zone_of_person(self, person: str, zone: str | None) -> Plan[None]:
        """Keeps the zone that a person's days are counted in; `None`: the installation's. An unknown one: `InvalidRequest`."""
        name = clean_text("a person's name", person, 2 * MAX_KEY_CHARS)
        yield from write(records.set_timezone, name, None if zone is None else checked_zone(zone))

    def choose_model(self, session_id: str, name: str | None) -> Plan[SessionEntry]:
        """The model that answers in a session from now on; `None`: the agent's own."""
        chosen = clean_or_none("the name of a model", name, _MODEL_CHARS)
        return (yield from write(sessions.choose_model, self._now(), session_id, chosen))

    def homes(self) -> Plan[list[NamedHomeChannel]]:
        """The home channels that were named in a chat; those of the configuration are not asked."""
        return (yield from read(records.list_home_channels))

    def set_home(self, source: SessionSource) -> Plan[NamedHomeChannel]:
        """The chat, and thread, of `source` is the home channel of its account from now on. Without a chat: `InvalidRequest`."""
        target = target_of(source)
        home = NamedHomeChannel(
            channel=HomeChannel(
                target.platform,
                clean_text("the id of a chat", target.chat_id),
                safe_label(source.chat_name or source.description),
                clean_or_none("the id of a thread", target.thread_id),
                clean_text("the name of an account", target.account),
            ),
            chat_type=target.chat_type,
            person=person_of(source) if target.chat_type == "dm" else None,
        )
        yield from write(records.set_home_channel, home)
        return home

    def drop_home(self, platform: str, account: str) -> Plan[bool]:
        """Takes back the home channel that was named for an account; False where none was."""
        return (yield from write(records.remove_home_channel, platform, account))

    def find_place(self, addresses: Sequence[SessionAddress]) -> Plan[resume.Reached | None]:
        """The first of these addresses at which there is a conversation."""
        return (yield from read(resume.find_place, addresses))

    def hand_over(
        self, session_id: str, to: str, text: str, *, is_owners: bool
    ) -> Plan[SessionEntry | resume.NotHandedOver]:
        """A copy of the session goes on as the conversation `to`, whose chat is told `text`; or why it does not.

        `is_owners`: see `may_hand_over`. `NotYours`, `UnknownSession`: nothing was changed.
        """
        now = self._settings.clock.now()
        wanted = resume.Handoff(
            session_id=session_id,
            to=to,
            is_owners=is_owners,
            text=text,
            new_id=new_session_id(now),
            at=to_instant(now),
        )
        return (yield from write(resume.hand_over, wanted))
