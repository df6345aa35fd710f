"""`threadline serve` in a process of its own, which can be told where to die.

`start` forks it from a process that has everything imported; then it is the command itself, with its arguments and its
configuration. Where it is to die, its store and its platform are ones that pass crash points. `Plain` runs the command as
people do, and knows nothing of crash points.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import msgspec

import threadline.assembly
import threadline.gateway.gateway
from threadline.cli import main
from threadline.gateway.gateway import Gateway
from threadline.platforms.registry import PlatformSetup
from threadline.ports.platform import Platform
from threadline.store.engine.database import Database
from threadline.store.verbs import StoreSettings
from threadline.testing.crashing import Act, CrashingPlatform, CrashingStore, Trigger, die, fall_asleep, lose_store
from threadline.testing.scripted import make_scripted

# What `serve` otherwise imports when it is first needed.
_PRELOADED = (
    "structlog",
    "pydantic.type_adapter",
    "typer._adapters",
    "uvicorn.protocols.http.auto",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvloop",
    "threadline.agents.function",
    "threadline.cli.program",
    "threadline.platforms.telegram",
    "threadline.store.engine.postgres",
    "threadline.web.app",
    "threadline.web.server",
    "tests.system.outside",
)
_HERE = Path(__file__).parents[2]


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is started, and where it dies."""

    location: str
    # Where it is started: the agents and platforms of its configuration are found there.
    folder: str
    config: str = ""
    # The file that all it says goes to.
    log: str = ""
    # The file that is there once the crash point was passed.
    passed: str = ""
    point: str | None = None
    nth: int = 1
    # At the point the store goes away for so many seconds, and the gateway lives on. If it does so for any time at all, then
    # until the gateway has let go of everything, however slow the machine is. 0: that one call fails.
    outage: float | None = None
    # At the point it is stopped until it gets SIGCONT, instead of killed.
    sleeps: bool = False

    @property
    def arguments(self) -> Sequence[str]:
        """The command line."""
        return ("serve", "--config", self.config, "--db", self.location, "--port", "0")


class Process(Protocol):
    """A process that runs a gateway."""

    @property
    def pid(self) -> int | None: ...

    @property
    def sentinel(self) -> int: ...

    @property
    def exitcode(self) -> int | None: ...

    def kill(self) -> None: ...

    def join(self) -> None: ...


def start(child: Child) -> BaseProcess:
    """A process that runs a gateway. It ends when this one does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *_PRELOADED])
    process = context.Process(target=run, args=(child,), daemon=True)
    process.start()
    return process


class Plain:
    """`python -m threadline serve`."""

    def __init__(self, child: Child) -> None:
        environment = os.environ | {"PYTHONPATH": f"{child.folder}:{_HERE}"}
        command = [sys.executable, "-m", "threadline", *child.arguments]
        with Path(child.log).open("ab") as log:
            self._process = subprocess.Popen(command, cwd=child.folder, env=environment, stdout=log, stderr=log)
        self.pid = self._process.pid
        self.sentinel = os.pidfd_open(self.pid)

    @property
    def exitcode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()

    def join(self) -> None:
        if self._process.returncode is None:
            self._process.wait()
            os.close(self.sentinel)


def run(child: Child) -> None:
    """Serves until the process is killed, or nobody is there any more who could."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log = os.open(child.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    os.chdir(child.folder)
    sys.path.append(child.folder)
    if child.point is not None:
        _expect(Trigger(child.point, nth=child.nth, act=_act_of(child), seconds=child.outage or 0.0))
    sys.argv = ["threadline", *child.arguments]
    main()


def make_crashing(settings: PlatformSetup) -> Platform:
    """The platform kind `crashing`: a scripted one that passes crash points."""
    return CrashingPlatform(make_scripted(settings), expected[0])


expected = [Trigger()]


def _expect(trigger: Trigger) -> None:
    """`serve` looks these two up by name when it starts. All else in it stays as it is."""

    class Store(CrashingStore):
        def __init__(self, database: Database, settings: StoreSettings) -> None:
            super().__init__(database, settings)
            self.trigger = trigger

    class Watched(Gateway):
        def __init__(self, *parts: Any, **options: Any) -> None:
            super().__init__(*parts, **options)
            trigger.goes_on = lambda: bool(self.turns.leases or self.outbox.leases)

    expected[0] = trigger
    threadline.assembly.GatewayStore = Store  # type: ignore[attr-defined]
    threadline.gateway.gateway.Gateway = Watched  # type: ignore[misc]


def _act_of(child: Child) -> Act:
    act = die
    if child.outage is not None:
        act = lose_store
    elif child.sleeps:
        act = fall_asleep

    def pass_point() -> None:
        # Before the act: whoever dies writes nothing any more.
        Path(child.passed).touch()
        act()

    return pass_point


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
