"""The clients of a store: blocking, awaited, that of a running gateway, and one that is opened at first use."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

import msgspec

from threadline.clock import Clock, SystemClock, installation_zone
from threadline.errors import InvalidLocation, StoreUnavailable
from threadline.model.address import SessionScope, build_session_key
from threadline.model.policy import ResetPolicies, checked_zone
from threadline.model.source import SessionSource
from threadline.store import leases
from threadline.store.conversations.editor_sessions import EditorSessions
from threadline.store.conversations.files import Files
from threadline.store.conversations.id_changes import IdChanges
from threadline.store.conversations.records import AgentState, Preferences
from threadline.store.conversations.resume import Resume
from threadline.store.conversations.search import OwnerSearch, Search
from threadline.store.conversations.sessions import ResolveRequest, Sessions, resolve_request
from threadline.store.conversations.transcripts import Transcripts
from threadline.store.conversations.usage import UsageRecords
from threadline.store.engine.database import (
    Database,
    SqliteLocation,
    Step,
    Tx,
    leaving_work,
    parse_location,
    read,
    write,
)
from threadline.store.engine.sqlite.database import SqliteDatabase
from threadline.store.leases import Lease, Leases, RenewedLease, TurnLease
from threadline.store.maintenance import BackgroundWorker, Maintenance
from threadline.store.people.people import People
from threadline.store.people.person_export import PersonExports
from threadline.store.people.removal import Removal
from threadline.store.people.web_access import WebAccess
from threadline.store.rows import Page
from threadline.store.verbs import Awaited, Blocking, IsBusy, Mode, Store, StoreSettings
from threadline.store.work.approvals import Approvals
from threadline.store.work.change_feed import ChangeFeed
from threadline.store.work.expiry import Expiry
from threadline.store.work.inbox import Inbox
from threadline.store.work.message_changes import MessageChanges
from threadline.store.work.outbox import Outbox
from threadline.store.work.owner_alerts import OwnerAlerts
from threadline.store.work.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")


class SessionVerbs(Store[Mode]):
    """The groups of a session store, and its verbs under the names that callers know: one line for both clients."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        super().__init__(database, settings)
        self._worker = BackgroundWorker(database)
        self._bind_groups()

    def _bind_groups(self) -> None:
        self.sessions: Sessions[Mode] = Sessions(self)
        self.transcripts: Transcripts[Mode] = Transcripts(self)
        self.editor_sessions: EditorSessions[Mode] = EditorSessions(self)
        self.files: Files[Mode] = Files(self)
        self.maintenance: Maintenance[Mode] = Maintenance(self)

    @property
    def location(self) -> str:
        """The URL that opens this store, without secrets."""
        return self.database.location

    def session_key(self, source: SessionSource, *, agent: str | None = None) -> str:
        """Return the readable name of the conversation that `source` belongs to, by this store's scope settings."""
        return build_session_key(source, scope=self.settings.scope, agent=agent or self.settings.agent)

    def _notify_worker(self) -> None:
        self._worker.notify()

    def _close(self) -> None:
        self._end_tasks()
        self._worker.stop()
        self.database.close()

    get_or_create_session = Sessions.get_or_create
    get_session = Sessions.get
    reset_session = Sessions.reset
    switch_session = Resume.switch
    list_sessions = Sessions.list_page
    has_any_sessions = Sessions.has_any
    take_reset_notice = Sessions.take_reset_notice
    set_title = Sessions.set_title
    find_by_title = Sessions.find_by_title
    set_runtime = Sessions.set_runtime
    mark_flushed = Sessions.mark_flushed
    append_to_transcript = Transcripts.append
    load_transcript = Transcripts.load
    read_transcript = Transcripts.read
    page_transcript = Transcripts.page
    read_log = Transcripts.read_log
    rewrite_transcript = Transcripts.rewrite
    rewind_session = Transcripts.undo
    redo_session = Transcripts.redo
    retry_session = Transcripts.retry
    fork_session = Transcripts.fork
    link_message = Transcripts.link
    keep_file = Files.keep
    read_file = Files.read
    find_file = Files.find
    record_usage = UsageRecords.record
    update_session = UsageRecords.update_session
    usage_report = UsageRecords.report
    search = Search.search
    index_pending = Search.index_pending
    redact = Removal.redact
    delete_session = Removal.delete_session
    prune = Removal.prune
    collect = Removal.collect
    erase_person = Removal.erase_person
    export = PersonExports.export
    facts = Maintenance.facts
    backup = Maintenance.backup
    check = Maintenance.check


