"""Roles, pairing and the secret of the installation."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidRequest, ThreadlineError
from threadline.model.access import (
    CODE_LENGTH,
    CODE_LETTERS,
    MAX_WRONG_CODES,
    ROLES,
    NoCodeReason,
    PairingGuard,
    Role,
    code_expiry,
    code_refusal,
    guard_after_wrong_code,
    normalize_code,
    parse_person_name,
)
from threadline.model.delivery import Target, target_of
from threadline.model.ownership import person_of
from threadline.model.safe_text import safe_label
from threadline.model.source import SessionSource
from threadline.store.engine.database import Perform, Row, Step, Tx, read, task, write
from threadline.store.rows import json_text
from threadline.store.verbs import MAX_KEY_CHARS, Group, Mode, Store, clean_text, reads, reads_now, verb
from threadline.store.work import outbox
from threadline.texts.gateway import PAIRED

# One secret for each installation: pairing codes and the pseudonyms in prompts are keyed with it.
_SECRET = "installation_secret"  # noqa: S105 - the name of the row, not what stands in it


class UnknownPairing(ThreadlineError):
    """Nobody who waits to be paired has this code. `threadline pair list` shows who waits."""


class PairingLocked(ThreadlineError):
    """There were too many wrong codes, so nobody can be paired for an hour."""


class UnknownPerson(ThreadlineError):
    """Nobody of that name is paired or waits. `threadline pair list` shows who does."""


class KnownPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person with a role."""

    person: str
    role: Role
    name: str | None
    since: datetime


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger whose code waits for approval."""

    number: int
    platform: str
    account: str
    person: str
    name: str | None
    asked_at: datetime
    expires_at: datetime


class PairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger's request to be paired. It has only a digest of the code, and nothing of their message."""

    person: str
    name: str | None
    target: Target
    digest: bytes
    at: Instant


class PairingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval of a stranger, by their code or by the number of their request."""

    digest: bytes | None
    number: int | None
    role: Role
    # The notice for their chat, and the delivery id that makes it idempotent.
    text: str
    delivery_id: str
    at: Instant


class WrongCode(msgspec.Struct, frozen=True):
    """An approval that matched no request, and the state of the guard after it."""

    guard: PairingGuard


def secret_digest(secret: bytes, code: str) -> bytes:
    """Return the stored digest of a code."""
    return hmac.new(secret, b"pairing\x00" + code.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def find_secret(tx: Tx) -> str | None:
    """Return the installation's secret, or `None` before it was made."""
    row = tx.find("find_meta", name=_SECRET)
    return None if row is None else str(row[0])


def ensure_secret(tx: Tx, fresh: str) -> str:
    """Return the installation's secret: `fresh`, unless another caller stored one first."""
    tx.run("keep_meta", name=_SECRET, value=fresh)
    return find_secret(tx) or fresh


def role_of(tx: Tx, person: str) -> Role | None:
    """Return the role that a person was given in this store."""
    row = tx.find("find_role", person=person)
    return None if row is None else row[0]


def set_role(tx: Tx, at: Instant, person: str, role: Role, name: str | None) -> None:
    """Set the role of a person."""
    tx.run("keep_person", person=person, role=role, name=name, at=at)


def remove_role(tx: Tx, person: str) -> bool:
    """Remove a person's role; return False if they had none."""
    return tx.run("drop_person", person=person) == 1


def revoke(tx: Tx, person: str) -> None:
    """Remove a person's role and their pairing request; raise `UnknownPerson` where there is neither."""
    removed = tx.run("drop_person", person=person) + tx.run("drop_pairing_of", person=person)
    if not removed:
        raise UnknownPerson(
            f"nobody called {person} is paired or waits; `threadline pair list` shows who does, "
            "and people in the configuration are removed there"
        )


def list_people(tx: Tx) -> list[KnownPerson]:
    """Return all people with a role, longest known first."""
    return [
        KnownPerson(person=person, role=role, name=name, since=from_instant(since))
        for person, role, name, since in tx.rows("list_people")
    ]


def list_pairings(tx: Tx, at: Instant) -> list[Pairing]:
    """Return the pending pairings, in the order of their requests, without those whose code has expired."""
    return [_pairing(row) for row in tx.rows("pending_pairings", at=at)]


def read_guard(tx: Tx) -> PairingGuard:
    """Return the count of wrong codes, and whether pairing is locked."""
    row = tx.find("find_guard")
    return PairingGuard() if row is None else PairingGuard(*row)


def pairing_refusal(tx: Tx, at: Instant, person: str, platform: str) -> NoCodeReason | None:
    """Return why a stranger gets no code now, as far as is known without a lock; or `None`."""
    return _refusal_reason(tx, read_guard(tx), person, platform, at)


