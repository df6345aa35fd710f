"""An asynchronous store driven from blocking code, so that one test reads the same for both clients."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from threadline.store.facade import AsyncSessionStore, SessionStore

T = TypeVar("T")


class AwaitedStore:
    """Has the verbs of `SessionStore`; each is awaited on an event loop that runs in a thread of its own."""

    def __init__(self, location: str | Path, **options: Any) -> None:
        """Opens the store at `location`; `options` are those of `AsyncSessionStore.open`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="awaited-store", daemon=True)
        self._thread.start()
        try:
            self._store = self._await(AsyncSessionStore.open(location, **options))
        except BaseException:
            self._stop()
            raise

    @classmethod
    def open(cls, location: str | Path, **options: Any) -> SessionStore:
        """Like the constructor, typed as the client that it stands in for."""
        return cast(SessionStore, cls(location, **options))

    @property
    def location(self) -> str:
        """The URL that opens this store, without secrets."""
        return self._store.location

    def session_key(self, *args: Any, **options: Any) -> str:
        """The one verb that needs no database and so is not awaited."""
        return self._store.session_key(*args, **options)

    def close(self) -> None:
        """Closes the store and its loop. Idempotent; verbs called later still reach the closed store."""
        if self._loop.is_closed():
            return
        self._await(self._store.close())
        self._stop()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        @functools.wraps(verb)
        def carried_out(*args: Any, **options: Any) -> Any:
            if self._loop.is_closed():
                return asyncio.run(verb(*args, **options))
            return self._await(verb(*args, **options))

        return carried_out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
