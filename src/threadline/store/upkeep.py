"""Work behind the writes: a thread that brings listings and the search index level, and collects what was deleted."""

from __future__ import annotations

import threading
import time

from threadline.errors import StoreClosed, StoreForked, ThreadlineError
from threadline.log import get_logger
from threadline.store.conversations.indexes import INDEX_STEP, RELIST_STEP, index_some, relist_some
from threadline.store.engine.database import Database, WriteStep
from threadline.store.people.removal import collect_some

log = get_logger(__name__)

QUIET_SECONDS = 0.5
# However busy the writers are, the indexes do not stand still for longer than this. The more sessions are listed anew at once, the
# more of them share a page: sooner would cost the writers more.
LONGEST_SECONDS = 10.0
_AFTER_FAULT_SECONDS = 5.0
# What is to be done, and how much a step has to find for another to follow. Of sessions to list anew a full one: beside busy
# writers there is always one more, and it would never end.
_CHORES = (
    (WriteStep(relist_some, (), {}), RELIST_STEP),
    (WriteStep(index_some, (INDEX_STEP,), {}), 1),
    (WriteStep(collect_some, (), {}), 1),
)


class Upkeep:
    """Lists anew what has moved and indexes what was appended: a short step at a time, when writes have paused or gone on for long.

    Then messages of deleted sessions go that whoever deleted them did not live to collect.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = 0
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def nudge(self) -> None:
        """Something was written. Costs next to nothing."""
        self._writes += 1
        if not self._due.is_set():
            self._due.set()
            self._ensure_thread()

    def stop(self) -> None:
        """Ends the work after the step that runs; what is left is done behind the next write, or by a search that needs it."""
        self._stopping.set()
        self._due.set()
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()

    def _ensure_thread(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._serve, name="threadline-upkeep", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            self._due.wait()
            self._await_quiet()
            # Cleared before the work: what is written during it makes the next round.
            self._due.clear()
            if self._stopping.is_set():
                return
            try:
                self._catch_up()
            except (StoreClosed, StoreForked):
                return
            except ThreadlineError as cause:
                log.warning("store.indexing_delayed", error=str(cause))
                self._stopping.wait(_AFTER_FAULT_SECONDS)
                self._due.set()

    def _await_quiet(self) -> None:
        started = time.monotonic()
        while not self._stopping.is_set() and time.monotonic() - started < LONGEST_SECONDS:
            seen = self._writes
            self._stopping.wait(QUIET_SECONDS)
            if self._writes == seen:
                return

    def _catch_up(self) -> None:
        for step, least in _CHORES:
            while not self._stopping.is_set() and self._database.perform(step) >= least:
                pass
