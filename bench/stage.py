"""What a workload stands on: an engine's places, the corpus, and how big this run is."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from bench.corpus import Corpus
from bench.measure import say
from bench.places import Floor, Places
from threadline import AsyncSessionStore, SessionSource, SessionStore
from threadline.store.engine.sql import migrations

_SESSIONS = 100_000


class CheckLine(msgspec.Struct, frozen=True):
    """What `check` said of a store after a workload."""

    workload: str
    engine: str
    messages: int
    faults: list[str]


class Stage:
    """One workload's surroundings in one run. Stores opened here are checked when they are closed."""

    def __init__(self, places: Places, corpus: Corpus, *, scale: float, workload: str, is_last: bool = True) -> None:
        """`is_last`: the last run of this workload, the one after which large stores are checked too."""
        self.places = places
        self.corpus = corpus
        self.workload = workload
        self.is_last = is_last
        self.checks: list[CheckLine] = []
        self._scale = scale

    @property
    def engine(self) -> str:
        """Which engine is measured."""
        return self.places.engine

    @property
    def sessions(self) -> int:
        """How many sessions stand for a hundred thousand."""
        return self.scaled(_SESSIONS, least=200)

    def scaled(self, count: int, *, least: int = 1) -> int:
        """A count of the full run, shrunk for a smaller one."""
        return max(least, round(count * self._scale))

    def bodies(self, count: int) -> list[str]:
        """The first messages of the corpus, as the JSON that is stored of them."""
        return [msgspec.json.encode(message).decode() for message in self.corpus.messages(0, count)]

    def prepared(self, name: str, build: Callable[[str], None]) -> str:
        """A copy of the store that `build` makes; it is kept while scale, corpus and schema are the same."""
        scaled = f"{name}_{self._scale:g}".replace(".", "_")
        key = f"{self.corpus.seed}:{self.corpus.size}:{_schema()}"
        return self.places.prepared(scaled, hashlib.sha256(key.encode()).hexdigest()[:12], build)

    @contextmanager
    def floor(self, count: int = 1_000, connections: int = 1) -> Iterator[Floor]:
        """The bare driver, with bodies from the corpus."""
        floor = self.places.floor(self.workload, self.bodies(count), connections)
        try:
            yield floor
        finally:
            floor.close()

    @contextmanager
    def store(self, url: str, *, check: bool = True) -> Iterator[SessionStore]:
        """The store at `url`; on leaving its index is brought level and it is checked."""
        with SessionStore.open(url) as store:
            yield store
            if check:
                self._check(store)

    @contextmanager
    def async_store(self, url: str, *, check: bool = True) -> Iterator[tuple[asyncio.Runner, AsyncSessionStore]]:
        """The same for awaited verbs, with the event loop to run them on."""
        with asyncio.Runner() as runner:
            store = runner.run(AsyncSessionStore.open(url))
            try:
                yield runner, store
            finally:
                runner.run(store.close())
        if check:
            self.check(url)

    def check(self, url: str) -> None:
        """Brings the index of the store at `url` level and checks it all."""
        with SessionStore.open(url) as store:
            self._check(store)

    def _check(self, store: SessionStore) -> None:
        store.index_pending()
        report = store.check()
        faults = report.faults[:5]
        if report.unindexed:
            faults.append(f"{report.unindexed} messages are not indexed, though index_pending came back")
        for fault in faults:
            say(f"  {self.workload}: check found: {fault}")
        self.checks.append(CheckLine(self.workload, self.engine, report.messages, faults))


def source(number: int, person: int = 0) -> SessionSource:
    """The place of session `number`, a private chat with that person."""
    return SessionSource(
        platform="telegram", chat_id=f"chat-{number}", user_id=str(person), user_name=f"Person {person}"
    )


def _schema() -> str:
    """Changes with the schema that this very process writes, so that no old store passes for a new one."""
    steps = [*migrations("sqlite"), *migrations("postgres")]
    return hashlib.sha256("".join(step.script for step in steps).encode()).hexdigest()
