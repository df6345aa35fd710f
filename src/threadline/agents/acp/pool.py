"""The processes of one agent: one for each person, started on demand and ended when idle."""

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
    """Return the name of a person's folder below that of each agent."""
    return hashlib.sha256(person.encode("utf-8", "surrogatepass")).hexdigest()[:_FOLDER_HEX]


class _Slot:
    """The place of one person's process, running or not."""

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
    """A process for each person. Two people never share one: a prompt can reach all that a process knows."""

    def __init__(self, config: AcpAgentConfig, limits: AcpLimits, folder: Path) -> None:
        """Create an empty pool; `folder` holds one folder for each person."""
        self._config = config
        self._limits = limits
        self._folder = folder
        self._slots: dict[str, _Slot] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: set[asyncio.Task[None]] = set()
        # One at a time: who looks for room must see what the others were given.
        self._giving_room = asyncio.Lock()
        self.tasks = Supervisor()

    async def acquire(self, person: str) -> AgentProcess:
        """Return the process of that person, started if there is none. Raises `AgentError` if there cannot be one."""
        self._settle_in()
        slot = self._slots.setdefault(person, _Slot())
        async with slot.starting:
            if slot.process is not None and not slot.process.is_closed:
                self._let_rest(slot)
                return slot.process
            if slot.process is not None:
                await slot.process.ended.wait()
                slot.process = None
            await self._back_off(slot)
            await self._evict_idle(slot)
            try:
                slot.process = process = await self._start(slot, person)
            finally:
                slot.has_room = False
            self.tasks.start("acp.watch", self._watch(person, slot, process))
            self._let_rest(slot)
            return process

    def reset_backoff(self, person: str) -> None:
        """Forget earlier crashes, since the process has answered, and restart its idle timer."""
        slot = self._slots.get(person)
        if slot is not None:
            slot.deaths = 0
            self._let_rest(slot)

    def folder_of(self, person: str) -> Path:
        """Return a private folder for what the agent creates for that person. A person's name is never used as a path."""
        folder = self._folder / folder_name(person)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    async def close(self) -> None:
        """End all processes, and everything they started."""
        slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            if slot.timer is not None:
                slot.timer.cancel()
        running = [slot.process for slot in slots if slot.process is not None]
        # Those that end already, too: what is not waited for here nobody waits for.
        await asyncio.gather(*(process.end() for process in running), *self._ends, return_exceptions=True)
        await self.tasks.stop()

    def _settle_in(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        # What belongs to a loop that is gone can't be ended in an orderly way any more.
        for slot in self._slots.values():
            if slot.process is not None:
                slot.process.kill()
        self._loop, self._slots, self.tasks = loop, {}, Supervisor()
        self._ends = set()
        self._giving_room = asyncio.Lock()

    async def _start(self, slot: _Slot, person: str) -> AgentProcess:
        try:
            folder = Path(self._config.cwd) if self._config.cwd is not None else self.folder_of(person)
        except OSError as cause:
            reason = cause.strerror or type(cause).__name__
            raise AgentError(texts.CANT_START.format(agent=self._config.name, reason=reason), is_owners=True) from cause
        if not folder.is_dir():
            raise AgentError(texts.NO_FOLDER.format(folder=folder), is_owners=True)
        try:
            return await start_process(self._config, self._limits, self.tasks, folder, self._end)
        except StartFailed:
            self._note_death(slot)
            raise

    async def _watch(self, person: str, slot: _Slot, process: AgentProcess) -> None:
        await process.ended.wait()
        if not process.is_ending:
            self._note_death(slot)
        if slot.process is process:
            slot.process = None
        if slot.timer is not None:
            slot.timer.cancel()
        if not slot.deaths and not slot.starting.locked() and self._slots.get(person) is slot:
            del self._slots[person]

    def _note_death(self, slot: _Slot) -> None:
        slot.deaths += 1
        # Once is an accident, and not waited for.
        rest = 0.0 if slot.deaths == 1 else self._limits.first_restart_pause * 2.0 ** min(slot.deaths - 2, 30)
        rest = min(rest, self._limits.longest_restart_pause)
        slot.rests_until = asyncio.get_running_loop().time() + rest

    async def _back_off(self, slot: _Slot) -> None:
        left = slot.rests_until - asyncio.get_running_loop().time()
        if left > _SHORT_REST:
            raise AgentError(
                texts.RESTING.format(agent=self._config.name, times=slot.deaths, seconds=round(left)), is_owners=True
            )
        if left > 0:
            await asyncio.sleep(left)

    async def _evict_idle(self, slot: _Slot) -> None:
        """Reserve room for a process; if there are too many, end an idle one."""
        async with self._giving_room:
            others = [one for one in self._slots.values() if one is not slot]
            running = [one.process for one in others if one.process is not None and not one.process.ended.is_set()]
            if len(running) + sum(one.has_room for one in others) >= self._limits.processes:
                idle = next((process for process in running if not process.is_busy), None)
                if idle is None:
                    raise AgentError(texts.TOO_MANY.format(agent=self._config.name, most=self._limits.processes))
                await idle.end()
            slot.has_room = True

    def _let_rest(self, slot: _Slot) -> None:
        """End the process after it has been idle for long."""
        if slot.timer is not None:
            slot.timer.cancel()
        slot.timer = asyncio.get_running_loop().call_later(self._limits.idle, self._look_whether_idle, slot)

    def _look_whether_idle(self, slot: _Slot) -> None:
        process = slot.process
        if process is None or process.is_closed:
            return
        if process.is_busy or slot.starting.locked():
            self._let_rest(slot)
            return
        log.info("acp.idle", agent=self._config.name)
        with suppress(RuntimeError):
            self._end(process)

    def _end(self, process: AgentProcess) -> None:
        """End a process in the background."""
        task = self.tasks.start("acp.end", process.end())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
