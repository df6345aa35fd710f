"""Who is let in, by what they show, at an application that stands behind the guard."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.unit.web_door import HOST, JSON, ORIGIN, PROXY, STRANGER

from threadline.config.settings import WebSettings
from threadline.errors import InvalidRequest
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock
from threadline.web.auth import (
    ALLOWED,
    PEERS_KEPT,
    Auth,
    LoginAttempts,
    LoginRefused,
    TooManyFailures,
    login_error_response,
    login_required,
)
from threadline.web.guard import RequestGuard, SiteNames, error_json
from threadline.web.token import TokenFile

Sent: TypeAlias = dict[str, str] | list[tuple[str, str]]
PAGE = {"Origin": ORIGIN} | JSON


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class House:
    """An application with a login behind the guard, and its store."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self._runner = asyncio.Runner()
        self.run = self._runner.run
        self.store = self.run(GatewayStore.open(folder / "threadline.db", clock=clock, timezone="UTC"))
        self.token = TokenFile(folder / "web-token")
        self.seconds = Seconds()
        self.auth = Auth(self.store, self.token, now=self.seconds)
        self.web = WebSettings(public_url="https://chat.example.org", trusted_proxies=(PROXY,))

    def ask(self, method: str, path: str, headers: Sent | None = None, **options: Any) -> httpx.Response:
        return self.run(self._ask(method, path, headers, **options))

    def log_in(self, **shown: str) -> str:
        """The cookie that somebody gets for what they show."""
        answer = self.ask("POST", "/api/login", PAGE, json=shown)
        assert answer.status_code == 200, answer.text
        return answer.cookies["threadline"]

    def me(self, cookie: str, **headers: str) -> httpx.Response:
        return self.ask("GET", "/api/me", {"Cookie": f"threadline={cookie}"} | headers)

    def close(self) -> None:
        self.run(self.store.close())
        self._runner.close()

    async def _ask(
        self, method: str, path: str, headers: Sent | None, *, peer: str = STRANGER, json: Any = None
    ) -> httpx.Response:
        guarded = RequestGuard(_routes(self.auth), SiteNames.of("127.0.0.1", 8765, self.web))
        content = None if json is None else msgspec.json.encode(json)
        transport = httpx.ASGITransport(guarded, client=(peer, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.request(method, path, headers=headers, content=content)


def _routes(auth: Auth) -> Starlette:
    async def login(request: Request) -> Response:
        shown = msgspec.json.decode(await request.body(), type=dict[str, str])
        found = await auth.login(request, token=shown.get("token"), invite=shown.get("invite"))
        response = JSONResponse({"name": found.caller.name})
        auth.set_cookie(response, found.cookie, request)
        return response

    async def logout(request: Request) -> Response:
        await auth.logout(request)
        response = Response(status_code=204)
        auth.clear_cookie(response)
        return response

    async def me(request: Request) -> Response:
        caller = await auth.authenticate(request)
        if caller is None:
            return login_required()
        return JSONResponse(msgspec.structs.asdict(caller) | {"person": caller.person, "is_owner": caller.is_owner})

    async def refused(_request: Request, error: Exception) -> Response:
        if isinstance(error, LoginRefused | TooManyFailures):
            return login_error_response(error)
        return error_json(400, "invalid", str(error))

    return Starlette(
        routes=[
            Route("/api/login", login, methods=["POST"]),
            Route("/api/logout", logout, methods=["POST"]),
            Route("/api/me", me, methods=["GET", "POST"]),
        ],
        exception_handlers=dict.fromkeys((LoginRefused, TooManyFailures, InvalidRequest), refused),
    )


@pytest.fixture
def house(tmp_path: Path, clock: FakeClock) -> Iterator[House]:
    opened = House(tmp_path, clock)
    yield opened
    opened.close()


def test_who_shows_nothing_is_nobody(house: House) -> None:
    answer = house.ask("GET", "/api/me")
    assert (answer.status_code, answer.json()["error"]) == (401, "not_logged_in")
    assert "threadline web link" in answer.json()["message"]


def test_the_token_makes_its_holder_the_owner(house: House) -> None:
    cookie = house.log_in(token=house.token.current())
    assert house.me(cookie).json() == {
        "user_id": "owner",
        "name": "Owner",
        "role": "owner",
        "credential": "cookie",
        "person": "web:owner",
        "is_owner": True,
    }


def test_a_link_makes_its_holder_a_guest_once(house: House) -> None:
    made = house.run(house.store.web_access.invite("Ada"))
    told = house.me(house.log_in(invite=made.code)).json()
    assert (told["name"], told["role"], told["is_owner"], told["credential"]) == ("Ada", "guest", False, "cookie")
    assert told["person"] == f"web:{told['user_id']}"
    again = house.ask("POST", "/api/login", PAGE, json={"invite": made.code})
    assert (again.status_code, again.json()["error"]) == (401, "login_refused")
    assert "Ask whoever gave it to you" in again.json()["message"]


@pytest.mark.parametrize("shown", [{}, {"token": "a", "invite": "b"}])
def test_one_thing_is_shown(house: House, shown: dict[str, str]) -> None:
    assert house.ask("POST", "/api/login", PAGE, json=shown).status_code == 400


@pytest.mark.parametrize("wrong", ["", "x", "x" * 43, "ä", "\u0000", "t" * 10_000])
def test_a_wrong_token_opens_nothing(house: House, wrong: str) -> None:
    answer = house.ask("POST", "/api/login", PAGE, json={"token": wrong})
    assert (answer.status_code, answer.json()["error"]) == (401, "login_refused")
    assert "set-cookie" not in answer.headers


def test_the_cookie_is_for_our_page_alone(house: House) -> None:
    answer = house.ask("POST", "/api/login", PAGE, json={"token": house.token.current()})
    value, *rules = answer.headers["set-cookie"].split("; ")
    assert value.startswith("threadline=")
    assert sorted(rules) == ["HttpOnly", "Max-Age=34560000", "Path=/", "SameSite=strict"]


@pytest.mark.parametrize("told", [{}, {"X-Forwarded-Proto": "https"}])
def test_over_tls_the_cookie_goes_nowhere_else(house: House, told: dict[str, str]) -> None:
    page = {"Host": "chat.example.org", "Origin": "https://chat.example.org"} | JSON | told
    answer = house.ask("POST", "/api/login", page, json={"token": house.token.current()}, peer=PROXY)
    assert "; Secure" in answer.headers["set-cookie"]


def test_a_cookie_is_worth_nothing_but_as_it_was_given(house: House) -> None:
    cookie = house.log_in(token=house.token.current())
    for wrong in (cookie[:-1], cookie + "x", "g" + cookie[1:], "o" * 44, "", cookie.swapcase()):
        assert house.me(wrong).status_code == 401
    assert house.me(cookie).status_code == 200


def test_a_cookie_alone_changes_nothing(house: House) -> None:
    cookie = {"Cookie": f"threadline={house.log_in(token=house.token.current())}"}
    assert house.ask("POST", "/api/me", cookie | JSON, json={}).status_code == 403
    assert house.ask("POST", "/api/me", cookie | PAGE, json={}).status_code == 200


def test_a_wrong_bearer_token_is_not_made_good_by_a_cookie(house: House) -> None:
    cookie = house.log_in(token=house.token.current())
    # Without an Origin the guard lets it through for the token, so the token must be right.
    sent = {"Cookie": f"threadline={cookie}", "Authorization": "Bearer wrong"} | JSON
    assert house.ask("POST", "/api/me", sent, json={}).status_code == 401


def test_a_program_shows_the_token_each_time(house: House) -> None:
    told = house.ask("GET", "/api/me", {"Authorization": f"Bearer {house.token.current()}"}).json()
    assert (told["user_id"], told["credential"], told["is_owner"]) == ("owner", "bearer", True)
    for wrong in ("Bearer", "Bearer ", "Bearer x", f"Basic {house.token.current()}", house.token.current()):
        assert house.ask("GET", "/api/me", {"Authorization": wrong}).status_code == 401


def test_of_two_tokens_none_is_believed(house: House) -> None:
    right = ("Authorization", f"Bearer {house.token.current()}")
    assert house.ask("GET", "/api/me", [right, ("Authorization", "Bearer x")]).status_code == 401
    assert house.ask("GET", "/api/me", [right]).status_code == 200


def test_a_cookie_is_no_bearer_token(house: House) -> None:
    cookie = house.log_in(token=house.token.current())
    assert house.ask("GET", "/api/me", {"Authorization": f"Bearer {cookie}"}).status_code == 401


def test_after_logging_out_the_cookie_is_worth_nothing(house: House) -> None:
    token = house.token.current()
    cookie, other = house.log_in(token=token), house.log_in(token=token)
    answer = house.ask("POST", "/api/logout", PAGE | {"Cookie": f"threadline={cookie}"}, json={})
    assert answer.status_code == 204
    assert 'threadline=""' in answer.headers["set-cookie"]
    assert (house.me(cookie).status_code, house.me(other).status_code) == (401, 200)
    assert house.ask("POST", "/api/logout", PAGE, json={}).status_code == 204


def test_a_new_token_ends_the_owners_logins_and_nobody_elses(house: House) -> None:
    made = house.run(house.store.web_access.invite("Ada"))
    guest, owner = house.log_in(invite=made.code), house.log_in(token=house.token.current())
    old = house.token.current()
    # As another process does it, which need not even reach this store.
    TokenFile(house.token.path).rotate()
    assert (house.me(owner).status_code, house.me(guest).status_code) == (401, 200)
    assert house.ask("POST", "/api/login", PAGE, json={"token": old}).status_code == 401
    assert house.me(house.log_in(token=house.token.current())).status_code == 200


def test_who_was_revoked_is_nobody_at_once(house: House) -> None:
    made = house.run(house.store.web_access.invite("Ada"))
    cookie = house.log_in(invite=made.code)
    house.run(house.store.web_access.revoke("Ada"))
    assert house.me(cookie).status_code == 401


def test_a_login_ends_after_thirty_days_without_use(house: House, clock: FakeClock) -> None:
    cookie = house.log_in(token=house.token.current())
    clock.advance(timedelta(days=29))
    assert house.me(cookie).status_code == 200
    clock.advance(timedelta(days=30))
    assert house.me(cookie).status_code == 401


def _wrong_token(house: House, peer: str = STRANGER, **headers: str) -> httpx.Response:
    return house.ask("POST", "/api/login", PAGE | headers, json={"token": "wrong"}, peer=peer)


def _wrong_invite(house: House, peer: str = STRANGER) -> httpx.Response:
    return house.ask("POST", "/api/login", PAGE, json={"invite": "wrong"}, peer=peer)


def _wrong_bearer(house: House, peer: str = STRANGER) -> httpx.Response:
    return house.ask("GET", "/api/me", {"Authorization": "Bearer wrong"}, peer=peer)


@pytest.mark.parametrize("try_wrongly", [_wrong_token, _wrong_invite, _wrong_bearer])
def test_ten_failures_a_minute_are_borne(house: House, try_wrongly: Callable[..., httpx.Response]) -> None:
    cookie = house.log_in(token=house.token.current())
    assert [try_wrongly(house).status_code for _ in range(ALLOWED)] == [401] * ALLOWED
    house.seconds.now += 20.5
    refused = try_wrongly(house)
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_failures")
    assert refused.headers["Retry-After"] == "40"
    # Not even what is right: a guess must not be told from the truth.
    right = {"token": house.token.current()}
    assert house.ask("POST", "/api/login", PAGE, json=right).status_code == 429
    assert house.ask("GET", "/api/me", {"Authorization": f"Bearer {right['token']}"}).status_code == 429
    # Who is logged in already is not shut out, nor is anybody elsewhere.
    assert house.me(cookie).status_code == 200
    assert try_wrongly(house, peer="203.0.113.10").status_code == 401
    house.seconds.now += 40
    assert house.ask("POST", "/api/login", PAGE, json=right).status_code == 200


def test_links_that_are_right_count_for_nothing(house: House) -> None:
    for number in range(ALLOWED + 2):
        made = house.run(house.store.web_access.invite(f"Guest {number}"))
        house.log_in(invite=made.code)


def test_a_cookie_that_has_ended_does_not_count(house: House) -> None:
    for _ in range(ALLOWED + 2):
        assert house.me("g" + "x" * 43).status_code == 401
    house.log_in(token=house.token.current())


def test_failures_are_counted_for_who_asks_and_not_for_the_proxy(house: House) -> None:
    for _ in range(ALLOWED):
        _wrong_token(house, PROXY, **{"X-Forwarded-For": "198.51.100.1, 203.0.113.7"})
    assert _wrong_token(house, PROXY, **{"X-Forwarded-For": "203.0.113.7"}).status_code == 429
    assert _wrong_token(house, PROXY, **{"X-Forwarded-For": "203.0.113.8"}).status_code == 401


def test_a_stranger_does_not_get_new_tries_by_claiming_to_be_another(house: House) -> None:
    answers = [_wrong_token(house, **{"X-Forwarded-For": f"198.51.100.{number}"}) for number in range(ALLOWED + 1)]
    assert answers[-1].status_code == 429


def test_many_tries_at_the_same_time_are_counted_too(house: House) -> None:
    async def all_at_once() -> list[int]:
        tries = [house._ask("POST", "/api/login", PAGE, json={"invite": "wrong"}) for _ in range(3 * ALLOWED)]
        return [answer.status_code for answer in await asyncio.gather(*tries)]

    answers = house.run(all_at_once())
    assert (answers.count(401), answers.count(429)) == (ALLOWED, 2 * ALLOWED)


def test_one_household_of_ipv6_is_one_peer() -> None:
    failures = LoginAttempts(Seconds())
    for number in range(ALLOWED):
        failures.add(f"2001:db8:1:2::{number:x}")
    assert failures.seconds_to_wait("2001:db8:1:2:ffff::1") == 60
    assert failures.seconds_to_wait("2001:db8:1:3::1") == 0


def test_failures_are_kept_of_a_bounded_number_of_peers() -> None:
    failures = LoginAttempts(Seconds())
    for _ in range(ALLOWED):
        failures.add("192.0.2.1")
    assert failures.seconds_to_wait("192.0.2.1") == 60
    for number in range(PEERS_KEPT):
        failures.add(f"peer {number}")
    assert len(failures._failed) == PEERS_KEPT
    assert failures.seconds_to_wait("192.0.2.1") == 0


def test_who_fails_again_and_again_is_not_forgotten_for_others() -> None:
    failures = LoginAttempts(Seconds())
    for number in range(2 * PEERS_KEPT):
        if number % (PEERS_KEPT // 4) == 0:
            failures.add("192.0.2.1")
            failures.add("192.0.2.1")
        failures.add(f"peer {number}")
    assert failures.seconds_to_wait("192.0.2.1") == 60


def test_secrets_are_compared_as_digests_of_one_length(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def watched(shown: bytes, wanted: bytes) -> bool:
        compared.append((len(shown), len(wanted)))
        return compare(shown, wanted)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    for shown in ("x", house.token.current()[:-1], house.token.current()):
        house.ask("POST", "/api/login", PAGE, json={"token": shown})
        house.ask("GET", "/api/me", {"Authorization": f"Bearer {shown}", "Host": HOST})
    assert compared == [(32, 32)] * 6
