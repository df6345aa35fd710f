"""A Python function as an agent; blocking functions run in a thread of their own."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from threadline.agents.cancellation import until_cancelled
from threadline.agents.registry import AgentSetup
from threadline.errors import InvalidRequest
from threadline.log import get_logger
from threadline.model.access import Role, may_use
from threadline.model.inbound import Attachment
from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import Replay
from threadline.ports.agent import (
    AgentError,
    AskPermission,
    Done,
    Event,
    File,
    NewFile,
    Permission,
    Spoken,
    Text,
    Turn,
    Uses,
    Workplace,
    answered,
    permitted,
)

GRACE = 5.0
THREADS = 64
T = TypeVar("T")

log = get_logger(__name__)


class FunctionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of an agent function. `cancelled` can be read and waited for in any thread."""

    text: str
    messages: tuple[Spoken, ...]
    history: Sequence[Message]
    context_prompt: str
    session: SessionEntry
    attachments: tuple[Attachment, ...]
    cancelled: threading.Event
    turn_id: str
    source: SessionSource
    role: Role
    attempt: int
    system_prompt: str | None
    permissions: tuple[Permission, ...]
    uses: Uses
    so_far: Sequence[Event]
    take: Callable[[], Awaitable[tuple[Spoken, ...]]]
    fetch: Callable[[Attachment], Awaitable[bytes]]
    keep: Callable[[NewFile], Awaitable[Attachment]]
    loop: asyncio.AbstractEventLoop
    # Only in a session that an editor has opened.
    workplace: Workplace | None = None

    def answered(self, ask: AskPermission) -> bool | None:
        """Return the answer given to exactly this call in this turn, or None if it has to be asked. Uses no approval up."""
        return answered(self.permissions, ask)

    def permitted(self, ask: AskPermission) -> bool | None:
        """Return whether exactly this call may be done now; None if this run has no answer yet. Uses the approval up."""
        return permitted(self.permissions, ask, self.uses)

    def may(self, use: str) -> bool:
        """Return whether the role of the turn allows a use, such as `host_files` or `shell`."""
        return may_use(self.role, use)

    async def more(self) -> tuple[Spoken, ...]:
        """Return messages that came since the turn began; the turn then answers them too. Empty unless `when_busy` is `steer`."""
        return await self.take()

    def take_new_messages_sync(self) -> tuple[Spoken, ...]:
        """Do the same as `more` from a plain function, which runs in a thread."""
        return self._wait_for(self.more(), "take_new_messages_sync() would stop the event loop; use await turn.more()")

    async def read_file(self, attachment: Attachment) -> bytes:
        """Return the bytes of a file that came with a message. `UnknownFile` if it is gone or its platform refuses it."""
        return await self.fetch(attachment)

    def read_file_sync(self, attachment: Attachment) -> bytes:
        """Do the same as `read_file` from a plain function, which runs in a thread."""
        return self._wait_for(
            self.read_file(attachment), "read_file_sync() would stop the event loop; use await turn.read_file(...)"
        )

    async def file(self, body: bytes, *, name: str, mime: str = "application/octet-stream") -> File:
        """Store a file and return the event that sends it with the answer. Yielding a `NewFile` does the same."""
        return File(await self.keep(NewFile(body=body, name=name, mime=mime)))

    def _wait_for(self, call: Coroutine[Any, Any, T], problem: str) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(call, self.loop).result()
        call.close()
        raise RuntimeError(problem)

    # Earlier names, kept for one release.
    more_now = take_new_messages_sync
    read_file_now = read_file_sync


AgentFunction: TypeAlias = Callable[[FunctionTurn], object]
FlushFunction: TypeAlias = Callable[[SessionEntry, Sequence[Message]], object]


