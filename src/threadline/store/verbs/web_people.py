"""Verbs on people of the web page: links that let them in, and their logins."""

from __future__ import annotations

import re
import secrets
import string
from datetime import timedelta

import msgspec

from threadline.clock import Instant
from threadline.errors import InvalidRequest
from threadline.model.access import Role
from threadline.model.safe_text import safe_label
from threadline.store.engine.database import Plan, read, write
from threadline.store.people import web_access
from threadline.store.verbs.arguments import MAX_KEY_CHARS, clean_text
from threadline.store.verbs.base import VerbsBase

INVITE_DAYS = 7
MOST_INVITE_DAYS = 365
_SECRET_BYTES = 32
_USER_ID = re.compile(r"u[a-z0-9]{12}")
_DAY = timedelta(days=1) // timedelta(microseconds=1)


class MadeInvite(msgspec.Struct, frozen=True, kw_only=True):
    """A link's code, which nobody can read again: only a digest is kept."""

    code: str
    invite: web_access.WebInvite


class WebPeopleVerbs(VerbsBase):
    """Who may use the page, and how they come by it."""

    def make_web_invite(self, who: str, role: Role | None = None, *, days: int = INVITE_DAYS) -> Plan[MadeInvite]:
        """A code that lets somebody in once within so many days: somebody new by a name, or somebody known by their id.

        Somebody new is a guest unless `role` says more; somebody known keeps their role unless it says another. A name that
        is taken is `InvalidRequest`, an id that nobody has `UnknownPerson`.
        """
        if role not in (None, "guest", "trusted"):
            raise InvalidRequest(f"{role!r} is no role for somebody on the page; use guest or trusted")
        if not isinstance(days, int) or not 1 <= days <= MOST_INVITE_DAYS:
            raise InvalidRequest(f"a link holds for 1 to {MOST_INVITE_DAYS} days, not {days}")
        user_id = _user_id(who)
        code, at = secrets.token_urlsafe(_SECRET_BYTES), self._now()
        wanted = web_access.NewInvite(
            digest=web_access.digest_of(code),
            at=at,
            expires_at=Instant(at + days * _DAY),
            role=role or ("guest" if user_id is None else None),
            name=_shown_name(who) if user_id is None else None,
            user_id=user_id,
        )
        return MadeInvite(code=code, invite=(yield from write(web_access.invite, wanted)))

    def redeem_web_invite(self, code: str, cookie: bytes) -> Plan[web_access.WebLogin | None]:
        """Lets in who has this code and logs the browser in whose cookie has this digest; `None` where the code is wrong or used.

        In one transaction: of two who use a code one gets in, and nobody is in without their role.
        """
        wanted = web_access.Redemption(
            digest=web_access.digest_of(code), cookie=cookie, user_id=_new_user_id(), at=self._now()
        )
        return (yield from write(web_access.redeem, wanted))

    def make_web_login(self, person: str, name: str, digest: bytes) -> Plan[None]:
        """Logs a browser in, which shows its cookie from then on; of the cookie comes a digest alone."""
        yield from write(web_access.make_login, self._now(), person, name, digest)

    def web_login_of(self, digest: bytes) -> Plan[web_access.WebLogin | None]:
        """Who shows a cookie with this digest; `None` where it lets nobody in. Thirty days without use end it.

        Mostly a read alone: that it is used is written down once an hour.
        """
        at = self._now()
        known = yield from read(web_access.find_login, at, digest)
        if known is None:
            return None
        if web_access.is_due(known, at):
            yield from write(web_access.touch_login, at, digest)
        return known.login

    def forget_web_login(self, digest: bytes) -> Plan[bool]:
        """Ends a login; False where there was none."""
        return (yield from write(web_access.forget_login, digest))

    def end_web_logins(self, person: str) -> Plan[int]:
        """Ends all logins of a person; how many there were."""
        return (yield from write(web_access.end_logins, person))

    def list_web_people(self) -> Plan[web_access.WebPeople]:
        """Who may use the page, the owner first, and the links that nobody has used yet."""
        return (yield from read(web_access.everybody, self._now()))

    def revoke_web_person(self, who: str) -> Plan[web_access.Revoked]:
        """Takes somebody's role, logins and links away, by id or name. What they wrote stays.

        `UnknownPerson` where nobody is called so; `InvalidRequest` for the owner, and for a name that several have.
        """
        return (yield from write(web_access.revoke, self._now(), clean_text("a name", who).strip()))


def _user_id(who: str) -> str | None:
    """The id that `who` is, if it is none but that."""
    bare = web_access.user_id_of(clean_text("a name", who, MAX_KEY_CHARS).strip())
    return bare if _USER_ID.fullmatch(bare) else None


def _shown_name(who: str) -> str:
    name = safe_label(who).strip()
    if not name:
        raise InvalidRequest("say who is invited: a name by which you and the agent know them")
    return name


def _new_user_id() -> str:
    return "u" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))
