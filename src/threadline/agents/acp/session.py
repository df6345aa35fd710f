"""The agent's session for a turn: resumed, loaded or new, with its mode and model set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from threadline.agents.acp.process import AgentProcess, AgentSession, error_for_log, error_text
from threadline.agents.acp.prompt_content import (
    NAME_CHARS,
    SavedSession,
    digest_history,
    is_same_history,
    parse_state,
    preamble,
    transcript_text,
    unseen_messages,
)
from threadline.log import get_logger
from threadline.model.safe_text import safe_line
from threadline.ports.agent import AgentError, McpServer, Turn
from threadline.rpc import acp
from threadline.rpc.connection import AUTH_REQUIRED, INTERNAL, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND, RpcError
from threadline.texts import acp_agents as texts

log = get_logger(__name__)

What: TypeAlias = Literal["mode", "model"]

T = TypeVar("T")
Servers: TypeAlias = tuple[acp.McpServer, ...]

# Agents do not agree on what says that a session is gone.
_MAYBE_GONE = frozenset({NOT_FOUND, INVALID_PARAMS, INTERNAL})
# Some say that they can take sessions up, and have no such method.
_GONE = _MAYBE_GONE | {METHOD_NOT_FOUND}
_SERVERS = 10
_SERVER_CHARS = 60


class SelectOption(msgspec.Struct, frozen=True):
    """A choice of the agent: current value and all values by name. `option`: its id, if it is a config option."""

    current: str
    values: tuple[tuple[str, str], ...]
    option: str | None = None

    def find(self, name: str) -> str | None:
        """Return the value with that name, ignoring case."""
        folded = name.casefold()
        named = (value for value, shown in self.values if folded in (value.casefold(), shown.casefold()))
        return name if any(value == name for value, _ in self.values) else next(named, None)


def find_option(session: AgentSession, what: What) -> SelectOption | None:
    """Return the choice of mode or model: from a config option if there is one, else from the older lists."""
    for option in session.options:
        if isinstance(option, acp.ConfigSelect) and option.category == what:
            values = tuple((one.value, one.name) for one in option.choices if one.value is not None)
            return SelectOption(option.current_value, values, option.id)
    if what == "mode" and session.modes is not None:
        modes = session.modes
        return SelectOption(modes.current_mode_id, tuple((one.id, one.name) for one in modes.available_modes))
    if what == "model" and session.models is not None:
        models = session.models
        return SelectOption(models.current_model_id, tuple((one.model_id, one.name) for one in models.available_models))
    return None


async def choose_mode(process: AgentProcess, session: AgentSession) -> str | None:
    """Set the mode that the owner configured. Return a notice for people if the agent lacks it."""
    mode = process.config.mode
    if mode is None or await _choose(process, session, "mode", mode):
        return None
    return texts.NO_MODE.format(mode=safe_line(mode, 60))


async def choose_model(process: AgentProcess, session: AgentSession, chosen: str | None) -> str | None:
    """Set the model chosen in the chat, else the owner's, else the agent's own. Raises `AgentError` if the agent lacks it.

    Returns a notice for people if a resumed agent cannot be given the model any more.
    """
    choice = find_option(session, "model")
    if session.own_model is None and choice is not None:
        session.own_model = choice.current
    model = chosen or process.config.model
    if model is None:
        # Its own may have gone since, or never have stood in its list: then it goes on with what it has.
        if session.own_model is not None and choice is not None:
            await _choose(process, session, "model", session.own_model)
        return None
    if await _choose(process, session, "model", model):
        return None
    if choice is None and not session.is_new:
        return texts.SAME_MODEL.format(model=safe_line(model, 100))
    told = texts.NO_MODEL if chosen is None else texts.NO_CHOSEN_MODEL
    raise AgentError(told.format(agent=process.config.name, model=safe_line(model, 100)), is_owners=chosen is None)


async def _choose(process: AgentProcess, session: AgentSession, what: What, name: str) -> bool:
    """Return whether the value is set now, as far as is known."""
    choice = find_option(session, what)
    if choice is None:
        return not session.is_new and await _choose_blindly(process, session, what, name)
    value = name if name == choice.current else choice.find(name)
    if value is None or value == choice.current:
        return value is not None
    return await _is_set(process, what, _set(process, session, what, choice, value))


async def _choose_blindly(process: AgentProcess, session: AgentSession, what: What, name: str) -> bool:
    """Set a value of an agent that has not listed its choices: many list them for new sessions only.

    It is tried once. False: the agent refused, which is reported once, too.
    """
    if session.tried.get(what) == name:
        return True
    session.tried[what] = name
    return await _is_set(process, what, _set_by_name(process, session, what, name))


async def _is_set(process: AgentProcess, what: What, setting: Coroutine[Any, Any, None]) -> bool:
    try:
        await setting
    except (RpcError, TimeoutError) as cause:
        log.warning("acp.not_chosen", agent=process.config.name, what=what, error=error_for_log(cause))
        return False
    return True


async def _set(process: AgentProcess, session: AgentSession, what: What, choice: SelectOption, value: str) -> None:
    name = session.session_id
    if choice.option is not None:
        request = acp.SetConfigOptionRequest(session_id=name, config_id=choice.option, value=value)
        answer = await process.request("session/set_config_option", request, acp.SetConfigOptionResponse)
        # Some answer with nothing, though it should be all options.
        session.options = answer.config_options or _replaced(session.options, choice.option, value)
        return
    await _set_by_name(process, session, what, value)
    if what == "mode" and session.modes is not None:
        session.modes = msgspec.structs.replace(session.modes, current_mode_id=value)
    elif what == "model" and session.models is not None:
        session.models = msgspec.structs.replace(session.models, current_model_id=value)


async def _set_by_name(process: AgentProcess, session: AgentSession, what: What, value: str) -> None:
    """Set the value with the older methods."""
    name = session.session_id
    if what == "mode":
        await process.request("session/set_mode", acp.SetModeRequest(session_id=name, mode_id=value), acp.Empty)
    else:
        await process.request("session/set_model", acp.SetModelRequest(session_id=name, model_id=value), acp.Empty)


def _replaced(options: tuple[acp.ConfigOption, ...], option_id: str, value: str) -> tuple[acp.ConfigOption, ...]:
    return tuple(
        msgspec.structs.replace(one, current_value=value)
        if isinstance(one, acp.ConfigSelect) and one.id == option_id
        else one
        for one in options
    )


class OpenedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The open session, the state to save, notices for people, and blocks to put before the prompt."""

    session: AgentSession
    memory: SavedSession
    notices: tuple[str, ...] = ()
    before: tuple[acp.ContentBlock, ...] = ()


