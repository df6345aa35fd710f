"""The only place that starts tasks: each has a name, its end is noticed, and what must go on is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from threadline.errors import ThreadlineError
from threadline.log import get_logger

log = get_logger(__name__)

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_ENDING_SECONDS = 10.0
_STEP_SECONDS = 0.5


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Returns when the event is set, after so many seconds at the latest: a wake that was lost costs no more than that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def cut_short(tasks: Callable[[], Iterable[asyncio.Task[None]]], seconds: float) -> set[asyncio.Task[None]]:
    """Cancels tasks and waits for their end, so many seconds at most; those that have not ended by then."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    # More than once: a cancel that meets the end of a wait can be lost. What they start meanwhile ends with them.
    while (left := {task for task in tasks() if not task.done()}) and (rest := until - loop.time()) > 0:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=min(rest, _STEP_SECONDS))
    return left


class Supervisor:
    """Keeps the gateway's tasks. What fails is logged with its cause; nothing ends unseen."""

    def __init__(self, ending_seconds: float = _ENDING_SECONDS) -> None:
        """`ending_seconds`: how long all that was cancelled may take to end."""
        self._ending_seconds = ending_seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    def start(
        self, name: str, work: Coroutine[Any, Any, None], on_end: Callable[[], None] | None = None
    ) -> asyncio.Task[None]:
        """Runs `work` once. `on_end` hears when that is over, also where it was cancelled before its first step."""

        def ended() -> None:
            # One that was cancelled before its first step would never be awaited.
            work.close()
            if on_end is not None:
                on_end()

        return self._kept(name, self._watched(name, work), ended)

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Does `work` at once up to its first wait; the rest is a task, and where there is none, nothing is left to do.

        Not for work that asks which task it is in before that wait, as `asyncio.timeout` does.
        """
        watched = self._watched(name, work)
        try:
            awaited = watched.send(None)
        except (StopIteration, asyncio.CancelledError):
            return None
        return self._kept(name, _Rest(watched, awaited))

    def after(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Calls in so many seconds, unless all was stopped by then."""
        return asyncio.get_running_loop().call_later(seconds, self._come, call)

    def keep(self, name: str, work: Work, *, fatal: tuple[type[Exception], ...] = ()) -> asyncio.Task[None]:
        """Runs `work` again with growing pauses whenever it fails; one that returns, or fails for good, stays ended."""
        return self.start(name, self.persist(name, work, fatal=fatal))

    async def persist(self, name: str, work: Work, *, fatal: tuple[type[Exception], ...] = ()) -> None:
        """Does `work`, again with growing pauses whenever it fails, until it returns. What is `fatal` is raised."""
        wait = _FIRST_WAIT
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await work()
            except fatal:
                raise
            except Exception as cause:  # noqa: BLE001 - whatever it was, the gateway goes on
                log.warning("task.restarting", task=name, error=repr(cause), seconds=wait)
            else:
                return
            if asyncio.get_running_loop().time() - began > _LONGEST_WAIT:
                wait = _FIRST_WAIT
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def stop(self) -> None:
        """Cancels everything and waits for it. What does not end in its time is told and left behind; no timer comes any more."""
        for task in await cut_short(lambda: self._tasks, self._ending_seconds):
            self.leave_behind(task)
        self._is_stopped = True

    def leave_behind(self, task: asyncio.Task[None]) -> None:
        """Nobody waits any longer for a task that does not end when it is told to."""
        log.error("task.left_behind", task=task.get_name())
        self._tasks.discard(task)
        # Nor does the program: an event loop that ends waits for all that it knows, however long.
        asyncio._unregister_task(task)  # noqa: SLF001 - documented for those who extend asyncio

    def _come(self, call: Callable[[], None]) -> None:
        if not self._is_stopped:
            call()

    def _kept(
        self, name: str, work: Coroutine[Any, Any, None], ended: Callable[[], None] = lambda: None
    ) -> asyncio.Task[None]:
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        # One for all: each would cost the loop a call of its own.
        task.add_done_callback(end)
        return task

    async def _watched(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except ThreadlineError as cause:
            log.warning("task.failed", task=name, error=repr(cause))
        except Exception:
            # The last one who hears of it.
            log.exception("task.failed", task=name)


class _Rest(Coroutine[Any, Any, None]):
    """What is left of work that has come to wait for something: first that is waited for, then the work goes on."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited
        self._waits = False
        # A future that was yielded to a task is marked so until the task has it; until then nobody else could wait for it.
        self._is_marked = getattr(awaited, "_asyncio_future_blocking", None) is True
        if self._is_marked:
            awaited._asyncio_future_blocking = False  # noqa: SLF001 - what futures and tasks of any kind agree on

    def send(self, value: Any) -> Any:
        """The next thing that is waited for."""
        if self._waits:
            return self._work.send(value)
        self._waits = True
        if self._is_marked:
            self._awaited._asyncio_future_blocking = True  # noqa: SLF001 - see above
        return self._awaited

    def throw(self, *error: Any) -> Any:
        """The work bears it, also where nobody has waited yet."""
        self._waits = True
        return self._work.throw(*error)

    def close(self) -> None:
        """Nobody goes on with it."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("it is a task's, and awaited by nobody else")


class Later:
    """Work that begins in a while. Where it is over before that, it has cost no task."""

    def __init__(self, supervisor: Supervisor, name: str, work: Work) -> None:
        self._supervisor = supervisor
        self._name = name
        self._work = work
        self._begins: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, seconds: float) -> None:
        """It begins in so many seconds."""
        self._begins = self._supervisor.after(seconds, self._start)

    def end(self) -> None:
        """It does not begin any more, or is broken off."""
        if self._begins is not None:
            self._begins.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = self._supervisor.start(self._name, self._work())
