"""The status page, asked for without a network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from threadline import AsyncSessionStore
from threadline.testing import dm, user
from threadline.web.app import make_app
from threadline.web.guard import SECURITY_HEADERS, allowed_hosts

_SECRETS = ("Ada", "Rose", "is it dry", "Garden", "telegram:7", "dm-7")


async def _ask(
    db: Path, path: str, method: str = "GET", *, closed: bool = False, missing: tuple[str, ...] = ()
) -> httpx.Response:
    async def readiness() -> tuple[str, ...]:
        return missing

    async def metrics() -> str:
        return f"sessions {int(await store.has_any_sessions())}\n"

    async with await AsyncSessionStore.open(db) as store:
        source = dm("7", user_name="Ada", user_handle="Rose", chat_name="Garden")
        entry = await store.get_or_create_session(source)
        await store.append_to_transcript(entry.session_id, user("is it dry"))
        await store.set_title(entry.session_id, "Garden plans")
        app = make_app(store, host="127.0.0.1", port=8765, is_default=False, readiness=readiness, metrics=metrics)
        if closed:
            await store.close()
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
            return await client.request(method, path)


def test_the_page_shows_counts_and_neither_names_nor_words(tmp_path: Path) -> None:
    page = asyncio.run(_ask(tmp_path / "threadline.db", "/"))
    assert page.status_code == 200
    assert "<b>1</b> current sessions" in page.text
    assert "<b>1</b> messages" in page.text
    recent = page.text[page.text.index("Last sessions") : page.text.index("What to do next")]
    assert [secret for secret in _SECRETS if secret in recent] == []
    assert "telegram, dm" in recent
    assert str(tmp_path / "threadline.db") in page.text
    assert "<script" not in page.text


def test_a_path_full_of_markup_is_only_a_path(tmp_path: Path) -> None:
    page = asyncio.run(_ask(tmp_path / "<b>'$x\".db", "/"))
    assert "<b>'$x" not in page.text
    assert "&lt;b&gt;" in page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/static/style.css", 200),
        ("/static/icon.svg", 200),
        ("/../x", 404),
    ],
)
def test_every_answer_carries_the_security_headers(path: str, status: int, tmp_path: Path) -> None:
    answer = asyncio.run(_ask(tmp_path / "threadline.db", path))
    assert answer.status_code == status
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_only_reading_is_possible(tmp_path: Path) -> None:
    assert asyncio.run(_ask(tmp_path / "threadline.db", "/", "POST")).status_code == 405


def test_a_store_that_does_not_answer_is_told_without_its_reasons(tmp_path: Path) -> None:
    for path in ("/", "/healthz", "/metrics"):
        answer = asyncio.run(_ask(tmp_path / "threadline.db", path, closed=True))
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text


def test_what_is_not_ready_is_named(tmp_path: Path) -> None:
    ready = asyncio.run(_ask(tmp_path / "threadline.db", "/readyz"))
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    waiting = asyncio.run(_ask(tmp_path / "threadline.db", "/readyz", missing=("platform telegram@main",)))
    assert (waiting.status_code, waiting.json()["not_ready"]) == (503, ["platform telegram@main"])


def test_a_monitor_gets_the_counts_as_text(tmp_path: Path) -> None:
    answer = asyncio.run(_ask(tmp_path / "threadline.db", "/metrics"))
    assert answer.text == "sessions 1\n"
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_hosts_are_this_machine_and_the_address_asked_for() -> None:
    assert allowed_hosts("192.0.2.7", 9000) == {"127.0.0.1:9000", "localhost:9000", "[::1]:9000", "192.0.2.7:9000"}
    assert "[2001:db8::1]:9000" in allowed_hosts("2001:db8::1", 9000)
    assert "localhost" in allowed_hosts("127.0.0.1", 80)
