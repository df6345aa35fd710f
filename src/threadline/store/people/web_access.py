"""Invites and logins of the web page."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from datetime import datetime, timedelta
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidRequest
from threadline.model.access import Role
from threadline.model.address import qualified_id
from threadline.model.safe_text import safe_label
from threadline.model.source import MAIN_ACCOUNT
from threadline.store.engine.database import Perform, Step, Tx, read, task, write
from threadline.store.people import people
from threadline.store.verbs import MAX_KEY_CHARS, Group, Mode, Store, clean_text, reads_now, verb, writes, writes_now
from threadline.texts.web import OWNER_NAME

PLATFORM = "web"
OWNER_ID = "owner"
OWNER = qualified_id(PLATFORM, MAIN_ACCOUNT, OWNER_ID)
LOGIN_LIFETIME = timedelta(days=30)
TOUCH_INTERVAL = timedelta(hours=1)
# Only a person's newest logins are kept: nobody can fill the store with them.
MAX_LOGINS = 50
_MICROSECOND = timedelta(microseconds=1)
# All names of people on the page sort between these.
_FIRST, _AFTER = f"{PLATFORM}:", f"{PLATFORM};"


class WebLogin(msgspec.Struct, frozen=True, kw_only=True):
    """The person whom a cookie logs in."""

    person: str
    name: str
    role: Role


class StoredLogin(msgspec.Struct, frozen=True):
    """A login as stored, and when its last use was recorded."""

    login: WebLogin
    seen_at: Instant


class WebPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may use the page. `since` is unknown for the owner, `seen_at` for a person without a login."""

    user_id: str
    name: str
    role: Role
    since: datetime | None
    logins: int
    seen_at: datetime | None


class WebInvite(msgspec.Struct, frozen=True, kw_only=True):
    """A link that nobody has used yet. `user_id`: it is for a known person; `role`: the role that it gives."""

    name: str
    user_id: str | None
    role: Role | None
    created_at: datetime
    expires_at: datetime


class WebPeople(msgspec.Struct, frozen=True):
    """The people who may use the page, and the unused invites."""

    people: list[WebPerson]
    invites: list[WebInvite]


class NewInvite(msgspec.Struct, frozen=True, kw_only=True):
    """A new link: for a new person, or for the known person of `user_id`."""

    digest: bytes
    at: Instant
    expires_at: Instant
    role: Role | None
    name: str | None = None
    user_id: str | None = None


class RedeemRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A use of a link: the digests of its code and of the new cookie, and an id for a new person."""

    digest: bytes
    cookie: bytes
    user_id: str
    at: Instant


class RevokedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The person whose access was revoked, and how many logins and links ended. `user_id`: `None` where they never came."""

    name: str
    user_id: str | None
    logins: int
    invites: int


class LoginRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A login of a person's browser, as their export shows it."""

    name: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


class InviteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An unused link for a known person, as their export shows it."""

    name: str
    created_at: datetime
    expires_at: datetime


def digest_of(secret: str, key: str = "") -> bytes:
    """Return the stored digest of a secret. With a `key` it is worth nothing once the key has changed."""
    return hmac.digest(b"web\x00" + key.encode(), secret.encode("utf-8", "surrogatepass"), hashlib.sha256)


def person_of_user(user_id: str) -> str:
    """Return the store's name of a user of the page."""
    return qualified_id(PLATFORM, MAIN_ACCOUNT, user_id)


def user_id_of(person: str) -> str:
    """Return a person's id on the page."""
    return person.removeprefix(_FIRST)


def make_login(tx: Tx, at: Instant, person: str, name: str, digest: bytes) -> None:
    """Log a browser in for the next thirty days; end the oldest logins of a person who has very many."""
    _prune(tx, at)
    tx.run("keep_login", digest=digest, person=person, name=name, at=at, expires_at=_login_expiry(at))
    tx.run("drop_older_logins", person=person, keep=MAX_LOGINS)


