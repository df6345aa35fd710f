"""Whose word is taken for where a request came from."""

from __future__ import annotations

import pytest
from starlette.types import Scope

from threadline.config.settings import WebSettings
from threadline.web.guard import SiteNames, origin_of

PROXIED = SiteNames.of("127.0.0.1", 8765, WebSettings(trusted_proxies=("10.0.0.0/8", "::1", "fd00::/8")))


def scope(peer: str | None, *headers: tuple[str, str], scheme: str = "http") -> Scope:
    return {
        "type": "http",
        "scheme": scheme,
        "client": None if peer is None else (peer, 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.2", "203.0.113.9", "203.0.113.9"),
        # Whoever asks writes what they like; the proxy puts the truth behind it.
        ("10.0.0.2", "127.0.0.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.2", "198.51.100.1, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("10.0.0.2", "10.9.9.9, 10.1.1.1", "10.9.9.9"),
        ("10.0.0.2", "", "10.0.0.2"),
        ("10.0.0.2", "unknown", "10.0.0.2"),
        ("10.0.0.2", "203.0.113.9, nonsense", "10.0.0.2"),
        ("10.0.0.2", "203.0.113.9:4711", "203.0.113.9"),
        ("::1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("::ffff:10.0.0.2", "203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "198.51.100.1", "203.0.113.9"),
    ],
)
def test_the_sender_is_the_last_hop_that_is_no_proxy_of_ours(peer: str, forwarded: str, sender: str) -> None:
    assert PROXIED.client_of(scope(peer, ("X-Forwarded-For", forwarded))).peer == sender


def test_hops_in_several_headers_are_one_way() -> None:
    found = PROXIED.client_of(
        scope("10.0.0.2", ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", "203.0.113.9, 10.0.0.3"))
    )
    assert found.peer == "203.0.113.9"


def test_the_nearest_proxy_has_the_last_word_on_scheme_and_name() -> None:
    found = PROXIED.client_of(
        scope(
            "10.0.0.2",
            ("Host", "127.0.0.1:8765"),
            ("X-Forwarded-Proto", "http, https"),
            ("X-Forwarded-Host", "evil.example, chat.example.org"),
        )
    )
    assert (found.scheme, found.hosts) == ("https", ("127.0.0.1:8765", "chat.example.org"))
    assert found.origin == "https://chat.example.org"


def test_a_scheme_that_is_none_is_passed_over() -> None:
    assert PROXIED.client_of(scope("10.0.0.2", ("X-Forwarded-Proto", "javascript"))).scheme == "http"


def test_a_socket_without_an_address_is_nobody() -> None:
    found = PROXIED.client_of(scope(None, ("X-Forwarded-For", "203.0.113.9")))
    assert (found.peer, found.hosts, found.origin) == ("", (), "")
    assert not PROXIED.is_ours(found)
    assert not PROXIED.is_own_origin("http://127.0.0.1:8765", found)


def test_without_trusted_proxies_nobody_is_believed() -> None:
    site = SiteNames.of("127.0.0.1", 8765)
    assert site.client_of(scope("127.0.0.1", ("X-Forwarded-For", "203.0.113.9"))).peer == "127.0.0.1"


def test_a_browser_leaves_out_the_usual_port() -> None:
    assert origin_of("https", "chat.example.org:443") == "https://chat.example.org"
    assert origin_of("http", "chat.example.org:443") == "http://chat.example.org:443"
    assert origin_of("http", "localhost:80") == "http://localhost"
    assert SiteNames.of("127.0.0.1", 1, WebSettings(public_url="https://Chat.example.org:443/")).public_origin == (
        "https://chat.example.org"
    )
