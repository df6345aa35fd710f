"""Who is asking: the owner by the installation's token, invited people by a link, and both by a cookie from then on."""

from __future__ import annotations

import hmac
import math
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Literal

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from threadline.errors import InvalidRequest, ThreadlineError
from threadline.log import get_logger
from threadline.model.access import Role
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import OWNER, WebLogin, digest_of, person_of_user, user_id_of
from threadline.texts.web import NOT_LOGGED_IN, OWNER_NAME, TOO_MANY_FAILURES, WRONG_INVITE, WRONG_TOKEN
from threadline.web.guard import error_json
from threadline.web.token import TokenFile

log = get_logger(__name__)

ALLOWED = 10
WITHIN_SECONDS = 60.0
# However many addresses there are, this many are kept in mind: those that failed last.
PEERS_KEPT = 4096
# Whoever has one address of IPv6 has at least so many neighbouring ones.
_IPV6_PREFIX = 64

COOKIE = "threadline"
# The store decides how long a login lasts; the browser need only not forget it before. Browsers keep none for longer.
_COOKIE_SECONDS = 400 * 24 * 60 * 60
# The first letter tells whether the token is a part of the digest, so that an owner's login ends with the token.
_OF_OWNER, _OF_GUEST = "o", "g"
_COOKIE_FORM = re.compile(r"[og][A-Za-z0-9_-]{43}")
_SECRET_BYTES = 32


class LoginAttempts:
    """The failed logins of each address, in memory only: a restart clears them."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def seconds_to_wait(self, peer: str) -> int:
        """Return the seconds until the peer may try again, 0 if it may now."""
        failed = self._failed.get(_network_of(peer))
        if failed is None or len(failed) < ALLOWED:
            return 0
        return max(0, math.ceil(failed[0] + WITHIN_SECONDS - self._now()))

    def add(self, peer: str) -> None:
        """Count a failed login of the peer."""
        household = _network_of(peer)
        self._failed.setdefault(household, deque(maxlen=ALLOWED)).append(self._now())
        self._failed.move_to_end(household)
        if len(self._failed) > PEERS_KEPT:
            self._failed.popitem(last=False)

    def undo(self, peer: str) -> None:
        """Uncount the last login of the peer, which succeeded."""
        failed = self._failed.get(_network_of(peer))
        if failed:
            failed.pop()


def _network_of(peer: str) -> str:
    """Return the address, or for IPv6 the network that one household is given: its logins are counted together."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(ip_network((address, _IPV6_PREFIX), strict=False))


class LoginRefused(ThreadlineError):
    """This does not open the page. Nobody is logged in."""


class TooManyFailures(ThreadlineError):
    """There were too many wrong tries from one address. Wait, then try again."""

    def __init__(self, retry_after: int) -> None:
        """`retry_after`: the seconds until the next try."""
        super().__init__(TOO_MANY_FAILURES.format(seconds=retry_after))
        self.retry_after = retry_after


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated user. `credential` tells how: a browser may send a cookie without its owner's will."""

    user_id: str
    name: str
    role: Role
    credential: Literal["cookie", "bearer"]

    @property
    def is_owner(self) -> bool:
        """Whether they may do everything."""
        return self.role == "owner"

    @property
    def person(self) -> str:
        """The name under which the store knows them."""
        return person_of_user(self.user_id)


class LoggedIn(msgspec.Struct, frozen=True):
    """Somebody who just logged in, and the cookie for their browser, which nobody can read again."""

    caller: Caller
    cookie: str