def find_login(tx: Tx, at: Instant, digest: bytes) -> StoredLogin | None:
    """Return the login of a cookie; `None` where it was ended, has expired, or its person has no role any more."""
    row = tx.find("find_login", digest=digest, at=at)
    if row is None:
        return None
    person, name, seen_at, role = row
    if person == OWNER:
        role = "owner"
    return None if role is None else StoredLogin(WebLogin(person=person, name=name, role=role), Instant(seen_at))


def needs_touch(login: StoredLogin, at: Instant) -> bool:
    """Return whether the use of a login has to be recorded again."""
    return at - login.seen_at >= TOUCH_INTERVAL // _MICROSECOND


def touch_login(tx: Tx, at: Instant, digest: bytes) -> None:
    """Extend a login that is used. A login that was ended meanwhile does not come back."""
    _prune(tx, at)
    tx.run("touch_login", digest=digest, at=at, expires_at=_login_expiry(at))


def delete_login(tx: Tx, digest: bytes) -> bool:
    """End a login; return False where there was none."""
    return tx.run("drop_login", digest=digest) == 1


def delete_logins(tx: Tx, person: str) -> int:
    """End all logins of a person; return how many there were."""
    return tx.run("drop_logins_of", person=person)


def invite(tx: Tx, new: NewInvite) -> WebInvite:
    """Store a link. A new person needs a name that nobody else has, or people could not be told apart by it.

    Raise `InvalidRequest` for a name that is taken, and `UnknownPerson` for an id that nobody has.
    """
    _prune(tx, new.at)
    name = _free_name(tx, new) if new.user_id is None else _stored_name(tx, new.user_id)
    tx.run(
        "keep_invite",
        digest=new.digest,
        person=None if new.user_id is None else person_of_user(new.user_id),
        name=name,
        role=new.role,
        at=new.at,
        expires_at=new.expires_at,
    )
    return WebInvite(
        name=name,
        user_id=new.user_id,
        role=new.role,
        created_at=from_instant(new.at),
        expires_at=from_instant(new.expires_at),
    )


def redeem(tx: Tx, request: RedeemRequest) -> WebLogin | None:
    """Use a link up: give its person their role and log them in, together. `None` where no link has this code."""
    _prune(tx, request.at)
    row = tx.find("take_invite", digest=request.digest, at=request.at)
    if row is None:
        return None
    known_person, name, invited_role = row
    person = known_person or person_of_user(request.user_id)
    role = invited_role or people.role_of(tx, person)
    if role is None:
        # Their role was removed meanwhile, and a link without a role gives none.
        return None
    people.set_role(tx, request.at, person, role, name)
    make_login(tx, request.at, person, name, request.cookie)
    return WebLogin(person=person, name=name, role=role)


def list_all(tx: Tx, at: Instant) -> WebPeople:
    """Return the people who may use the page, the owner first, and the unused links."""
    logins, seen_at = tx.find("count_logins", person=OWNER, at=at) or (0, None)
    owner = WebPerson(
        user_id=OWNER_ID, name=OWNER_NAME, role="owner", since=None, logins=logins, seen_at=_datetime_or_none(seen_at)
    )
    return WebPeople([owner, *_guests(tx, at)], _invites(tx, at))


def revoke(tx: Tx, at: Instant, name_or_id: str) -> RevokedAccess:
    """Remove a person's role, logins and links, by their id or their name; their messages stay.

    Raise `UnknownPerson` where nobody matches; `InvalidRequest` for the owner, and for a name that several have.
    """
    user_id = user_id_of(name_or_id)
    if user_id.casefold() == OWNER_ID:
        raise InvalidRequest(
            "the owner comes in by the token; `threadline web token --rotate` ends all of the owner's logins"
        )
    guests = _guests(tx, at)
    matching = [guest for guest in guests if guest.user_id == user_id] or [
        guest for guest in guests if _is_same(guest.name, name_or_id)
    ]
    if len(matching) > 1:
        ids = ", ".join(guest.user_id for guest in matching)
        raise InvalidRequest(f"several people are called {name_or_id}; say which one by the id: {ids}")
    if matching:
        return _remove_access(tx, matching[0])
    name = next((guest.name for guest in _invites(tx, at) if _is_same(guest.name, name_or_id)), None)
    if name is None:
        raise people.UnknownPerson(f"nobody called {name_or_id} is on the page; `threadline web people` shows who is")
    return RevokedAccess(name=name, user_id=None, logins=0, invites=tx.run("drop_invites_named", name=name))