def request_pairing(tx: Tx, request: PairingRequest) -> NoCodeReason | None:
    """Store a stranger's request, or return why not. A refused request leaves no trace."""
    guard = _lock(tx)
    tx.run("drop_expired_pairings", at=request.at)
    reason = _refusal_reason(tx, guard, request.person, request.target.platform, request.at)
    if reason is None:
        tx.run(
            "keep_pairing",
            platform=request.target.platform,
            account=request.target.account,
            person=request.person,
            name=request.name,
            target=json_text(request.target),
            code=request.digest,
            at=request.at,
            expires_at=code_expiry(request.at),
        )
    return reason


def approve(tx: Tx, approval: PairingApproval) -> Pairing | WrongCode | PairingGuard:
    """Give a stranger their role, notify them, and delete their request; of two approvals of one code one finds it.

    A `PairingGuard`: pairing is locked, and nothing was compared. A wrong code is returned, never raised: it must be counted, and
    an operation that raises leaves no trace.
    """
    guard = _lock(tx)
    if guard.is_locked(approval.at):
        return guard
    row = _matching_request(tx.rows("pending_pairings", at=approval.at), approval)
    if row is None:
        return _count_wrong_code(tx, guard, approval)
    pairing = _pairing(row)
    set_role(tx, approval.at, pairing.person, approval.role, pairing.name)
    notice = outbox.NewDelivery(
        delivery_id=approval.delivery_id, target=_decode_target(row[5]), text=approval.text, person=pairing.person
    )
    outbox.enqueue(tx, approval.at, notice)
    tx.run("drop_pairing_of", person=pairing.person)
    return pairing


def approval_error(outcome: WrongCode | PairingGuard, approval: PairingApproval) -> ThreadlineError:
    """Return the error for an approval that matched no request."""
    guard = outcome.guard if isinstance(outcome, WrongCode) else outcome
    if guard.is_locked(approval.at):
        until = f"{from_instant(guard.locked_until):%Y-%m-%d %H:%M} UTC"
        return PairingLocked(
            f"after {MAX_WRONG_CODES} wrong codes nobody can be paired until {until}; "
            "earlier codes have expired then, so strangers must write again for a new one"
        )
    if approval.digest is None:
        return UnknownPairing(f"no request is number {approval.number}; `threadline pair list` shows who waits")
    return UnknownPairing(
        "no pending request has this code: it was mistyped, used or is older than an hour; "
        f"after {guard.left} more wrong ones nobody can be paired for an hour"
    )


def _lock(tx: Tx) -> PairingGuard:
    row = tx.find("lock_pairing")
    return PairingGuard() if row is None else PairingGuard(*row)


def _refusal_reason(tx: Tx, guard: PairingGuard, person: str, platform: str, at: Instant) -> NoCodeReason | None:
    last_request = tx.find("asked_at", person=person, at=at)
    others = tx.find("count_pending", platform=platform, person=person, at=at)
    return code_refusal(
        guard,
        asked_at=None if last_request is None else Instant(last_request[0]),
        others=0 if others is None else int(others[0]),
        at=at,
    )


def _matching_request(rows: list[Row], approval: PairingApproval) -> Row | None:
    """Return the request that an approval names. Every digest is compared in constant time: the time tells nothing of a guess."""
    if approval.digest is None:
        return next((row for row in rows if row[0] == approval.number), None)
    same = [row for row in rows if hmac.compare_digest(bytes(row[6]), approval.digest)]
    return same[0] if same else None


def _count_wrong_code(tx: Tx, guard: PairingGuard, approval: PairingApproval) -> WrongCode:
    # A number is no secret: `pair list` shows it, and guessing another reveals nothing.
    if approval.digest is None:
        return WrongCode(guard)
    after = guard_after_wrong_code(guard, approval.at)
    tx.run("set_guard", wrong=after.wrong, wrong_at=after.wrong_at, locked_until=after.locked_until)
    return WrongCode(after)


def _pairing(row: Row) -> Pairing:
    pk, platform, account, person, name, _, _, asked_at, expires_at = row
    return Pairing(
        number=pk,
        platform=platform,
        account=account,
        person=person,
        name=name,
        asked_at=from_instant(asked_at),
        expires_at=from_instant(expires_at),
    )


_decode_target = msgspec.json.Decoder(Target).decode


class PairingCode(msgspec.Struct, frozen=True):
    """The code for a stranger. Nobody can read it again: only a digest is stored."""

    code: str


class PairingRefusal(msgspec.Struct, frozen=True):
    """Why a stranger gets no code now."""

    reason: NoCodeReason


class PairedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person who was paired."""

    person: str
    role: Role
    name: str | None


class People(Group[Mode]):
    """Roles, pairing, and the secret of the installation."""

    list_all = reads(list_people)
    list_pairings = reads_now(list_pairings)

    @verb
    def find_role(_: Store[Any], person: str) -> Step[Role | None]:
        """Return the role that a person was given in this store; the lists of the configuration are not asked."""
        return read(role_of, _checked_person(person))

    @verb
    def set_role(store: Store[Any], person: str, role: Role, name: str | None = None) -> Step[None]:
        """Set the role of a person."""
        return write(set_role, store.now(), _checked_person(person), _checked_role(role), _stored_name(name))

    @verb
    def remove_role(_: Store[Any], person: str) -> Step[bool]:
        """Remove a person's role; return False if they had none."""
        return write(remove_role, _checked_person(person))

    @verb
    def request_pairing(store: Store[Any], source: SessionSource) -> Step[PairingCode | PairingRefusal]:
        """Return a code for the stranger who writes from `source`, good for an hour; or why there is none now.

        Nothing of their message is stored. A source that is no DM, or that names neither the sender nor the chat, is
        `InvalidRequest`: its code would let in more than one person.
        """
        person = person_of(source)
        if source.chat_type != "dm" or person is None or not (source.sender or source.chat_id):
            raise InvalidRequest("only somebody who writes in a direct chat can be paired")
        return task(_request_pairing, store.now(), person, source)

    @verb
    def pairing_locked_until(store: Store[Any]) -> Step[datetime | None]:
        """Return when pairing is unlocked; `None` where it is not locked."""
        return read(_locked_until, store.now())

    @verb
    def approve_pairing(store: Store[Any], code: str | int, role: Role = "guest") -> Step[PairedPerson]:
        """Pair the stranger who was given this code, or whose request has this number, and notify them in their chat.

        Raises `UnknownPairing` where no request matches. The fifth wrong code locks pairing for an hour: `PairingLocked`.
        """
        return task(_approve_pairing, store.now(), code, _checked_role(role))

    @verb
    def revoke(_: Store[Any], person: str) -> Step[None]:
        """Remove a person's role and their pairing request; raise `UnknownPerson` where there is neither."""
        return write(revoke, _checked_person(person))

    @verb
    def installation_secret(_: Store[Any]) -> Step[bytes]:
        """Return 32 random bytes, made once for the database: all who share it get the same."""
        return task(_installation_secret)


def _request_pairing(perform: Perform, at: Instant, person: str, source: SessionSource) -> PairingCode | PairingRefusal:
    # Checked first without a lock: a flood of strangers costs only reads.
    reason = perform(read(pairing_refusal, at, person, source.platform))
    if reason is not None:
        return PairingRefusal(reason)
    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
    digest = secret_digest(_installation_secret(perform), code)
    pairing_request = PairingRequest(
        person=person, name=_stored_name(source.user_name), target=target_of(source), digest=digest, at=at
    )
    reason = perform(write(request_pairing, pairing_request))
    return PairingCode(code) if reason is None else PairingRefusal(reason)


def _locked_until(tx: Tx, at: Instant) -> datetime | None:
    state = read_guard(tx)
    return from_instant(state.locked_until) if state.is_locked(at) else None


def _approve_pairing(perform: Perform, at: Instant, code: str | int, role: Role) -> PairedPerson:
    number, digest = _number_or_digest(perform, code)
    approval = PairingApproval(
        digest=digest,
        number=number,
        role=role,
        text=PAIRED[role],
        delivery_id=f"paired-{secrets.token_hex(12)}",
        at=at,
    )
    outcome = perform(write(approve, approval))
    if isinstance(outcome, Pairing):
        return PairedPerson(person=outcome.person, role=role, name=outcome.name)
    raise approval_error(outcome, approval)


def _installation_secret(perform: Perform) -> bytes:
    secret = perform(read(find_secret))
    if secret is None:
        secret = perform(write(ensure_secret, secrets.token_hex(32)))
    return bytes.fromhex(secret)


def _number_or_digest(perform: Perform, code: str | int) -> tuple[int | None, bytes | None]:
    """Return the number that an approval names, or the digest of its code."""
    if isinstance(code, int):
        return code, None
    typed = normalize_code(clean_text("a code", code))
    if not typed:
        raise InvalidRequest("say whom to approve: by their code, or by the number that `threadline pair list` shows")
    if typed.isascii() and typed.isdecimal():
        return int(typed), None
    return None, secret_digest(_installation_secret(perform), typed)


def _checked_person(person: str) -> str:
    name = parse_person_name(clean_text("a person's name", person, 2 * MAX_KEY_CHARS))
    platform, _, identifier = name.partition(":")
    if not platform or not identifier:
        raise InvalidRequest(f"{person!r} names nobody; people are named like telegram:7")
    return name


def _checked_role(role: Role) -> Role:
    if role not in ROLES or role == "group":
        raise InvalidRequest(f"{role!r} is no role that a person can be given; use guest, trusted or owner")
    return role


def _stored_name(name: str | None) -> str | None:
    """Return a stranger's name, one line and short enough to keep."""
    return safe_label(name or "") or None