class Auth:
    """Knows callers by what they show. A wrong token or link counts against their address; ten in a minute are borne.

    A cookie that is not good any more does not count: a page that stayed open shows it by itself. An address that has failed
    too often is not listened to, whatever it shows, unless that is a good cookie.
    """

    def __init__(self, store: GatewayStore, token: TokenFile, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._token = token
        self._failures = LoginAttempts(now)

    async def authenticate(self, request: HTTPConnection) -> Caller | None:
        """Who sent a request; `None` where it does not say or that is wrong. `TooManyFailures` after too many wrong tokens.

        A header `Authorization` decides alone: a request that came in for it must not go on by a cookie.
        """
        if "authorization" in request.headers:
            return self._bearer(request)
        cookie = request.cookies.get(COOKIE, "")
        if not _COOKIE_FORM.fullmatch(cookie):
            return None
        login = await self._store.web_access.find_login(self._digest(cookie))
        return None if login is None else _caller(login, "cookie")

    async def login(self, request: HTTPConnection, *, token: str | None = None, invite: str | None = None) -> LoggedIn:
        """Swaps the token, or a link's code, for a login of this browser.

        `LoginRefused` where it is wrong, `TooManyFailures` where that happened too often, `InvalidRequest` where neither or
        both are given.
        """
        if (token is None) == (invite is None):
            raise InvalidRequest("send either a token or an invite")
        self._check_failures(request)
        if invite is not None:
            return await self._redeem(request, invite)
        if not self._is_token(token or ""):
            self._fail(request)
            raise LoginRefused(WRONG_TOKEN)
        cookie = _new_cookie(_OF_OWNER)
        await self._store.web_access.log_in(OWNER, OWNER_NAME, self._digest(cookie))
        return LoggedIn(_caller(WebLogin(person=OWNER, name=OWNER_NAME, role="owner"), "cookie"), cookie)

    async def logout(self, request: HTTPConnection) -> None:
        """Ends the login of this browser. Without one nothing happens."""
        cookie = request.cookies.get(COOKIE, "")
        if _COOKIE_FORM.fullmatch(cookie):
            await self._store.web_access.log_out(self._digest(cookie))

    def set_cookie(self, response: Response, cookie: str, request: HTTPConnection) -> None:
        """Lets the browser keep a login: no script reads it, no other site sends it, and over TLS it goes nowhere else."""
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=_COOKIE_SECONDS,
            path="/",
            secure=_is_secure(request),
            httponly=True,
            samesite="strict",
        )

    def clear_cookie(self, response: Response) -> None:
        """Lets the browser forget its login."""
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")

    async def _redeem(self, request: HTTPConnection, code: str) -> LoggedIn:
        cookie, peer = _new_cookie(_OF_GUEST), _peer_of(request)
        # Counted before the store is asked: many tries at the same time must not all be let through to it.
        self._failures.add(peer)
        login = await self._store.web_access.redeem(code, self._digest(cookie))
        if login is None:
            log.warning("web.login_refused", peer=peer)
            raise LoginRefused(WRONG_INVITE)
        self._failures.undo(peer)
        return LoggedIn(_caller(login, "cookie"), cookie)

    def _bearer(self, request: HTTPConnection) -> Caller | None:
        self._check_failures(request)
        values = request.headers.getlist("authorization")
        scheme, _, token = values[0].partition(" ")
        if len(values) == 1 and scheme.lower() == "bearer" and self._is_token(token.strip()):
            return Caller(user_id=user_id_of(OWNER), name=OWNER_NAME, role="owner", credential="bearer")
        self._fail(request)
        return None

    def _is_token(self, shown: str) -> bool:
        # Digests are compared, each as long as the other: how long it takes tells nothing of the token.
        return hmac.compare_digest(digest_of(shown), digest_of(self._token.current()))

    def _digest(self, cookie: str) -> bytes:
        return digest_of(cookie, self._token.current() if cookie.startswith(_OF_OWNER) else "")

    def _check_failures(self, request: HTTPConnection) -> None:
        wait = self._failures.seconds_to_wait(_peer_of(request))
        if wait:
            raise TooManyFailures(wait)

    def _fail(self, request: HTTPConnection) -> None:
        peer = _peer_of(request)
        self._failures.add(peer)
        log.warning("web.login_refused", peer=peer)


def login_error_response(error: LoginRefused | TooManyFailures) -> JSONResponse:
    """Return the response to a failed login."""
    if isinstance(error, TooManyFailures):
        return error_json(429, "too_many_failures", str(error), {"Retry-After": str(error.retry_after)})
    return error_json(401, "login_refused", str(error))


def login_required() -> JSONResponse:
    """Return the response to a request without a valid credential."""
    return error_json(401, "not_logged_in", NOT_LOGGED_IN, {"WWW-Authenticate": "Bearer"})


def _caller(login: WebLogin, by: Literal["cookie", "bearer"]) -> Caller:
    return Caller(user_id=user_id_of(login.person), name=login.name, role=login.role, credential=by)


def _new_cookie(kind: str) -> str:
    return kind + secrets.token_urlsafe(_SECRET_BYTES)


def _peer_of(request: HTTPConnection) -> str:
    """The address of the sender, as the guard has found it out."""
    return request.client.host if request.client else ""


def _is_secure(request: HTTPConnection) -> bool:
    # The guard has let the Origin through, so it is ours. A proxy may not have said that people reach it by TLS.
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")
