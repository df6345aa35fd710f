"""Verbs: how callers reach operations. A verb makes one step; a store performs it, blocking or awaited.

An operation is a function of a transaction. A group is a class beside its operations that lists those which callers may use:
`load = reads(load)`. Only a verb that checks its arguments or makes ids is written out, with `@verb`; it does so before its step
is performed, so bad input costs no transaction.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

import msgspec

from threadline.clock import Clock, Instant, to_instant
from threadline.errors import InvalidRequest, StoreClosed, ThreadlineError
from threadline.ids import new_session_id
from threadline.model.address import SessionAddress, SessionScope, address_of
from threadline.model.ownership import Viewer, person_of, viewer_of_source
from threadline.model.policy import ResetPolicies
from threadline.model.source import SessionSource
from threadline.store.engine.database import Database, Perform, Step, Tx

P = ParamSpec("P")
T = TypeVar("T")

IsBusy: TypeAlias = Callable[[str], bool]
PersonRef: TypeAlias = SessionSource | str | None

MAX_KEY_CHARS = 512
MAX_TITLE_CHARS = 200
MAX_PATH_CHARS = 4_096
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WRITES = ("write", "batch")
_TASK_THREADS = 4


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store decides: everything that is not in the database."""

    policies: ResetPolicies
    scope: SessionScope
    clock: Clock
    zone: str
    agent: str = "main"
    is_busy: IsBusy | None = None


class Blocking:
    """The mode of a store whose verbs block."""


class Awaited:
    """The mode of a store whose verbs are awaited."""


Mode = TypeVar("Mode", Blocking, Awaited)


class Store(Generic[Mode]):
    """An open database and how it decides; performs the steps that verbs make."""

    _is_async = False
    # Called at the end of each write, in its transaction: raises `LeaseLost` where the store's lease is lost.
    require_lease: Callable[[Tx], None] | None = None

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self.database = database
        self.settings = settings
        # Tasks of an awaited store: threads of its own, so that nothing else of the process can keep them waiting.
        self._task_threads = ThreadPoolExecutor(_TASK_THREADS, thread_name_prefix="threadline-task")
        self._is_closing = threading.Event()

    @property
    def clock(self) -> Clock:
        """The clock that times are taken from."""
        return self.settings.clock

    def now(self) -> Instant:
        """Return the time of the store's clock."""
        return to_instant(self.settings.clock.now())

    def now_with_id(self) -> tuple[Instant, str]:
        """Return the time of the store's clock, and a new session id made from it."""
        now = self.settings.clock.now()
        return to_instant(now), new_session_id(now)

    def address_of(self, source: SessionSource, agent: str | None = None) -> SessionAddress:
        """Return the address of the conversation that a source belongs to, by this store's scope settings."""
        return address_of(source, self.settings.scope, agent or self.settings.agent)

    def perform(self, step: Step[T]) -> T:
        """Perform a step, blocking."""
        if step.kind == "task":
            return self._run_task(step, self.perform)
        result = self.database.perform(self._fenced(step))
        if step.leaves_work:
            self._notify_worker()
        return result

    async def perform_async(self, step: Step[T]) -> T:
        """Perform a step without blocking the event loop. A task whose caller is cancelled ends before its next step."""
        if step.kind == "task":
            is_cancelled = threading.Event()
            try:
                return await self.run_in_thread(lambda: self._run_task(step, self._perform_unless(is_cancelled)))
            except asyncio.CancelledError:
                is_cancelled.set()
                raise
        result = await self.database.perform_async(self._fenced(step))
        if step.leaves_work:
            self._notify_worker()
        return result

    async def perform_later(self, make: Callable[..., Step[T]], args: Sequence[Any], options: Mapping[str, Any]) -> T:
        """Make and perform a step when this is awaited: bad arguments are refused then, and its time is taken then."""
        return await self.perform_async(make(self, *args, **options))

    async def run_in_thread(self, call: Callable[[], T]) -> T:
        """Run blocking work of this store on a thread of its own; closing the store waits for it."""
        self._require_open()
        return await asyncio.get_running_loop().run_in_executor(self._task_threads, call)

    def _run_task(self, step: Step[T], perform: Perform) -> T:
        # A task may use the database itself, which does not ask.
        self.database.require_open()
        result: T = step.call(perform, *step.args, **step.options)
        if step.leaves_work:
            self._notify_worker()
        return result

    def _perform_unless(self, is_cancelled: threading.Event) -> Perform:
        def perform(step: Step[T], /) -> T:
            if is_cancelled.is_set():
                raise StoreClosed("the caller of this work was cancelled")
            self._require_open()
            return self.perform(step)

        return perform

    def _require_open(self) -> None:
        self.database.require_open()
        if self._is_closing.is_set():
            raise StoreClosed

    def _end_tasks(self) -> None:
        """Let no task begin another step, and wait for those that run."""
        self._is_closing.set()
        self._task_threads.shutdown(wait=True)

    def _notify_worker(self) -> None:
        """Notify the background worker after a step that leaves it work."""

    def _fenced(self, step: Step[T]) -> Step[T]:
        if self.require_lease is None or step.kind not in _WRITES:
            return step
        return Step("write", _while_leased, (self.require_lease, step))


