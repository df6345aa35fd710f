"""The processes of one agent: one for each person, started when it is needed, ended when it is not."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path

from threadline.agents.acp.process import AgentProcess, StartFailed, start_process
from threadline.agents.acp.settings import AcpAgentConfig, AcpLimits
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.ports.agent import AgentError
from threadline.texts import acp_agents as texts

log = get_logger(__name__)

# A process that rests no longer than this is waited for.
_SHORT_REST = 5.0
_FOLDER_HEX = 24


def folder_name(person: str) -> str:
    """What the folder of a person is called, below that of each agent."""
    return hashlib.sha256(person.encode("utf-8", "surrogatepass")).hexdigest()[:_FOLDER_HEX]


class _Slot:
    """Where the process of one person is, or will be."""

    def __init__(self) -> None:
        self.process: AgentProcess | None = None
        self.starting = asyncio.Lock()
        # Whether there will be a process soon: it has its room already.
        self.has_room = False
        # How often in a row it has ended by itself, and until when it rests.
        self.deaths = 0
        self.rests_until = 0.0
        self.timer: asyncio.TimerHandle | None = None


class ProcessPool:
    """Never two persons in one process: whoever can talk an agent into something reaches all that its process knows."""

    def __init__(self, wanted: AcpAgentConfig, limits: AcpLimits, folder: Path) -> None:
        """`folder`: where each person has a folder of their own."""
        self._wanted = wanted
        self._limits = limits
        self._folder = folder
        self._places: dict[str, _Slot] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: set[asyncio.Task[None]] = set()
        # One at a time: who looks for room must see what the others were given.
        self._giving_room = asyncio.Lock()
        self.tasks = Supervisor()

    async def of(self, person: str) -> AgentProcess:
        """The process of that person, started where there is none. `AgentError` says why there can't be one."""
        self._settle_in()
        place = self._places.setdefault(person, _Slot())
        async with place.starting:
            if place.process is not None and not place.process.is_over:
                self._let_rest(place)
                return place.process
            if place.process is not None:
                await place.process.ended.wait()
                place.process = None
            await self._rest(place)
            await self._make_room(place)
            try:
                place.process = process = await self._start(place, person)
            finally:
                place.has_room = False
            self.tasks.start("acp.watch", self._watch(person, place, process))
            self._let_rest(place)
            return process

    def was_well(self, person: str) -> None:
        """The process has answered: what it did before is forgiven. It rests when nobody needs it for a while."""
        place = self._places.get(person)
        if place is not None:
            place.deaths = 0
            self._let_rest(place)

    def folder_of(self, person: str) -> Path:
        """A folder for what the agent makes for that person, for their eyes alone. A stranger's name never is a path."""
        folder = self._folder / folder_name(person)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    async def close(self) -> None:
        """Ends all of them, and whatever they started."""
        places, self._places = list(self._places.values()), {}
        for place in places:
            if place.timer is not None:
                place.timer.cancel()
        running = [place.process for place in places if place.process is not None]
        # Those that end already, too: what is not waited for here nobody waits for.
        await asyncio.gather(*(process.end() for process in running), *self._ends, return_exceptions=True)
        await self.tasks.stop()

    def _settle_in(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        # What belongs to a loop that is gone can't be ended in an orderly way any more.
        for place in self._places.values():
            if place.process is not None:
                place.process.kill()
        self._loop, self._places, self.tasks = loop, {}, Supervisor()
        self._ends = set()
        self._giving_room = asyncio.Lock()

    async def _start(self, place: _Slot, person: str) -> AgentProcess:
        try:
            folder = Path(self._wanted.cwd) if self._wanted.cwd is not None else self.folder_of(person)
        except OSError as cause:
            reason = cause.strerror or type(cause).__name__
            raise AgentError(texts.CANT_START.format(agent=self._wanted.name, reason=reason), is_owners=True) from cause
        if not folder.is_dir():
            raise AgentError(texts.NO_FOLDER.format(folder=folder), is_owners=True)
        try:
            return await start_process(self._wanted, self._limits, self.tasks, folder, self._end)
        except StartFailed:
            self._note_death(place)
            raise

    async def _watch(self, person: str, place: _Slot, process: AgentProcess) -> None:
        await process.ended.wait()
        if not process.is_ending:
            self._note_death(place)
        if place.process is process:
            place.process = None
        if place.timer is not None:
            place.timer.cancel()
        if not place.deaths and not place.starting.locked() and self._places.get(person) is place:
            del self._places[person]

    def _note_death(self, place: _Slot) -> None:
        place.deaths += 1
        # Once is an accident, and not waited for.
        rest = 0.0 if place.deaths == 1 else self._limits.first_rest * 2.0 ** min(place.deaths - 2, 30)
        rest = min(rest, self._limits.longest_rest)
        place.rests_until = asyncio.get_running_loop().time() + rest

    async def _rest(self, place: _Slot) -> None:
        left = place.rests_until - asyncio.get_running_loop().time()
        if left > _SHORT_REST:
            raise AgentError(
                texts.RESTING.format(agent=self._wanted.name, times=place.deaths, seconds=round(left)), is_owners=True
            )
        if left > 0:
            await asyncio.sleep(left)

    async def _make_room(self, place: _Slot) -> None:
        """Gives that place room for a process; where there are too many, one that nobody needs just now is ended for it."""
        async with self._giving_room:
            others = [one for one in self._places.values() if one is not place]
            running = [one.process for one in others if one.process is not None and not one.process.ended.is_set()]
            if len(running) + sum(one.has_room for one in others) >= self._limits.processes:
                idle = next((process for process in running if not process.is_busy), None)
                if idle is None:
                    raise AgentError(texts.TOO_MANY.format(agent=self._wanted.name, most=self._limits.processes))
                await idle.end()
            place.has_room = True

    def _let_rest(self, place: _Slot) -> None:
        """Ends the process once nobody has needed it for long."""
        if place.timer is not None:
            place.timer.cancel()
        place.timer = asyncio.get_running_loop().call_later(self._limits.idle, self._look_whether_idle, place)

    def _look_whether_idle(self, place: _Slot) -> None:
        process = place.process
        if process is None or process.is_over:
            return
        if process.is_busy or place.starting.locked():
            self._let_rest(place)
            return
        log.info("acp.idle", agent=self._wanted.name)
        with suppress(RuntimeError):
            self._end(process)

    def _end(self, process: AgentProcess) -> None:
        """Ends a process behind everybody's back."""
        task = self.tasks.start("acp.end", process.end())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