class FunctionAgent:
    """Answers with what a function returns or yields: text, files (`NewFile`), events, or nothing.

    The function takes a `FunctionTurn`. It is a plain or an `async` function, or a generator of either sort. Each plain
    function runs in a thread of its own, for at most `threads` turns at once; a turn that has ended no longer counts, even if
    its thread hangs. `async` functions run on the event loop and must not block it. A generator continues only after its last
    event was taken.

    After a cancellation the function has `grace` seconds to finish. Then, and whenever the run is closed, an `async` function
    is cancelled, a generator is closed, and a plain function is left running in its thread.

    An exception becomes an `AgentError` that names the type and none of its text; an `AgentError` is passed on unchanged.

    If the function has an attribute `flush` (plain or `async`, called with the session and its history), the agent implements
    `Flushes`; otherwise it does not.
    """

    flush: Callable[[SessionEntry, Sequence[Message]], Coroutine[Any, Any, None]]

    def __init__(
        self,
        function: AgentFunction,
        replay: Replay = "until_tool",
        *,
        grace: float = GRACE,
        threads: int = THREADS,
        history_limit: int | None = None,
    ) -> None:
        """`history_limit` is the number of last messages that `turn.history` holds at most; None: all of them."""
        self.history_limit = history_limit
        self._function = function
        self._replay: Replay = replay
        self._grace = grace
        self._slots = asyncio.Semaphore(threads)
        own: Any = getattr(function, "flush", None)
        if callable(own):
            # Set here and not written as a method: the gateway decides by this name whether the agent flushes.
            self.flush = functools.partial(_flush, own)

    @property
    def replay(self) -> Replay:
        return self._replay

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """Yield the events of the function. `Done` and `AskPermission` end the run, whatever would come after them."""
        view = _view_of(turn)
        answer = until_cancelled(self._events(view), turn.cancelled, grace=self._grace, on_cancelled=view.cancelled.set)
        async with _stop_at_exit(answer, view.cancelled):
            async for event in answer:
                yield event
                if isinstance(event, Done | AskPermission):
                    return

    async def _events(self, view: FunctionTurn) -> AsyncGenerator[Event, None]:
        async with _errors_as_agent_errors(), aclosing(self._given(view)) as items:
            async for item in items:
                if (event := await _event_of(item, view)) is not None:
                    yield event

    async def _given(self, view: FunctionTurn) -> AsyncGenerator[object, None]:
        """Yield the results of the call, whatever kind of function it is."""
        stream: AsyncIterator[object] | None = None
        async with aclosing(self._called(view)) as steps:
            async for step in steps:
                if isinstance(step, AsyncIterator):
                    stream = step
                    break
                yield await step if isinstance(step, Awaitable) else step
        if stream is None:
            return
        async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext():
            async for item in stream:
                yield item

    async def _called(self, view: FunctionTurn) -> AsyncGenerator[object, None]:
        """Yield the result of the call, or each step of it. Decorators hide kinds: a thread may return a coroutine."""
        if _is_async(self._function):
            yield self._function(view)
            return
        async with self._slots, aclosing(iterate_in_thread(functools.partial(self._function, view))) as steps:
            async for step in steps:
                yield step


async def _flush(function: FlushFunction, session: SessionEntry, history: Sequence[Message]) -> None:
    """Call the function and wait for its end. A plain function runs in a thread, which is abandoned if the wait is cancelled."""
    async with _errors_as_agent_errors():
        if _is_async(function):
            await _finish_coroutine(function(session, history))
            return
        async with aclosing(iterate_in_thread(functools.partial(function, session, history))) as steps:
            async for step in steps:
                await _finish_coroutine(step)


async def _finish_coroutine(given: object) -> None:
    if isinstance(given, AsyncIterator):
        async for _ in given:
            pass
    elif isinstance(given, Awaitable):
        await given


def load_callable(name: str) -> AgentFunction:
    """Return the function that "package.module:name" names. The current folder is searched first, and stays importable.

    Raise `InvalidRequest` if the name is wrong or the module fails while it is imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise InvalidRequest(
            f"{name!r} names no function; write it as 'package.module:name', such as 'my_agent:answer'"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    found: Any = _import(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InvalidRequest(f"{module_name} has no {attribute!r}; check its spelling in {name!r}")
        found = getattr(found, part)
    if not callable(found):
        raise InvalidRequest(f"{name} is of type {type(found).__name__} and can't be called; name a function")
    function: AgentFunction = found
    return function


def make(settings: AgentSetup) -> FunctionAgent:
    """Return the agent of the function that `call` names."""
    if not settings.call:
        raise InvalidRequest("a function agent needs `call`: the function that answers, such as 'my_agent:answer'")
    return FunctionAgent(load_callable(settings.call), history_limit=settings.history_limit)


def _import(name: str) -> object:
    # Python caches the listing of a folder: without this a file written a moment ago is not found.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as cause:
        if cause.name is not None and (name == cause.name or name.startswith(f"{cause.name}.")):
            raise InvalidRequest(
                f"there is no module {cause.name!r} in {Path.cwd()} or among the installed packages;"
                " check its spelling, or start where it is"
            ) from cause
        raise InvalidRequest(f"{name} needs the module {cause.name!r}, which is not installed; install it") from cause
    except (Exception, SystemExit) as cause:  # code of others: it may raise anything
        raise InvalidRequest(
            f"importing {name} failed with {type(cause).__name__}{_place_of(cause)}; mend it and start again"
        ) from cause


def _place_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {Path(error.filename).name}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _view_of(turn: Turn) -> FunctionTurn:
    return FunctionTurn(
        text=turn.text,
        messages=turn.messages,
        # A list, not a lazy view: a function may pass it on.
        history=list(turn.history),
        context_prompt=turn.context_prompt,
        session=turn.session,
        attachments=tuple(attachment for spoken in turn.messages for attachment in spoken.attachments),
        cancelled=threading.Event(),
        turn_id=turn.turn_id,
        source=turn.source,
        role=turn.role,
        attempt=turn.attempt,
        system_prompt=turn.system_prompt,
        permissions=turn.permissions,
        uses=turn.uses,
        so_far=turn.so_far,
        take=turn.take,
        fetch=turn.fetch,
        keep=turn.keep,
        loop=asyncio.get_running_loop(),
        workplace=turn.workplace,
    )


def _is_async(function: object) -> bool:
    """Return whether a call only makes a coroutine or generator, so that it is safe on the event loop."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(type(function), "__call__", None))  # noqa: B004  # its code is asked for, not whether it has any
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates)