def _while_leased(tx: Tx, require_lease: Callable[[Tx], None], step: Step[T]) -> T:
    result: T
    if step.kind == "batch":
        outcome = step.call(tx, step.args)[0]
        if isinstance(outcome, ThreadlineError):
            raise outcome
        result = outcome
    else:
        result = step.call(tx, *step.args, **step.options)
    # After the work: sessions are locked before turns. If the lease is lost, the work is rolled back.
    require_lease(tx)
    return result


class Group(Generic[Mode]):
    """The verbs of one family of tables."""

    def __init__(self, store: Store[Mode]) -> None:
        self.store: Store[Mode] = store


class Verb(Generic[P, T]):
    """A call that callers may make: bound to a group or a store, it makes a step and performs it there."""

    def __init__(self, make: Callable[..., Step[T]], described: Callable[..., Any], hidden_parameters: int = 1) -> None:
        """`hidden_parameters`: how many first parameters of the described function callers don't pass."""
        self._make = make
        self.__wrapped__ = described
        self.__name__ = described.__name__
        self.__doc__ = described.__doc__
        self._hidden_parameters = hidden_parameters

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.__wrapped__)
        parameters = list(signature.parameters.values())
        return signature.replace(parameters=parameters[self._hidden_parameters :])

    @overload
    def __get__(self, holder: None, owner: type) -> Verb[P, T]: ...
    @overload
    def __get__(self, holder: Group[Blocking] | Store[Blocking], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, holder: Group[Awaited] | Store[Awaited], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, holder: Any, owner: type) -> Any:
        if holder is None:
            return self
        return BoundVerb(self, holder if isinstance(holder, Store) else holder.store)

    def __call__(self, holder: Any, /, *args: P.args, **options: P.kwargs) -> Any:
        return self.__get__(holder, type(holder))(*args, **options)

    def step(self, store: Store[Any], /, *args: P.args, **options: P.kwargs) -> Step[T]:
        """Return the step that a call makes, to be performed by the caller."""
        return self._make(store, *args, **options)


