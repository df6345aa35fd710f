"""A PostgreSQL that goes away and returns: a clear error meanwhile, nothing lost, nothing doubled, no reopening."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.system.servers import PostgresServer, running_postgres

from threadline import SessionStore, StoreUnavailable
from threadline.testing import dm, user

CALLERS = 6
APPENDS = 60
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may stop: nobody else uses it."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def store(server: PostgresServer) -> Iterator[SessionStore]:
    server.start()
    with SessionStore.open(server.new_database()) as store:
        yield store


def append(store: SessionStore, session: str, key: str) -> None:
    store.append_to_transcript(session, user(key), idempotency_key=key)


def append_at_last(store: SessionStore, session: str, key: str) -> None:
    """What a careful caller does: the same with the same key until it is acknowledged."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return append(store, session, key)
        except StoreUnavailable:
            assert time.monotonic() < deadline, "the server is back, and the store does not find it"
            time.sleep(0.05)


def texts(store: SessionStore, session: str) -> list[str]:
    return [str(message["content"]) for message in store.load_transcript(session)]


def test_connections_that_an_administrator_ends_are_replaced_unnoticed(
    store: SessionStore, server: PostgresServer
) -> None:
    session = store.get_or_create_session(dm()).session_id
    append(store, session, "before")
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    append(store, session, "after")
    assert texts(store, session) == ["before", "after"]


def test_while_the_server_is_away_every_verb_says_so_and_afterwards_the_same_store_works(
    store: SessionStore, server: PostgresServer
) -> None:
    session = store.get_or_create_session(dm()).session_id
    append(store, session, "before")
    server.stop()
    with ThreadPoolExecutor(3) as callers:
        told: list[Future[Any]] = [
            callers.submit(append, store, session, "meanwhile"),
            callers.submit(texts, store, session),
            callers.submit(store.get_or_create_session, dm("8")),
        ]
    for future in told:
        with pytest.raises(StoreUnavailable, match=r"PostgreSQL.*try again"):
            future.result()
    server.start()
    append_at_last(store, session, "meanwhile")
    append_at_last(store, session, "before")
    assert texts(store, session) == ["before", "meanwhile"]
    assert store.get_or_create_session(dm()).session_id == session
    assert store.check().ok


def test_a_store_can_not_be_opened_while_the_server_is_away(server: PostgresServer) -> None:
    server.start()
    url = server.new_database()
    server.stop()
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        SessionStore.open(url)
    server.start()
    SessionStore.open(url).close()


def test_a_crash_of_the_server_loses_nothing_acknowledged_and_doubles_nothing(
    store: SessionStore, server: PostgresServer
) -> None:
    session = store.get_or_create_session(dm()).session_id
    under_way = threading.Event()

    def appends(caller: int) -> list[str]:
        keys = [f"{caller}:{turn}" for turn in range(APPENDS)]
        for turn, key in enumerate(keys):
            if turn == APPENDS // 3:
                under_way.set()
            append_at_last(store, session, key)
        return keys

    with ThreadPoolExecutor(CALLERS) as callers:
        working = [callers.submit(appends, caller) for caller in range(CALLERS)]
        assert under_way.wait(30)
        server.crash()
        time.sleep(0.1)
        server.start()
    found = texts(store, session)
    for caller, future in enumerate(working):
        assert [text for text in found if text.startswith(f"{caller}:")] == future.result()
    assert len(found) == CALLERS * APPENDS
    assert store.check().ok
