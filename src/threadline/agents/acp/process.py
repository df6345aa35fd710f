"""One agent process of one person: handshake, sessions, and the filter for output that is not a message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from threadline.agents.acp.child import ChildProcess, spawn
from threadline.agents.acp.prompt_run import PromptRun
from threadline.agents.acp.settings import AcpAgentConfig, AcpLimits
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model.access import Role
from threadline.model.safe_text import safe_line
from threadline.ports.agent import AgentError
from threadline.rpc import acp
from threadline.rpc.connection import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Connection,
    ConnectionEnded,
    Request,
    RpcError,
)
from threadline.rpc.envelope import PARSE_ERROR, InvalidLine, parse
from threadline.rpc.lines import LineReader, LineTooLong
from threadline.texts import acp_agents as texts

log = get_logger(__name__)

T = TypeVar("T", bound=acp.AcpStruct)

_NOT_SERVED = "This client has no such method. It advertises no files, no terminals and no forms."
_REASON_CHARS = 200
_WAYS = 10
# So many messages of no use an agent may send with each that is of use: its helpers may have much to tell that is not for us.
_MADE_UP_FOR = 100


class MessageLines:
    """The lines that are messages. After `most` other lines in a row, the input counts as ended."""

    def __init__(self, lines: LineReader, most: int, name: str) -> None:
        self._lines = lines
        self._most = most
        self._name = name
        self._in_a_row = 0
        self.skipped = 0

    async def next(self) -> bytes | None:
        """Return the next message; None at the end."""
        while self._in_a_row < self._most:
            try:
                line = await self._lines.next()
            except LineTooLong:
                self._skip()
                continue
            if line is None:
                return None
            if _is_message(line):
                self._in_a_row = 0
                return line
            if line.strip():
                self._skip()
        log.warning("acp.noise", agent=self._name, lines=self.skipped)
        return None

    def _skip(self) -> None:
        self._in_a_row += 1
        self.skipped += 1


def _is_message(line: bytes) -> bool:
    """Return whether the line is a readable object. The connection reports anything else that is wrong with it."""
    if not line.lstrip().startswith(b"{"):
        return False
    read = parse(line)
    return not (isinstance(read, InvalidLine) and read.code == PARSE_ERROR)


class StartFailed(AgentError):
    """The process ended, or failed, before the handshake was complete."""


class AgentSession:
    """A session of the agent in this process, and what is known of it."""

    def __init__(self, session_id: str, *, is_new: bool) -> None:
        self.session_id = session_id
        self.is_new = is_new
        # What is told of it is what we know already; how much of that came.
        self.is_replayed = False
        self.replayed_updates = 0
        self.prompt_run: PromptRun | None = None
        self.options: tuple[acp.ConfigOption, ...] = ()
        self.modes: acp.ModeState | None = None
        self.models: acp.ModelState | None = None
        # What it used of its own accord, before anybody chose.
        self.own_model: str | None = None
        # What was chosen without knowing what there is.
        self.tried: dict[str, str] = {}
        self.title: str | None = None
        self.window: acp.UsageUpdate | None = None
        # What it had cost when the turn began; unknown of one that was taken up.
        self.paid: float | None = 0.0 if is_new else None

    @property
    def is_prompted(self) -> bool:
        """Return whether a prompt runs in it, or waits for an answer."""
        return self.prompt_run is not None and not self.prompt_run.is_over

    def set_options(self, state: acp.SessionState) -> None:
        """Store the modes, models and options that the agent reports."""
        self.options, self.modes, self.models = state.config_options or (), state.modes, state.models

    def on_update(self, update: acp.Update) -> None:
        """Process an update of this session."""
        if self.is_replayed:
            self.replayed_updates += 1
            return
        match update:
            case acp.ConfigOptionUpdate():
                self.options = update.config_options
            case acp.CurrentModeUpdate() if self.modes is not None:
                self.modes = msgspec.structs.replace(self.modes, current_mode_id=update.current_mode_id)
            case acp.SessionInfoUpdate(title=str(title)):
                self.title = title
            case acp.UsageUpdate():
                self.window = update
        if self.prompt_run is not None:
            self.prompt_run.take(update)


class AgentProcess:
    """A process that speaks the protocol. It works for one person."""

    def __init__(self, config: AcpAgentConfig, limits: AcpLimits, child: ChildProcess, tasks: Supervisor) -> None:
        self.config = config
        self.limits = limits
        self.sessions: dict[str, AgentSession] = {}
        self.can = acp.AgentCapabilities()
        # Turns that are about to prompt it.
        self.users = 0
        # The sessions that could not be taken up when they were last asked for, for reasons that need not last.
        self.failed: set[str] = set()
        # What came and was of no use, less what the good among it makes up for: updates of no session of this process or
        # of no turn, and what is not served.
        self.stray_messages = 0
        # Whether nothing more can be asked of it, and whether it was we who ended it.
        self.is_closed = False
        self.is_ending = False
        self.ended = asyncio.Event()
        self._methods: tuple[acp.AuthMethod, ...] = ()
        self._child = child
        self._tasks = tasks
        lines = MessageLines(child.lines, limits.max_noise_lines, config.name)
        self._connection = Connection(
            lines,
            child.sink,
            on_request=self._serve,
            on_notification=self._hear,
            start=tasks.start,
            name=config.name,
            on_stray=self._stray,
        )
        tasks.start("acp.stderr", child.log_stderr())
        tasks.start("acp.connection", self._run())
        tasks.start("acp.exit", self._see_off())

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt runs, or waits for an answer."""
        return self.users > 0 or any(session.is_prompted for session in self.sessions.values())

    async def initialize(self) -> None:
        """Perform the handshake, and sign in if the owner configured how. Raises `AgentError` on failure."""
        name = self.config.name
        ours = acp.InitializeRequest(
            protocol_version=acp.PROTOCOL_VERSION,
            client_info=acp.Implementation(name="threadline", title="Threadline", version="1"),
        )
        try:
            answer = await self.request("initialize", ours, acp.InitializeResponse, seconds=self.limits.start)
        except TimeoutError:
            raise StartFailed(texts.MUTE.format(agent=name, seconds=round(self.limits.start)), is_owners=True) from None
        except RpcError as cause:
            raise StartFailed(texts.CANT_START.format(agent=name, reason=error_text(cause)), is_owners=True) from cause
        except AgentError as cause:
            raise StartFailed(texts.CANT_START.format(agent=name, reason=texts.AT_ONCE), is_owners=True) from cause
        if answer.protocol_version != acp.PROTOCOL_VERSION:
            raise StartFailed(texts.OTHER_VERSION.format(agent=name, version=answer.protocol_version), is_owners=True)
        self.can, self._methods = answer.agent_capabilities, answer.auth_methods
        if self.config.auth_method is not None:
            await self._authenticate(self._configured(self.config.auth_method))

    async def sign_in(self) -> None:
        """Sign in by the configured key, or by the only method that needs no person. Otherwise raise `AgentError`: what to do."""
        own = [method.id for method in self._methods if method.type is None]
        key = self.config.key_method
        if key is not None and key in own:
            await self._authenticate(key)
        elif len(own) == 1 and self.config.auth_method is None:
            await self._authenticate(own[0])
        else:
            raise self.login_required_error()

    def login_required_error(self) -> AgentError:
        """Return the error that says how the owner signs in."""
        login = self.config.login
        if self.config.auth_method is None and (own := self._ways()):
            login += texts.WAYS_IN.format(known=own)
        return AgentError(texts.SIGN_IN.format(agent=self.config.name, login=login), is_owners=True)

    async def request(self, method: str, params: object, result: type[T], *, seconds: float | None = None) -> T:
        """Return the agent's answer. Raises `RpcError` as it came, `TimeoutError`, or `AgentError` if the agent has ended."""
        wait = self.limits.call if seconds is None else seconds
        try:
            return acp.decode(await self._connection.request(method, params, timeout=wait), result)
        except ConnectionEnded as cause:
            raise self.ended_error() from cause
        except acp.InvalidParams as cause:
            raise AgentError(texts.FAULT.format(agent=self.config.name, reason=str(cause).rstrip("."))) from cause

    def prompt(
        self, session: AgentSession, blocks: tuple[acp.ContentBlock, ...], role: Role, *, is_shared: bool
    ) -> PromptRun:
        """Send a prompt, and return its run. `role` is the least role of the people who prompt."""
        prompt_run = PromptRun(
            self.config,
            self.limits,
            role,
            is_shared,
            self._tasks.start,
            lambda: self._connection.notify("session/cancel", acp.CancelNotification(session_id=session.session_id)),
            self.end,
        )
        session.prompt_run = prompt_run
        request = acp.PromptRequest(session_id=session.session_id, prompt=blocks)
        self._tasks.start("acp.prompt", self._see_through(prompt_run, request))
        return prompt_run

    async def end(self) -> None:
        """End the process and everything it started. Waiting callers get an error."""
        self.is_closed = self.is_ending = True
        self._connection.close()
        await self._child.end(self.limits.end)
        await self.ended.wait()

    def kill(self) -> None:
        """Kill the process without waiting: its event loop is gone."""
        self._child.kill()

    def ended_error(self) -> AgentError:
        """Mark the process as closed, and return the error for waiting callers."""
        self.is_closed = True
        return AgentError(texts.ENDED.format(agent=self.config.name))

    async def _run(self) -> None:
        try:
            await self._connection.run()
        finally:
            self.is_closed = True
            is_death = not self.is_ending
            # It may have closed its output and live on, or have left others behind.
            await self._child.end(self.limits.end)
            self.ended.set()
            if is_death:
                log.warning(
                    "acp.ended", agent=self.config.name, code=self._child.code, last_words=self._child.last_error_line
                )

    async def _see_off(self) -> None:
        """Close the connection once the program has ended: a child of it may keep its output open."""
        await self._child.wait()
        # What it had written is read meanwhile.
        await asyncio.sleep(self.limits.end)
        self._connection.close()

    async def _see_through(self, prompt_run: PromptRun, request: acp.PromptRequest) -> None:
        try:
            raw = await self._connection.request("session/prompt", request)
            prompt_run.end(acp.decode(raw, acp.PromptResponse))
        except ConnectionEnded:
            prompt_run.fail(self.ended_error())
        except RpcError as cause:
            is_signed_out = cause.code == AUTH_REQUIRED
            fault = AgentError(texts.FAULT.format(agent=self.config.name, reason=error_text(cause)))
            prompt_run.fail(self.login_required_error() if is_signed_out else fault)
        except acp.InvalidParams as cause:
            prompt_run.fail(AgentError(texts.FAULT.format(agent=self.config.name, reason=str(cause).rstrip("."))))
        finally:
            # The gateway may stop, and this with it, before anything was answered.
            if not prompt_run.is_over:
                prompt_run.fail(self.ended_error())

    def _serve(self, request: Request) -> Awaitable[object]:
        if request.method != "session/request_permission":
            self._stray()
            raise RpcError(METHOD_NOT_FOUND, _NOT_SERVED)
        try:
            params = acp.decode(request.params, acp.RequestPermissionRequest)
        except acp.InvalidParams as cause:
            self._stray()
            raise RpcError(INVALID_PARAMS, str(cause)) from cause
        session = self.sessions.get(params.session_id)
        if session is None or session.prompt_run is None:
            self._stray()
            return _cancelled()
        return session.prompt_run.ask(params)

    def _hear(self, method: str, params: msgspec.Raw) -> None:
        try:
            told = acp.decode_params(method, params) if method == "session/update" else None
        except acp.InvalidParams:
            told = None
        if not isinstance(told, acp.SessionNotification):
            self._stray()
            return
        session = self.sessions.get(told.session_id)
        if session is None or not (session.is_replayed or session.is_prompted):
            self._stray()
        else:
            self.stray_messages = max(0, self.stray_messages - _MADE_UP_FOR)
        if session is not None:
            session.on_update(told.update)

    def _stray(self) -> None:
        self.stray_messages += 1
        if self.stray_messages >= self.limits.max_stray_messages and not self.is_ending:
            self.is_closed = self.is_ending = True
            log.warning("acp.flooded", agent=self.config.name, messages=self.stray_messages)
            self._tasks.start("acp.end", self.end())

    def _configured(self, method: str) -> str:
        name = self.config.name
        found = next((one for one in self._methods if one.id == method), None)
        if found is None:
            known = self._ways() or texts.NO_WAY
            raise AgentError(texts.NO_METHOD.format(agent=name, method=method, known=known), is_owners=True)
        if found.type is not None:
            told = texts.IN_A_TERMINAL.format(agent=name, method=method, login=self.config.login)
            raise AgentError(told, is_owners=True)
        return method

    def _ways(self) -> str:
        """Return the sign-in methods that need no terminal."""
        own = [method.id for method in self._methods if method.type is None]
        return ", ".join(safe_line(one, 60) for one in own[:_WAYS])

    async def _authenticate(self, method: str) -> None:
        try:
            await self.request("authenticate", acp.AuthenticateRequest(method_id=method), acp.Empty)
        except (RpcError, TimeoutError) as cause:
            told = texts.NOT_SIGNED_IN.format(agent=self.config.name, method=method, login=self.config.login)
            raise AgentError(told, is_owners=True) from cause