def logins_of(tx: Tx, person: str) -> list[LoginRecord]:
    """Return the logins of a person's browsers."""
    return [
        LoginRecord(
            name=name,
            created_at=from_instant(created_at),
            seen_at=from_instant(seen_at),
            expires_at=from_instant(expires_at),
        )
        for name, created_at, seen_at, expires_at in tx.rows("logins_of", person=person)
    ]


def invites_of(tx: Tx, person: str) -> list[InviteRecord]:
    """Return the unused links for a known person."""
    return [
        InviteRecord(name=name, created_at=from_instant(created_at), expires_at=from_instant(expires_at))
        for name, created_at, expires_at in tx.rows("invites_of", person=person)
    ]


def delete_person(tx: Tx, person: str) -> None:
    """Delete a person's logins and links."""
    for query in ("drop_logins_of", "drop_invites_of"):
        tx.run(query, person=person)


def _remove_access(tx: Tx, guest: WebPerson) -> RevokedAccess:
    person = person_of_user(guest.user_id)
    people.remove_role(tx, person)
    return RevokedAccess(
        name=guest.name,
        user_id=guest.user_id,
        logins=delete_logins(tx, person),
        invites=tx.run("drop_invites_of", person=person),
    )


def _guests(tx: Tx, at: Instant) -> list[WebPerson]:
    return [
        WebPerson(
            user_id=user_id_of(person),
            name=name or "",
            role=role,
            since=from_instant(since),
            logins=logins,
            seen_at=_datetime_or_none(seen_at),
        )
        for person, role, name, since, logins, seen_at in tx.rows("people_between", first=_FIRST, after=_AFTER, at=at)
    ]


def _invites(tx: Tx, at: Instant) -> list[WebInvite]:
    return [
        WebInvite(
            name=name,
            user_id=None if person is None else user_id_of(person),
            role=role,
            created_at=from_instant(created_at),
            expires_at=from_instant(expires_at),
        )
        for person, name, role, created_at, expires_at in tx.rows("open_invites", at=at)
    ]


def _free_name(tx: Tx, new: NewInvite) -> str:
    name = new.name or ""
    taken = list_all(tx, new.at)
    if _is_same(name, OWNER_NAME):
        raise InvalidRequest("the owner comes in by `threadline web link`; somebody else needs another name")
    for somebody in taken.people:
        if _is_same(somebody.name, name):
            raise InvalidRequest(
                f"somebody on the page is called {somebody.name} already; `threadline web invite {somebody.user_id}` lets them in "
                "again, and somebody else needs another name"
            )
    if any(_is_same(somebody.name, name) for somebody in taken.invites):
        raise InvalidRequest(f"a link for {name} waits already; `threadline web revoke {name}` takes it back")
    return name


def _is_same(name: str, other: str) -> bool:
    """Return whether people would take two names for the same."""
    return name.casefold() == other.casefold()


def _stored_name(tx: Tx, user_id: str) -> str:
    row = tx.find("find_person", person=person_of_user(user_id))
    if row is None:
        raise people.UnknownPerson(f"nobody has the id {user_id}; `threadline web people` shows who is on the page")
    return row[1] or user_id


def _prune(tx: Tx, at: Instant) -> None:
    for ended in ("drop_ended_logins", "drop_ended_invites"):
        tx.run(ended, at=at)


