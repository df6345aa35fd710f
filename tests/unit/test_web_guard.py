"""What the guard lets through, one promise of its order after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message
from tests.unit.web_door import BEARER, HOST, JSON, ORIGIN, PROXY, ROUTES, STRANGER, ask

from threadline.config.settings import WebSettings
from threadline.web.guard import HEARD_OUT, MAX_BODY, SECURITY_HEADERS, RequestGuard, SiteNames

OURS = {"Origin": ORIGIN} | JSON
PUBLIC = WebSettings(public_url="https://chat.example.org", trusted_proxies=(PROXY,))
FOREIGN = (
    "http://evil.example",
    "null",
    "https://127.0.0.1:8765",
    "http://127.0.0.1:9999",
    "http://127.0.0.1",
    "http://localhost:8765",
    "http://127.0.0.1:8765.evil.example",
    "",
)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost:8765.evil.example",
        "127.0.0.1:8765@evil.example",
        "",
    ],
)
def test_a_name_that_was_bound_to_our_address_gets_nothing(host: str) -> None:
    for path in ("/", "/api/me", "/static/page.js"):
        answer = ask("GET", path, {"Host": host})
        assert (answer.status_code, answer.json()["error"]) == (421, "wrong_host")
        assert "[web]" in answer.json()["message"]


@pytest.mark.parametrize("host", [HOST, "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_this_machines_own_names_are_answered(host: str) -> None:
    assert ask("GET", "/", {"Host": host}).status_code == 200


def test_further_names_are_answered_where_they_are_configured() -> None:
    web = WebSettings(hosts=("Tower.lan", "192.168.1.5:9000"), public_url="https://chat.example.org/")
    answered = [
        "tower.lan",
        "tower.lan:8765",
        "192.168.1.5:9000",
        "chat.example.org",
        "chat.example.org:443",
    ]
    refused = ["tower.lan:1", "192.168.1.5", "192.168.1.5:8765", "chat.example.org:8765"]
    assert [ask("GET", "/", {"Host": host}, web=web).status_code for host in answered] == [200] * len(answered)
    assert [ask("GET", "/", {"Host": host}, web=web).status_code for host in refused] == [421] * len(refused)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "unheard-of"])
def test_another_site_gets_nothing_private(site: str) -> None:
    for path in ("/api/me", "/api/conversations", "/metrics"):
        answer = ask("GET", path, {"Sec-Fetch-Site": site})
        assert (answer.status_code, answer.json()["error"]) == (403, "cross_site")
    # A link on another site may lead to the page, which holds nothing.
    assert ask("GET", "/", {"Sec-Fetch-Site": site}).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_page_and_who_types_an_address_are_let_through(site: str) -> None:
    assert ask("GET", "/api/me", {"Sec-Fetch-Site": site}).status_code == 200


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_foreign_origin_changes_nothing(method: str, origin: str) -> None:
    answer = ask(method, "/api/conversations/1", {"Origin": origin} | JSON | BEARER)
    assert (answer.status_code, answer.json()["error"]) == (403, "foreign_origin")


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_origin_gets_no_events(method: str, origin: str) -> None:
    answer = ask(method, "/api/events", {"Origin": origin} | BEARER)
    assert (answer.status_code, answer.json()["error"]) == (403, "foreign_origin")


def test_a_cookie_without_an_origin_changes_nothing_and_gets_no_events() -> None:
    cookie = {"Cookie": "threadline=g123"}
    for method, path in (("POST", "/api/login"), ("DELETE", "/api/conversations/1"), ("GET", "/api/events")):
        assert ask(method, path, cookie | JSON).status_code == 403


def test_our_own_page_may_change_things_and_get_events() -> None:
    assert ask("POST", "/api/messages", OURS, content=b"{}").json()["read"] == 2
    assert ask("DELETE", "/api/conversations/1", {"Origin": ORIGIN}).status_code == 200
    assert ask("GET", "/api/events", {"Origin": ORIGIN}).status_code == 200
    local = {"Host": "localhost:8765", "Origin": "http://localhost:8765"}
    assert ask("POST", "/api/messages", local | JSON, content=b"{}").status_code == 200


def test_a_program_with_a_bearer_token_needs_no_origin() -> None:
    assert ask("POST", "/api/messages", BEARER | JSON, content=b"{}").status_code == 200
    assert ask("GET", "/api/events", BEARER).status_code == 200
    assert ask("POST", "/api/messages", {"Authorization": "Basic eDp5"} | JSON, content=b"{}").status_code == 403


def test_of_two_origins_both_must_be_ours_and_of_two_hosts_neither_is() -> None:
    kind, ours = ("Content-Type", "application/json"), ("Origin", ORIGIN)
    assert ask("POST", "/api/x", [kind, ours, ("Origin", "http://evil.example")], content=b"{}").status_code == 403
    assert ask("POST", "/api/x", [kind, ours, ("Host", HOST), ("Host", HOST)], content=b"{}").status_code == 421
    assert ask("POST", "/api/x", [kind, ours], content=b"{}").status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/plain; application/json",
        "application/jsonp",
        "application/json, text/plain",
        "",
    ],
)
def test_a_form_is_not_read(kind: str) -> None:
    headers = {"Origin": ORIGIN, "Content-Type": kind}
    answer = ask("POST", "/api/messages", headers, content=b'{"text": "hello"}')
    assert (answer.status_code, answer.json()["error"]) == (415, "not_json")


def test_what_is_refused_with_a_body_is_not_waited_for() -> None:
    for headers in ({"Host": "evil.example"}, JSON, {"Origin": ORIGIN, "Content-Type": "text/plain"}):
        assert ask("POST", "/api/messages", headers, content=b"{}").headers["Connection"] == "close"
    assert "Connection" not in ask("POST", "/api/messages").headers


def test_an_empty_form_is_not_taken_either() -> None:
    form = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
    assert ask("POST", "/api/logout", form).status_code == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_read(kind: str) -> None:
    answer = ask("POST", "/api/messages", {"Origin": ORIGIN, "Content-Type": kind}, content=b"{}")
    assert answer.json()["read"] == 2


def test_a_body_that_says_it_is_too_long_is_refused() -> None:
    answer = ask("POST", "/api/messages", OURS, content=b"x" * (MAX_BODY + 1))
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert answer.headers["Connection"] == "close"
    assert ask("POST", "/api/messages", OURS, content=b"x" * MAX_BODY).json()["read"] == MAX_BODY


def test_a_path_may_take_more_or_less() -> None:
    limits = {"/api/attachments": 3 * MAX_BODY, "/api/login": 10}
    body = b"x" * 2 * MAX_BODY
    assert ask("POST", "/api/attachments", OURS, content=body, limits=limits).status_code == 200
    assert ask("POST", "/api/attachments/", OURS, content=body, limits=limits).status_code == 413
    assert ask("POST", "/api/login", OURS, content=b"x" * 11, limits=limits).status_code == 413


def _chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * 65_536


def test_a_body_that_does_not_say_how_long_it_is_is_counted() -> None:
    taken = MAX_BODY // 65_536
    assert ask("POST", "/api/messages", OURS, content=_chunks(taken)).json()["read"] == MAX_BODY
    answer = ask("POST", "/api/messages", OURS, content=_chunks(taken + 1))
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_no_more_of_a_body_is_taken_than_it_may_hold() -> None:
    asked: list[int] = []

    def counted() -> Iterator[bytes]:
        for number, chunk in enumerate(_chunks(1600)):
            asked.append(number)
            yield chunk

    assert ask("POST", "/api/messages", OURS, content=counted()).status_code == 413
    # So much is read for the application, so much more is dropped.
    assert len(asked) <= (MAX_BODY + HEARD_OUT) // 65_536 + 1


def test_an_application_that_does_not_mind_is_not_heard_after_too_long_a_body() -> None:
    much = MAX_BODY // 65_536 + 1
    answer = ask("POST", "/swallowing", OURS, content=_chunks(much))
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert ask("POST", "/talking/", OURS, content=_chunks(1)).text == "listeningall is well"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("GET", "/api/events", 403), ("GET", "/fault", 500), ("POST", "/", 403)],
)
def test_every_answer_carries_the_security_headers(method: str, path: str, status: int) -> None:
    answer = ask(method, path)
    assert answer.status_code == status
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert SECURITY_HEADERS["Content-Security-Policy"] == (
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
    )
    assert (SECURITY_HEADERS["X-Content-Type-Options"], SECURITY_HEADERS["Referrer-Policy"]) == (
        "nosniff",
        "no-referrer",
    )


def test_a_stricter_policy_of_an_answer_holds() -> None:
    answer = ask("GET", "/api/attachments/1")
    assert answer.headers.get_list("Content-Security-Policy") == ["sandbox"]
    assert answer.headers["Cache-Control"] == "private"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_nobody_is_told_that_another_site_may_read() -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for answer in (
        ask("OPTIONS", "/api/messages", asked),
        ask("OPTIONS", "/api/messages", asked | {"Origin": ORIGIN}),
        ask("GET", "/api/me", {"Origin": "http://evil.example"}),
        ask("POST", "/api/messages", OURS, content=b"{}"),
    ):
        assert [name for name in answer.headers if name.startswith("access-control")] == []


def test_forwarded_headers_of_a_stranger_are_not_believed() -> None:
    claimed = {
        "X-Forwarded-For": "127.0.0.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "chat.example.org",
        "Forwarded": "for=127.0.0.1",
    }
    told = ask("GET", "/", claimed, web=PUBLIC).json()
    assert (told["peer"], told["scheme"]) == (STRANGER, "http")
    assert [name for name in told["headers"] if "forwarded" in name] == []
    # What they claim lends them no origin.
    https = claimed | {"Origin": "https://127.0.0.1:8765"} | JSON
    assert ask("POST", "/api/messages", https, content=b"{}", web=PUBLIC).status_code == 403


def test_a_trusted_proxy_tells_who_asks_and_how() -> None:
    said = {"X-Forwarded-For": STRANGER, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "chat.example.org"}
    told = ask("GET", "/", said, peer=PROXY, web=PUBLIC).json()
    assert (told["peer"], told["scheme"]) == (STRANGER, "https")
    assert [name for name in told["headers"] if "forwarded" in name] == []


def test_a_proxy_can_not_speak_for_a_name_that_is_not_ours() -> None:
    passed_on = {"Host": "evil.example", "X-Forwarded-Host": "chat.example.org"}
    assert ask("GET", "/", passed_on, peer=PROXY, web=PUBLIC).status_code == 421
    assert ask("GET", "/", {"X-Forwarded-Host": "evil.example"}, peer=PROXY, web=PUBLIC).status_code == 421


def test_behind_a_proxy_the_origin_is_the_public_one() -> None:
    page = {"Host": "chat.example.org", "Origin": "https://chat.example.org"} | JSON
    assert ask("POST", "/api/messages", page, content=b"{}", peer=PROXY, web=PUBLIC).status_code == 200
    # Also where the proxy names itself, and tells nothing.
    inner = page | {"Host": HOST}
    assert ask("POST", "/api/messages", inner, content=b"{}", peer=PROXY, web=PUBLIC).status_code == 200
    plain = page | {"Origin": "http://chat.example.org", "X-Forwarded-Proto": "https"}
    assert ask("POST", "/api/messages", plain, content=b"{}", peer=PROXY, web=PUBLIC).status_code == 403


def test_a_proxy_that_tells_the_scheme_needs_no_public_url() -> None:
    web = WebSettings(hosts=("chat.example.org",), trusted_proxies=("10.0.0.0/8",))
    page = {"Host": "chat.example.org", "Origin": "https://chat.example.org", "X-Forwarded-Proto": "https"} | JSON
    assert ask("POST", "/api/messages", page, content=b"{}", peer=PROXY, web=web).status_code == 200
    assert ask("POST", "/api/messages", page, content=b"{}", peer=STRANGER, web=web).status_code == 403


def test_an_answer_that_has_begun_ends_nowhere_after_too_long_a_body() -> None:
    """Its server breaks the connection off then: no reader takes it for whole."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * (MAX_BODY + 1), "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in {**OURS, "Host": HOST}.items()]
    scope = {"type": "http", "method": "POST", "path": "/talking/", "scheme": "http", "headers": headers}
    asyncio.run(RequestGuard(ROUTES, SiteNames.of("127.0.0.1", 8765))(scope, receive, send))
    assert [(message.get("status"), message.get("body")) for message in sent] == [(200, None), (None, b"listening")]
    assert sent[-1]["more_body"]


def test_no_other_protocol_gets_past_the_guard() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/api/events", "headers": [(b"host", HOST.encode())]}
    asyncio.run(RequestGuard(ROUTES, SiteNames.of("127.0.0.1", 8765))(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_nothing_is_waited_for_behind_the_last_piece_of_a_body() -> None:
    pieces = [{"type": "http.request", "body": b"x" * (MAX_BODY + 1), "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return pieces.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in {**OURS, "Host": HOST}.items()]
    scope = {"type": "http", "method": "POST", "path": "/api/messages", "scheme": "http", "headers": headers}
    asyncio.run(RequestGuard(ROUTES, SiteNames.of("127.0.0.1", 8765))(scope, receive, send))
    assert [message.get("status") for message in sent] == [413, None, None]
    assert not sent[-1].get("more_body")