async def _event_of(item: object, view: FunctionTurn) -> Event | None:
    if item is None:
        return None
    if isinstance(item, str):
        return Text(str(item)) if item else None
    if isinstance(item, Event):
        return item
    if isinstance(item, NewFile):
        return await _stored(item, view)
    raise AgentError(
        f"The agent gave a value of type {type(item).__name__}; a function gives text, files, events or nothing.",
        is_owners=True,
    )


async def _stored(new: NewFile, view: FunctionTurn) -> File:
    try:
        return File(await view.keep(new))
    except InvalidRequest as cause:
        raise AgentError(f"The agent has a file that can't be sent: {cause}.") from cause


@asynccontextmanager
async def _stop_at_exit(answer: AsyncGenerator[Event, None], cancelled: threading.Event) -> AsyncIterator[None]:
    try:
        yield
    finally:
        # Set before the function is closed, so that its clean-up sees the cancellation.
        cancelled.set()
        await answer.aclose()


@asynccontextmanager
async def _errors_as_agent_errors() -> AsyncIterator[None]:
    """Turn exceptions of the function into an `AgentError`. The code is not ours: any error ends its turn, and no other."""
    try:
        yield
    except AgentError:
        raise
    except asyncio.CancelledError as cause:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _failure(cause) from cause
    except (Exception, SystemExit) as cause:
        raise _failure(cause) from cause


def _failure(cause: BaseException) -> AgentError:
    name = type(cause).__name__
    return AgentError(f"The agent failed: {name}. Try again; if it stays so, its owner finds more in the log.")


class _Ended(msgspec.Struct, frozen=True):
    """The end of the items; `error` is the exception that the code raised, if any."""

    error: BaseException | None = None


async def iterate_in_thread(call: Callable[[], object]) -> AsyncGenerator[object, None]:
    """Yield what `call` returns, or each item if that is an iterator; raise what it raises.

    An iterator takes a step only when the next item is asked for, and is closed in its own thread. Closing this generator
    does not wait for the thread: code that never returns keeps its thread and nothing else. The thread is a daemon, so it
    does not stop the process from ending.
    """
    work = _Work(call, asyncio.get_running_loop())
    threading.Thread(target=work.run, name="threadline-agent", daemon=True).start()
    try:
        while True:
            item = await work.items.get()
            if not isinstance(item, _Ended):
                yield item
                work.wanted.release()
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        work.is_left = True
        work.wanted.release()


class _Work:
    """The part that runs in the thread. It touches `items` only through the event loop, which owns that queue."""

    def __init__(self, call: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._call: Final = call
        self._loop: Final = loop
        self.items: Final[asyncio.Queue[object]] = asyncio.Queue()
        self.wanted: Final = threading.Semaphore(0)
        self.is_left = False

    def run(self) -> None:
        """Run the call. This is the main function of the thread."""
        try:
            self._step_through(self._call())
        except BaseException as error:  # noqa: BLE001  # passed to the turn, which raises it
            self._end(_Ended(error))
        else:
            self._end(_Ended())

    def _step_through(self, result: object) -> None:
        if not isinstance(result, Iterator):
            self._hand_over(result)
            return
        try:
            for item in result:
                self._hand_over(item)
                self.wanted.acquire()
                if self.is_left:
                    return
        finally:
            close = getattr(result, "close", None)
            if callable(close):
                close()

    def _end(self, ended: _Ended) -> None:
        if self.is_left and ended.error is not None:
            log.warning("agent.failed_after_stop", error=type(ended.error).__name__)
        self._hand_over(ended)

    def _hand_over(self, item: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)
        except RuntimeError:
            # The loop is closed: no reader is left.
            self.is_left = True