class SessionStore(SessionVerbs[Blocking]):
    """Sessions and transcripts, kept durably. Blocking and thread-safe; use one store per process and share it.

    When a verb returns, what it did survives a power cut. When it raises, nothing was changed.
    """

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        policies: ResetPolicies | None = None,
        scope: SessionScope | None = None,
        is_busy: IsBusy | None = None,
        clock: Clock | None = None,
        timezone: str | None = None,
        agent: str = "main",
        migrate: bool = True,
    ) -> Self:
        """Open `sqlite:///PATH`, a plain path, or `postgresql://…`; a new SQLite file is made, for its owner alone.

        `is_busy` is given the session key of a conversation that is due for a reset, and says whether to leave it as it is.
        `timezone` is the installation's zone for daily resets, by default this machine's. With `migrate=False` an older
        database is `SchemaTooOld` instead of upgraded.
        """
        settings = _settings(policies, scope, is_busy, clock, timezone, agent)
        return cls(open_database(location, migrate=migrate), settings)

    def close(self) -> None:
        """Wait for all accepted steps, then release everything. Idempotent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSessionStore(SessionVerbs[Awaited]):
    """The same verbs, awaited; the event loop never waits for a disk."""

    _is_async = True

    @classmethod
    async def open(
        cls,
        location: str | Path,
        *,
        policies: ResetPolicies | None = None,
        scope: SessionScope | None = None,
        is_busy: IsBusy | None = None,
        clock: Clock | None = None,
        timezone: str | None = None,
        agent: str = "main",
        migrate: bool = True,
    ) -> Self:
        """Open a location like `SessionStore.open`."""
        settings = _settings(policies, scope, is_busy, clock, timezone, agent)
        database = await asyncio.to_thread(open_database, location, migrate=migrate)
        return cls(database, settings)

    async def close(self) -> None:
        """Wait for all accepted steps, then release everything. Idempotent."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class GatewayStore(AsyncSessionStore):
    """An awaited store with the groups of a running gateway."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._failures: Counter[str] = Counter()
        super().__init__(database, settings)

    def _bind_groups(self) -> None:
        super()._bind_groups()
        self.inbox: Inbox[Awaited] = Inbox(self)
        self.message_changes: MessageChanges[Awaited] = MessageChanges(self)
        self.turns: Turns[Awaited] = Turns(self)
        self.approvals: Approvals[Awaited] = Approvals(self)
        self.outbox: Outbox[Awaited] = Outbox(self)
        self.leases: Leases[Awaited] = Leases(self)
        self.expiry: Expiry[Awaited] = Expiry(self)
        self.owner_alerts: OwnerAlerts[Awaited] = OwnerAlerts(self)
        self.change_feed: ChangeFeed[Awaited] = ChangeFeed(self)
        self.resume: Resume[Awaited] = Resume(self)
        self.owner_search: OwnerSearch[Awaited] = OwnerSearch(self)
        self.id_changes: IdChanges[Awaited] = IdChanges(self)
        self.preferences: Preferences[Awaited] = Preferences(self)
        self.agent_state: AgentState[Awaited] = AgentState(self)
        self.people: People[Awaited] = People(self)
        self.web_access: WebAccess[Awaited] = WebAccess(self)

    @property
    def unavailable(self) -> int:
        """How often a step did not get an answer from the database."""
        return self._failures["unavailable"]

    def reconfigure(self, *, policies: ResetPolicies, scope: SessionScope, timezone: str) -> None:
        """Use these settings from now on. Steps that are under way keep the old ones."""
        zone = checked_zone(timezone)
        self.settings = msgspec.structs.replace(self.settings, policies=policies, scope=scope, zone=zone)

    def resolve_request(
        self, source: SessionSource, *, agent: str | None = None, must_exist: bool = False
    ) -> ResolveRequest:
        """Return the request for the session that a message from `source` belongs to, as of now.

        With `must_exist` no session is made for it.
        """
        return resolve_request(self, source, agent=agent, flush=True, must_exist=must_exist)

    def fenced(self, lease: TurnLease) -> GatewayStore:
        """Return this store for the worker of one turn: a write raises `LeaseLost`, and writes nothing, once the lease is lost."""
        fenced = copy.copy(self)
        fenced.require_lease = lambda tx: leases.require(tx, lease)
        # The groups of the copy still belong to this store, and would not check the lease.
        fenced._bind_groups()  # noqa: SLF001 - one of our own
        return fenced

    def perform(self, step: Step[T]) -> T:
        with self._counting_failures(step):
            return super().perform(step)

    async def perform_async(self, step: Step[T]) -> T:
        with self._counting_failures(step):
            return await super().perform_async(step)

    @contextmanager
    def _counting_failures(self, step: Step[T]) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            # The steps of a task are counted themselves.
            self._failures["unavailable"] += step.kind != "task"
            raise

    def renew_leases_blocking(self, held: Sequence[Lease], *, duration: int) -> list[RenewedLease]:
        """Renew leases on a thread of its own: an event loop that is stuck must not cost them."""
        return self.perform(Leases.renew.step(self, held, duration=duration))


class ComposableStore(SessionStore):
    """A `SessionStore` that also carries out operations which are no verbs of it."""

    def run_write(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> T:
        """Run the operation in a transaction that is durable when this returns; return its result."""
        return self.perform(leaving_work(write(operation, *args, **options)))

    def run_read(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **options: P.kwargs) -> T:
        """Run the operation on one consistent snapshot; return its result."""
        return self.perform(read(operation, *args, **options))

    def read_pages(self, operation: Callable[..., Page[T]], /, *args: object) -> Iterator[T]:
        """Yield what an operation that takes a cursor finds, page by page; each page is a snapshot of its own."""
        cursor: str | None = None
        while True:
            page: Page[T] = self.run_read(operation, cursor, *args)
            yield from page
            cursor = page.cursor
            if cursor is None:
                return


# Store files that this process has open. Opening and closing such a file otherwise would drop the locks that SQLite holds on it.
_OPEN_HERE: Counter[tuple[int, int]] = Counter()
_COUNTING = threading.Lock()


def is_open_here(path: Path) -> bool:
    """Return whether this process has the file open as a store that is opened at first use."""
    return _OPEN_HERE[_file_id(path)] > 0


def _file_id(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return 0, 0
    return facts.st_dev, facts.st_ino


class OpenedAtFirstUse:
    """A store file that is opened by the first call that needs it. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = threading.RLock()
        self._opened: ComposableStore | None = None
        self._file_id = (0, 0)

    @property
    def core(self) -> ComposableStore:
        """Our own store behind this one."""
        if (opened := self._opened) is not None:
            return opened
        with self._opening:
            # Another thread may have opened it meanwhile.
            self._opened = self._opened or self._open()
            return self._opened

    def _open(self) -> ComposableStore:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = ComposableStore.open(self._path)
        try:
            self._begin(opened)
        except BaseException:
            opened.close()
            raise
        self._file_id = _file_id(self._path)
        with _COUNTING:
            _OPEN_HERE[self._file_id] += 1
        return opened

    def _begin(self, opened: ComposableStore) -> None:
        """Do the work that comes before everything else, once."""

    def close(self) -> None:
        """Release the file. The next call opens it again."""
        with self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                # By what it was when it was opened: the file may have been deleted or replaced.
                with _COUNTING:
                    _OPEN_HERE[self._file_id] -= 1
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_database(location: str | Path, *, migrate: bool = True) -> Database:
    """Open the database at a location with the engine that it names, and return it."""
    parsed = parse_location(location)
    if isinstance(parsed, SqliteLocation):
        return SqliteDatabase(parsed.path, location=parsed.text, migrate=migrate)
    try:
        from threadline.store.engine.postgres.database import PostgresDatabase
    except ImportError as cause:
        raise InvalidLocation(
            "PostgreSQL needs an extra: pip install 'threadline[postgres]'; then open it again"
        ) from cause
    return PostgresDatabase(parsed.url, location=parsed.text, migrate=migrate)


def _settings(
    policies: ResetPolicies | None,
    scope: SessionScope | None,
    is_busy: IsBusy | None,
    clock: Clock | None,
    timezone: str | None,
    agent: str,
) -> StoreSettings:
    return StoreSettings(
        policies=policies or ResetPolicies(),
        scope=scope or SessionScope(),
        clock=clock or SystemClock(),
        zone=checked_zone(timezone) if timezone is not None else installation_zone(),
        agent=agent,
        is_busy=is_busy,
    )