def _login_expiry(at: Instant) -> Instant:
    return Instant(at + LOGIN_LIFETIME // _MICROSECOND)


def _datetime_or_none(at: int | None) -> datetime | None:
    return None if at is None else from_instant(at)


INVITE_DAYS = 7
MAX_INVITE_DAYS = 365
_SECRET_BYTES = 32
_USER_ID = re.compile(r"u[a-z0-9]{12}")
_DAY = timedelta(days=1) // timedelta(microseconds=1)


class CreatedInvite(msgspec.Struct, frozen=True, kw_only=True):
    """A link's code, which nobody can read again: only a digest is stored."""

    code: str
    invite: WebInvite


class WebAccess(Group[Mode]):
    """Access to the web page: invites and logins."""

    log_in = writes_now(make_login)
    log_out = writes(delete_login)
    log_out_everywhere = writes(delete_logins)
    list_all = reads_now(list_all)

    @verb
    def invite(
        store: Store[Any], name_or_id: str, role: Role | None = None, *, days: int = INVITE_DAYS
    ) -> Step[CreatedInvite]:
        """Return a code that lets a person in once within so many days: a new person by a name, or a known person by their id.

        A new person is a guest unless `role` says more; a known person keeps their role unless it says another. Raises
        `InvalidRequest` for a name that is taken, `UnknownPerson` for an id that nobody has.
        """
        if role not in (None, "guest", "trusted"):
            raise InvalidRequest(f"{role!r} is no role for somebody on the page; use guest or trusted")
        if not isinstance(days, int) or not 1 <= days <= MAX_INVITE_DAYS:
            raise InvalidRequest(f"a link holds for 1 to {MAX_INVITE_DAYS} days, not {days}")
        user_id = _user_id(name_or_id)
        code, at = secrets.token_urlsafe(_SECRET_BYTES), store.now()
        new = NewInvite(
            digest=digest_of(code),
            at=at,
            expires_at=Instant(at + days * _DAY),
            role=role or ("guest" if user_id is None else None),
            name=_shown_name(name_or_id) if user_id is None else None,
            user_id=user_id,
        )
        return write(_create_invite, new, code)

    @verb
    def redeem(store: Store[Any], code: str, cookie: bytes) -> Step[WebLogin | None]:
        """Let in the person with this code and log in the browser with this cookie digest; `None`: the code is wrong or used.

        In one transaction: of two callers with one code one gets in, and nobody is in without their role.
        """
        request = RedeemRequest(digest=digest_of(code), cookie=cookie, user_id=_new_user_id(), at=store.now())
        return write(redeem, request)

    @verb
    def find_login(store: Store[Any], digest: bytes) -> Step[WebLogin | None]:
        """Return the login of a cookie with this digest; `None` where it lets nobody in. Thirty days without use end a login.

        Mostly only a read: its use is recorded once an hour.
        """
        return task(_find_login, store.now(), digest)

    @verb
    def revoke(store: Store[Any], name_or_id: str) -> Step[RevokedAccess]:
        """Remove a person's role, logins and links, by id or name. Their messages stay.

        Raises `UnknownPerson` where nobody matches; `InvalidRequest` for the owner, and for a name that several have.
        """
        return write(revoke, store.now(), clean_text("a name", name_or_id).strip())


def _create_invite(tx: Tx, new: NewInvite, code: str) -> CreatedInvite:
    return CreatedInvite(code=code, invite=invite(tx, new))


def _find_login(perform: Perform, at: Instant, digest: bytes) -> WebLogin | None:
    login = perform(read(find_login, at, digest))
    if login is None:
        return None
    if needs_touch(login, at):
        perform(write(touch_login, at, digest))
    return login.login


def _user_id(name_or_id: str) -> str | None:
    """Return the id that `name_or_id` is, or `None` for a name."""
    bare = user_id_of(clean_text("a name", name_or_id, MAX_KEY_CHARS).strip())
    return bare if _USER_ID.fullmatch(bare) else None


def _shown_name(name_text: str) -> str:
    name = safe_label(name_text).strip()
    if not name:
        raise InvalidRequest("say who is invited: a name by which you and the agent know them")
    return name


def _new_user_id() -> str:
    return "u" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))