class BoundVerb:
    """A verb of one store, to be called like a method; its result is awaited where the store is."""

    __slots__ = ("_store", "_verb")

    def __init__(self, verb: Verb[Any, Any], store: Store[Any]) -> None:
        self._verb = verb
        self._store = store

    def __call__(self, *args: Any, **options: Any) -> Any:
        store = self._store
        if store._is_async:  # noqa: SLF001 - one of our own
            return store.perform_later(self._verb.step, args, options)
        return store.perform(self._verb.step(store, *args, **options))

    def __getattr__(self, name: str) -> Any:
        # What a method tells of itself: its name, its docstring, its signature.
        if name in ("__name__", "__signature__", "__wrapped__"):
            return getattr(self._verb, name)
        raise AttributeError(name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._verb.__doc__


def verb(make: Callable[Concatenate[Store[Any], P], Step[T]]) -> Verb[P, T]:
    """Return the verb whose step a function of a store and the call's arguments makes."""
    return Verb(make, make)


def reads(operation: Callable[Concatenate[Tx, P], T]) -> Verb[P, T]:
    """Return the verb that reads by this operation."""
    return Verb(lambda _, *args, **options: Step("read", operation, args, options), operation)


def reads_now(operation: Callable[Concatenate[Tx, Instant, P], T]) -> Verb[P, T]:
    """Return the verb that reads by this operation as of now."""
    return Verb(lambda store, *args, **options: Step("read", operation, (store.now(), *args), options), operation, 2)


def writes(operation: Callable[Concatenate[Tx, P], T], *, leaves_work: bool = False) -> Verb[P, T]:
    """Return the verb that writes by this operation; durable when a call returns."""

    def make(_: Store[Any], *args: Any, **options: Any) -> Step[T]:
        return Step("write", operation, args, options, leaves_work=leaves_work)

    return Verb(make, operation)


def writes_now(operation: Callable[Concatenate[Tx, Instant, P], T], *, leaves_work: bool = False) -> Verb[P, T]:
    """Return the verb that writes by this operation as of now; durable when a call returns."""

    def make(store: Store[Any], *args: Any, **options: Any) -> Step[T]:
        return Step("write", operation, (store.now(), *args), options, leaves_work=leaves_work)

    return Verb(make, operation, 2)


def clean_text(what: str, text: str, limit: int = MAX_KEY_CHARS) -> str:
    """Return text that both engines can keep in a column: no NUL, no half surrogates, not endless. Else raise `InvalidRequest`."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} must be text, not {type(text).__name__}")
    if len(text) > limit:
        raise InvalidRequest(f"{what} has {len(text)} characters; {limit} is the most")
    if _UNSTORABLE.search(text):
        raise InvalidRequest(f"{what} must not hold NUL or half of a surrogate pair")
    return text


def clean_or_none(what: str, text: str | None, limit: int = MAX_KEY_CHARS) -> str | None:
    """Return `clean_text` of a text, or `None` for none."""
    return None if text is None else clean_text(what, text, limit)


def clean_title(title: str | None) -> str | None:
    """Return a title on one line, `None` for none. Raise `InvalidRequest` for a title without a visible character."""
    text = None if title is None else " ".join(clean_text("title", title, MAX_TITLE_CHARS).split())
    if text == "":
        raise InvalidRequest("a title needs at least one visible character; use None to remove it")
    return text


def person_name_of(person: PersonRef) -> str | None:
    """Return the person that a source speaks for, or that a name such as `telegram:7` names."""
    return (
        person_of(person)
        if isinstance(person, SessionSource)
        else clean_or_none("a person's name", person, 2 * MAX_KEY_CHARS)
    )


def viewer_of(person: PersonRef) -> Viewer | None:
    """Return the viewer that a person is, or the sender of a source in that chat; `None`: the operator, who sees all."""
    if person is None:
        return None
    return viewer_of_source(person) if isinstance(person, SessionSource) else Viewer(person_name_of(person))


def parse_instant(moment: datetime | None, otherwise: int = 0) -> Instant:
    """Return the instant of a time that a caller gave. Raise `InvalidRequest` for a naive one: its zone would be a guess."""
    if moment is None:
        return Instant(otherwise)
    try:
        return to_instant(moment)
    except ValueError as cause:
        raise InvalidRequest(str(cause)) from cause


def instant_minutes_ago(now: datetime, minutes: float) -> Instant:
    """Return the instant so many minutes ago, or raise `InvalidRequest`."""
    try:
        return to_instant(now - timedelta(minutes=minutes))
    except (OverflowError, ValueError, TypeError) as cause:
        raise InvalidRequest(f"{minutes!r} is no number of minutes that can be counted back from now") from cause


def parse_age(now: datetime, older_than: timedelta | datetime) -> Instant:
    """Return the instant of a time, or the instant that lies a time span before now."""
    if isinstance(older_than, datetime):
        return parse_instant(older_than)
    try:
        return to_instant(now - older_than)
    except (OverflowError, TypeError) as cause:
        raise InvalidRequest(f"{older_than!r} is no time span that can be counted back from now") from cause
