"""Who is answered: decided before anything of a message is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from threadline.model.access import Role, command_name, highest_role, parse_person_name
from threadline.model.address import qualified_id
from threadline.model.client_sources import LOCAL_PLATFORMS
from threadline.model.inbound import Inbound
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.store.people.people import PairingCode
from threadline.texts.gateway import PAIRING_CODE

EVERY_GROUP = "*"


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of access. By default nobody is answered but whoever sits at the machine.

    People are named like `telegram:7`, groups like `telegram:-100123`, or `*` for all of them.
    """

    owners: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    guests: frozenset[str] = frozenset()
    answer_groups: frozenset[str] = frozenset()
    pairing: bool = True


class Allowed(msgspec.Struct, frozen=True):
    """The event may come in, and its words count as much as this role."""

    role: Role
    person: str | None


class TurnedAway(msgspec.Struct, frozen=True):
    """The event does not come in, and its sender is told `tell`."""

    person: str | None
    note: str
    tell: str | None


class Ignored(msgspec.Struct, frozen=True):
    """The event is none of our business: nothing of it is stored, nothing is said. The reason is for the log."""

    reason: str


Decision: TypeAlias = Allowed | TurnedAway | Ignored


class Access:
    """Decides on every event, whatever its platform.

    A person is known by the ids that their platform assigned, never by a name or handle that they chose.
    """

    def __init__(self, store: GatewayStore, rules: AccessRules) -> None:
        self._store = store
        self._pairing = rules.pairing
        self._groups = frozenset(
            name if name == EVERY_GROUP else parse_person_name(name) for name in rules.answer_groups
        )
        # The most that any list says of somebody.
        self._listed: dict[str, Role] = dict(_listed(rules))

    async def decide(self, event: Inbound) -> Decision:
        """Whether an event may come in. A stranger's first message in a DM makes a pairing request; all else changes nothing."""
        source = event.source
        if source.platform in LOCAL_PLATFORMS:
            return Allowed("owner", person_of(source))
        person = _told_person(source)
        if source.chat_type != "dm" and not _is_for_us(event):
            return Ignored("a group message that is not meant for us")
        role = await self._role_of(person)
        if role is not None:
            return Allowed(role, person)
        if event.from_bot:
            return Ignored("a bot that nobody listed")
        if source.chat_type == "dm":
            return await self._decide_stranger(event, person)
        if event.kind in ("delete", "edit") and not await self._store.sessions.is_known_chat(_chat_of(source), person):
            return Ignored("a change in a group where nothing was heard")
        if event.kind == "delete":
            # Some platforms do not tell who deleted; what can't be read in the chat any more is not kept here either.
            return Allowed("group", person)
        return self._decide_group(source, person)

    async def _role_of(self, person: str | None) -> Role | None:
        if person is None:
            return None
        listed = self._listed.get(person)
        if listed == "owner":
            return listed
        paired = await self._store.people.find_role(person)
        return highest_role(role for role in (listed, paired) if role is not None)

    def _decide_group(self, source: SessionSource, person: str | None) -> Decision:
        if EVERY_GROUP in self._groups or _chat_of(source) in self._groups:
            return Allowed("group", person)
        return Ignored("a stranger in a group that is not answered")

    async def _decide_stranger(self, event: Inbound, person: str | None) -> Decision:
        if person is None:
            return Ignored("nobody says who wrote it")
        if not self._pairing:
            return Ignored("a stranger, and pairing is off")
        if event.kind != "message":
            return Ignored("a stranger's event that is no message")
        asked = await self._store.people.request_pairing(event.source)
        if isinstance(asked, PairingCode):
            return TurnedAway(person, "a stranger, who was given a pairing code", PAIRING_CODE.format(code=asked.code))
        return Ignored(f"a stranger, who gets no pairing code: {asked.reason}")


def _listed(rules: AccessRules) -> Iterator[tuple[str, Role]]:
    yield from ((parse_person_name(name), "guest") for name in rules.guests)
    yield from ((parse_person_name(name), "trusted") for name in rules.trusted)
    yield from ((parse_person_name(name), "owner") for name in rules.owners)


def _told_person(source: SessionSource) -> str | None:
    """Who speaks, if the platform tells who or, in a DM, where: a name for everybody unknown must not be given a role."""
    return person_of(source) if source.sender or source.chat_id else None


def _chat_of(source: SessionSource) -> str | None:
    return qualified_id(source.platform, source.account, source.chat_id) if source.chat_id else None


def _is_for_us(event: Inbound) -> bool:
    """Whether somebody in a group speaks to us."""
    if event.kind in ("button", "delete", "edit"):
        # A button stands under a message of ours. What was deleted or changed may mention nobody any more; its words are here.
        return True
    if event.mentions_us or (event.reply_to is not None and event.reply_to.is_ours):
        return True
    return event.kind == "message" and not event.is_forward and command_name(event.text) is not None
