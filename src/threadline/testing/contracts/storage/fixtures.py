"""The fixtures of the storage contract, and the types of those that an engine provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeAlias

import pytest

from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.store.facade import SessionStore
from threadline.testing.awaiting import AwaitedStore
from threadline.testing.clock import FakeClock

Client: TypeAlias = Literal["blocking", "awaited"]
RawExecute: TypeAlias = Callable[[str], None]
StoredBytes: TypeAlias = Callable[[], bytes]


class OpenStore(Protocol):
    """Opens a store on the test's own database; called again, a second one on the same database."""

    def __call__(self, **options: Any) -> SessionStore: ...


@pytest.fixture
def client() -> Client:
    """Which of the two clients is tested; parametrise a test class to run it on both."""
    return "blocking"


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the stores that a test opens."""
    return FakeClock()


@pytest.fixture
def open_store(location: str, client: Client, clock: FakeClock) -> Iterator[OpenStore]:
    """Stores on one database, closed at the end of the test."""
    opened: list[SessionStore] = []

    def open_one(**options: Any) -> SessionStore:
        settings: dict[str, Any] = {"clock": clock, "timezone": "UTC"} | options
        open_client = SessionStore.open if client == "blocking" else AwaitedStore.open
        opened.append(open_client(location, **settings))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


@pytest.fixture
def store(open_store: OpenStore) -> SessionStore:
    """A store without reset policies."""
    return open_store()


def contents(messages: list[Message]) -> list[Any]:
    """What the messages say: for assertions that read well."""
    return [message["content"] for message in messages]


def seen(store: SessionStore, session_id: str) -> list[Any]:
    """What the model sees of a session, as the contents of its messages."""
    return contents(store.load_transcript(session_id))


def switched(store: SessionStore, key: str, session_id: str) -> SessionEntry:
    """The session that a known conversation goes on with after `switch_session`."""
    entry = store.switch_session(key, session_id)
    assert entry is not None
    return entry


def short(value: object) -> str:
    """A test's name for a value: plain and short, whatever the value holds."""
    return ascii(value)[:30]