async def open_session(process: AgentProcess, turn: Turn, cwd: str) -> OpenedSession:
    """Return a session that is ready to be prompted. Raises `AgentError` if there is none."""
    try:
        return await _SessionOpener(process, turn, cwd).open()
    except RpcError as cause:
        if cause.code == AUTH_REQUIRED:
            raise process.login_required_error() from cause
        told = texts.REFUSED.format(agent=process.config.name, reason=error_text(cause))
        raise AgentError(told, is_owners=True) from cause
    except TimeoutError as cause:
        raise AgentError(texts.SILENT.format(agent=process.config.name, seconds=round(process.limits.call))) from cause


class _SessionOpener:
    def __init__(self, process: AgentProcess, turn: Turn, cwd: str) -> None:
        self._process = process
        self._turn = turn
        self._cwd = cwd
        self._before = parse_state(turn.remembered)
        self._history = digest_history(turn.history, self._before)
        place = turn.workplace
        self._directories = () if place is None else place.directories
        self._named = () if place is None else place.mcp_servers
        self._servers = _servers(self._named, process.can.mcp_capabilities)
        # The servers that the session was opened with; `None`: it was open.
        self._given: Servers | None = None

    async def open(self) -> OpenedSession:
        before, turn = self._before, self._turn
        session: AgentSession | None = None
        blocks: list[acp.ContentBlock | None] = []
        notices: list[str | None] = []
        if before is not None and self._is_ours(before):
            session = await self._resume(before)
            blocks = [transcript_text(texts.MEANWHILE, unseen_messages(before, turn.history))]
        if session is None:
            session = await self._new()
            blocks = [
                preamble(self._process.config.system_prompt, turn),
                transcript_text(texts.BEFORE, turn.history),
            ]
            notices = [self._reason_for_new(before)]
        notices.append(self._why_without())
        notices.append(await choose_mode(self._process, session))
        notices.append(await choose_model(self._process, session, turn.session.chosen_model))
        return OpenedSession(
            session=session,
            memory=SavedSession(
                agent=session.session_id,
                of=self._process.config.digest,
                session=turn.session.session_id,
                seen=self._history.count,
                digest=self._history.whole,
                own_model=(session.own_model or "")[:NAME_CHARS],
            ),
            notices=tuple(notice for notice in notices if notice),
            before=tuple(block for block in blocks if block is not None),
        )

    def _is_ours(self, before: SavedSession) -> bool:
        """Return whether the agent's session is this very conversation. A fork shares the saved state, but not the session."""
        ours = (self._process.config.digest, self._turn.session.session_id)
        return (before.of, before.session) == ours and is_same_history(before, self._history)

    def _reason_for_new(self, before: SavedSession | None) -> str | None:
        if not self._turn.history:
            return None
        if before is None or before.session != self._turn.session.session_id:
            return texts.ANEW
        return texts.GONE if self._is_ours(before) or before.of != self._process.config.digest else texts.CHANGED

    def _why_without(self) -> str | None:
        """Return a notice of the MCP servers that the session lacks, once: when it is opened."""
        if self._given is None:
            return None
        given = {one.name for one in self._given}
        missing = [safe_line(one.name, _SERVER_CHARS) for one in self._named if one.name not in given]
        if not missing:
            return None
        log.warning("acp.without_servers", agent=self._process.config.name, servers=len(missing))
        return texts.NO_SERVERS.format(names=", ".join(missing[:_SERVERS]))

    async def _resume(self, before: SavedSession) -> AgentSession | None:
        """Return the session that this process has open, or that the agent can resume or load; None if there is none."""
        known = self._process.sessions.get(before.agent)
        if known is not None:
            await self._settled(known)
            return known
        can = self._process.can
        found: AgentSession | None = None
        if can.session_capabilities.resume is not None:
            found = await self._try_load(
                before, "session/resume", acp.ResumeSessionRequest, is_last=not can.load_session
            )
        if found is None and can.load_session:
            found = await self._try_load(before, "session/load", acp.LoadSessionRequest, is_last=True)
            if found is not None:
                await self._replayed(found)
        if found is not None:
            found.is_replayed = False
            self._process.failed.discard(before.agent)
        return found

    async def _replayed(self, session: AgentSession) -> None:
        """Wait until the agent has replayed the history: some answer first and replay it then."""
        limits = self._process.limits
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.call):
                heard = -1
                while heard != session.replayed_updates:
                    heard = session.replayed_updates
                    await asyncio.sleep(limits.history_idle_seconds)

    async def _settled(self, session: AgentSession) -> None:
        """Cancel the prompt that still runs in the session, and wait for its end."""
        prompt_run = session.prompt_run
        if prompt_run is None or prompt_run.is_over:
            return
        prompt_run.cancel()
        try:
            async with asyncio.timeout(self._process.limits.cancel * 2):
                await prompt_run.over()
        except TimeoutError:
            raise AgentError(texts.BUSY.format(agent=self._process.config.name)) from None
        if self._process.is_closed:
            raise AgentError(texts.BUSY.format(agent=self._process.config.name))

    async def _try_load(
        self, before: SavedSession, method: str, shape: type[acp.SessionInFolder], *, is_last: bool
    ) -> AgentSession | None:
        """Return the session that this method opens; None: try another method. `is_last`: only a new session is left."""
        name = before.agent
        session = AgentSession(name, is_new=False)
        session.own_model = before.own_model or None
        # What an agent says while it loads is what is known here already.
        session.is_replayed = True
        self._process.sessions[name] = session

        async def asked(servers: Servers) -> acp.SessionState:
            request = shape(session_id=name, cwd=self._cwd, mcp_servers=servers, additional_directories=self._also())
            return await self._process.request(method, request, acp.SessionState)

        try:
            session.set_options(await self._signed_in(lambda: self._with_fewer_servers(asked)))
        except (RpcError, TimeoutError, AgentError) as cause:
            del self._process.sessions[name]
            if not self._is_to_go_on(name, cause, is_last=is_last):
                raise
            log.info("acp.session_gone", agent=self._process.config.name, method=method, error=error_for_log(cause))
            return None
        except BaseException:
            del self._process.sessions[name]
            raise
        return session

    def _is_to_go_on(self, name: str, cause: Exception, *, is_last: bool) -> bool:
        """Return whether the next method is tried after this error.

        A new session knows less than the old one: one that may still exist is asked for in two turns.
        """
        if self._process.is_closed or (isinstance(cause, RpcError) and cause.code == AUTH_REQUIRED):
            return False
        if not is_last or (isinstance(cause, RpcError) and cause.code in _GONE):
            return True
        failed = self._process.failed
        if name in failed:
            failed.remove(name)
            return True
        failed.add(name)
        return False

    async def _new(self) -> AgentSession:
        async def asked(servers: Servers) -> acp.NewSessionResponse:
            request = acp.NewSessionRequest(cwd=self._cwd, mcp_servers=servers, additional_directories=self._also())
            return await self._process.request("session/new", request, acp.NewSessionResponse)

        answer = await self._signed_in(lambda: self._with_fewer_servers(asked))
        name = answer.session_id
        if name in self._process.sessions or not 0 < len(name) <= NAME_CHARS:
            raise AgentError(texts.TWICE.format(agent=self._process.config.name))
        session = self._process.sessions[name] = AgentSession(name, is_new=True)
        session.set_options(answer)
        return session

    async def _signed_in(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except RpcError as cause:
            if cause.code != AUTH_REQUIRED:
                raise
        await self._process.sign_in()
        return await ask()

    async def _with_fewer_servers(self, ask: Callable[[Servers], Awaitable[T]]) -> T:
        """Open it with the editor's MCP servers, and if the agent refuses those, without."""
        self._given = self._servers
        try:
            return await ask(self._servers)
        except RpcError as cause:
            if not self._servers or cause.code not in _MAYBE_GONE:
                raise
            log.warning("acp.servers_refused", agent=self._process.config.name, error=error_for_log(cause))
        self._given = ()
        return await ask(())

    def _also(self) -> tuple[str, ...]:
        can = self._process.can.session_capabilities.additional_directories
        return () if can is None else self._directories


def working_directory(turn: Turn, configured: str | None, own: Callable[[], Path]) -> str:
    """Return where a turn works: as its editor, its session or the owner says, or else in the person's own folder."""
    place = turn.workplace
    named = (None if place is None else place.cwd) or turn.session.cwd or configured
    folder = Path(named) if named else own()
    if not folder.is_absolute() or not folder.is_dir():
        raise AgentError(texts.NO_FOLDER.format(folder=folder))
    return str(folder)


def _servers(given: tuple[McpServer, ...], can: acp.McpCapabilities) -> Servers:
    """Return the editor's MCP servers that the agent can reach."""
    reached = {"stdio": True, "http": can.http, "sse": can.sse}
    return tuple(_server(one) for one in given if reached[one.kind])


def _server(one: McpServer) -> acp.McpServer:
    pairs = tuple(acp.NameValue(name=name, value=value) for name, value in one.pairs)
    if one.kind == "stdio":
        return acp.stdio_server(one.name, one.command, one.args, pairs)
    return acp.remote_server(one.name, one.kind, one.url, pairs)
