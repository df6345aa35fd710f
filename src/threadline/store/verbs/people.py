"""Verbs on people: roles, and pairing."""

from __future__ import annotations

import secrets
from datetime import datetime

import msgspec

from threadline.clock import from_instant
from threadline.errors import InvalidRequest
from threadline.model.access import (
    CODE_LENGTH,
    CODE_LETTERS,
    ROLES,
    NoCodeReason,
    Role,
    normalize_code,
    parse_person_name,
)
from threadline.model.delivery import target_of
from threadline.model.ownership import person_of
from threadline.model.safe_text import safe_label
from threadline.model.source import SessionSource
from threadline.store.engine.database import Plan, read, write
from threadline.store.people import people
from threadline.store.verbs.arguments import MAX_KEY_CHARS, clean_text
from threadline.store.verbs.base import VerbsBase
from threadline.texts.gateway import PAIRED


class PairingCode(msgspec.Struct, frozen=True):
    """What a stranger is given. Nobody can read it again: only a digest is kept."""

    code: str


class NoCode(msgspec.Struct, frozen=True):
    """A stranger gets no code now."""

    reason: NoCodeReason


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was let in."""

    person: str
    role: Role
    name: str | None


class PeopleVerbs(VerbsBase):
    """Who has which role, who wants one, and how they come by it."""

    def role_of(self, person: str) -> Plan[Role | None]:
        """The role that a person was given here; the lists of the configuration are not asked."""
        return (yield from read(people.role_of, _named(person)))

    def set_role(self, person: str, role: Role, name: str | None = None) -> Plan[None]:
        """Gives a person a role in place of the one they had."""
        yield from write(people.set_role, self._now(), _named(person), _given(role), _shown(name))

    def forget_role(self, person: str) -> Plan[bool]:
        """Takes a person's role away; False if they had none."""
        return (yield from write(people.forget_role, _named(person)))

    def list_people(self) -> Plan[list[people.Person]]:
        """All who were given a role, longest known first."""
        return (yield from read(people.people))

    def request_pairing(self, source: SessionSource) -> Plan[PairingCode | NoCode]:
        """A code for the stranger who writes from `source`, good for an hour; or why there is none now.

        Nothing of what they wrote is kept. A source that is no DM, or that tells neither who writes nor where, is
        `InvalidRequest`: its code would let in more than one.
        """
        person = person_of(source)
        if source.chat_type != "dm" or person is None or not (source.sender or source.chat_id):
            raise InvalidRequest("only somebody who writes in a direct chat can be paired")
        at = self._now()
        # Looked at first without a lock: a flood of strangers costs reads alone.
        reason = yield from read(people.no_code_for, at, person, source.platform)
        if reason is not None:
            return NoCode(reason)
        code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
        digest = people.secret_digest((yield from self.installation_secret()), code)
        wanted = people.Request(
            person=person, name=_shown(source.user_name), target=target_of(source), digest=digest, at=at
        )
        reason = yield from write(people.request, wanted)
        return PairingCode(code) if reason is None else NoCode(reason)

    def list_pairings(self) -> Plan[list[people.Pairing]]:
        """Who waits to be paired."""
        return (yield from read(people.pairings, self._now()))

    def pairing_locked_until(self) -> Plan[datetime | None]:
        """When pairing is open again; `None` where it is."""
        guard = yield from read(people.guard)
        return from_instant(guard.locked_until) if guard.is_locked(self._now()) else None

    def approve_pairing(self, code: str | int, role: Role = "guest") -> Plan[Paired]:
        """Lets the stranger in who was given this code, or whose request has this number, and tells them in their chat.

        `UnknownPairing` where nobody waits with it. The fifth wrong code locks pairing for an hour: `PairingLocked`.
        """
        given = _given(role)
        number, digest = yield from self._meant(code)
        wanted = people.Approval(
            digest=digest,
            number=number,
            role=given,
            text=PAIRED[given],
            delivery_id=f"paired-{secrets.token_hex(12)}",
            at=self._now(),
        )
        outcome = yield from write(people.approve, wanted)
        if isinstance(outcome, people.Pairing):
            return Paired(person=outcome.person, role=given, name=outcome.name)
        raise people.not_approved(outcome, wanted)

    def revoke(self, person: str) -> Plan[None]:
        """Takes away a person's role and their request to be paired; `UnknownPerson` where there is neither."""
        yield from write(people.revoke, _named(person))

    def installation_secret(self) -> Plan[bytes]:
        """32 random bytes, made once for the database: all who share it get the same."""
        known = yield from read(people.find_secret)
        if known is None:
            known = yield from write(people.ensure_secret, secrets.token_hex(32))
        return bytes.fromhex(known)

    def _meant(self, code: str | int) -> Plan[tuple[int | None, bytes | None]]:
        """The number that an approval names, or the digest of its code."""
        if isinstance(code, int):
            return code, None
        typed = normalize_code(clean_text("a code", code))
        if not typed:
            raise InvalidRequest(
                "say whom to approve: by their code, or by the number that `threadline pair list` shows"
            )
        if typed.isascii() and typed.isdecimal():
            return int(typed), None
        secret = yield from self.installation_secret()
        return None, people.secret_digest(secret, typed)


def _named(person: str) -> str:
    name = parse_person_name(clean_text("a person's name", person, 2 * MAX_KEY_CHARS))
    place, _, identifier = name.partition(":")
    if not place or not identifier:
        raise InvalidRequest(f"{person!r} names nobody; people are named like telegram:7")
    return name


def _given(role: Role) -> Role:
    if role not in ROLES or role == "group":
        raise InvalidRequest(f"{role!r} is no role that a person can be given; use guest, trusted or owner")
    return role


def _shown(name: str | None) -> str | None:
    """A stranger's name, one line and short enough to keep."""
    return safe_label(name or "") or None