async def start_process(
    config: AcpAgentConfig, limits: AcpLimits, tasks: Supervisor, folder: Path, end: Callable[[AgentProcess], None]
) -> AgentProcess:
    """Start a process and perform the handshake. Raises `AgentError` on failure; `end` ends a process that failed."""
    try:
        child = await spawn(config.name, config.command, config.env, folder)
    except OSError as cause:
        reason = cause.strerror or type(cause).__name__
        raise StartFailed(texts.CANT_START.format(agent=config.name, reason=reason), is_owners=True) from cause
    process = AgentProcess(config, limits, child, tasks)
    try:
        await process.initialize()
    except BaseException:
        log.warning("acp.not_started", agent=config.name, code=child.code, last_words=child.last_error_line)
        end(process)
        raise
    return process


def error_for_log(error: Exception) -> str:
    """Return an agent's error as the log may hold it: bounded and on one line, since the agent chose the text."""
    if not isinstance(error, RpcError):
        return safe_line(repr(error), _REASON_CHARS)
    return f"{error.code}: {error_text(error)}"


def error_text(error: RpcError) -> str:
    """Return an agent's error as a chat may show it."""
    return safe_line(str(error), _REASON_CHARS).rstrip(".") or texts.NO_REASON


async def _cancelled() -> acp.RequestPermissionResponse:
    return acp.RequestPermissionResponse(outcome=acp.Cancelled())
