"""The session methods of the protocol: create, open, list, close and delete sessions, and set their options."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping

from threadline.acp.open_session import OpenSession
from threadline.acp.platform import GatewayBridge, OpenSessions
from threadline.acp.replay import HistoryReplay
from threadline.acp.sessions import AsyncSessionManager, EditorSession, source_of
from threadline.acp.translate import CallIds, iso_time
from threadline.errors import InvalidRequest, UnknownSession
from threadline.gateway.command_table import OFFERED, TABLE
from threadline.model.safe_text import safe_line
from threadline.model.session import SessionEntry
from threadline.ports import agent
from threadline.ports.agent import ChoosesModel, Workplace
from threadline.rpc.acp import (
    AvailableCommand,
    AvailableCommandsUpdate,
    CloseSessionRequest,
    CommandInput,
    ConfigChoice,
    ConfigOption,
    ConfigOptionUpdate,
    ConfigSelect,
    CurrentModeUpdate,
    DeleteSessionRequest,
    Empty,
    ForkSessionRequest,
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpServer,
    Mode,
    ModeState,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionInfo,
    SessionInfoUpdate,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetModeRequest,
)
from threadline.rpc.connection import Connection, Start
from threadline.store.work.change_feed import ConversationSnapshot
from threadline.texts import editors as texts

_NAME_CHARS = 80
# How long a deletion waits for the turn that it stops.
_LAST_SECONDS = 10.0
ASK = "ask"
MODE_OPTION = "mode"
MODEL_OPTION = "model"
# The value of the option for the agent's default model.
OWN_MODEL = "default"
# An editor has its own ways for these: a button that stops, a list of sessions, a window that asks.
_NOT_HERE = frozenset({"start", "stop", "approve", "deny", "queue", "sethome", "handoff", "whoami"})


class SessionCalls:
    """Handles session requests. An unknown id raises `UnknownSession`, an invalid choice raises `InvalidRequest`."""

    def __init__(
        self,
        bridge: GatewayBridge,
        sessions: AsyncSessionManager,
        open_sessions: OpenSessions,
        connection: Connection,
        start: Start,
        user: str,
    ) -> None:
        self._bridge = bridge
        self._sessions = sessions
        self._open_sessions = open_sessions
        self._start = start
        self._user = user
        self._history_replay = HistoryReplay(bridge, connection.drain, open_sessions)

    async def new(self, params: NewSessionRequest) -> NewSessionResponse:
        """Create a session. It is stored before the answer, and its updates follow the answer."""
        workspace = read_workspace(params.cwd, params.additional_directories, params.mcp_servers)
        await self._bridge.agents_ready()
        session = await self._sessions.create_session(params.cwd)
        open_session = await self._open_here(session, workspace)
        # A new session has no calls yet.
        open_session.adopt_call_ids(CallIds())
        self._announce_later(open_session)
        return NewSessionResponse(
            session_id=session.session_id,
            modes=mode_state(open_session.mode),
            config_options=open_session.options,
        )

    async def load(self, params: LoadSessionRequest) -> LoadSessionResponse:
        """Open a session, send its whole history, then answer."""
        open_session = await self._open(params)
        async with open_session.lock:
            snapshot = await self._history_replay.replay(open_session)
        _call_by_first_words(open_session, snapshot)
        self._announce_later(open_session, is_named=True)
        return LoadSessionResponse(modes=mode_state(open_session.mode), config_options=open_session.options)

    async def resume(self, params: ResumeSessionRequest) -> ResumeSessionResponse:
        """Open a session without sending its history."""
        open_session = await self._open(params)
        await self._name(open_session)
        self._announce_later(open_session, is_named=True)
        return ResumeSessionResponse(modes=mode_state(open_session.mode), config_options=open_session.options)

    async def fork(self, params: ForkSessionRequest) -> ForkSessionResponse:
        """Create a session with the history of another one, without sending that history."""
        workspace = read_workspace(params.cwd, params.additional_directories, params.mcp_servers)
        await self._bridge.agents_ready()
        session = _known(await self._sessions.fork_session(params.session_id, params.cwd))
        open_session = await self._open_here(session, workspace)
        await self._name(open_session)
        self._announce_later(open_session, is_named=True)
        return ForkSessionResponse(
            session_id=session.session_id,
            modes=mode_state(open_session.mode),
            config_options=open_session.options,
        )

    async def list(self, params: ListSessionsRequest) -> ListSessionsResponse:
        """Return a page of all sessions, or of the sessions in one folder."""
        if params.cwd is not None:
            check_path(params.cwd, texts.CWD_NOT_ABSOLUTE)
        page = await self._sessions.list_sessions(params.cwd, params.cursor)
        return ListSessionsResponse(sessions=tuple(_listed(session) for session in page), next_cursor=page.cursor)

    async def close(self, params: CloseSessionRequest) -> Empty:
        """Cancel the prompt of a session and close it. It stays in the store."""
        open_session = self._open_sessions.find(params.session_id)
        if open_session is None:
            _known(await self._sessions.get_session(params.session_id))
            self._sessions.close_session(params.session_id)
            return Empty()
        open_session.is_closing = True
        open_session.cancel()
        self._start("acp.close", self._clear(open_session))
        return Empty()

    async def delete(self, params: DeleteSessionRequest) -> Empty:
        """Close a session and delete it with its history. An unknown session is no error."""
        open_session = self._open_sessions.find(params.session_id)
        if open_session is not None:
            open_session.is_closing = True
            open_session.cancel()
            if open_session.work is not None:
                await asyncio.wait([open_session.work], timeout=_LAST_SECONDS)
            self._open_sessions.close(open_session)
        await self._sessions.remove_session(params.session_id)
        return Empty()

    async def set_mode(self, params: SetModeRequest) -> Empty:
        """Set how permission questions are answered."""
        open_session = await self.reopen(params.session_id)
        await self._choose_mode(open_session, params.mode_id)
        open_session.send_update(ConfigOptionUpdate(config_options=open_session.options))
        return Empty()

    async def set_config_option(self, params: SetConfigOptionRequest) -> SetConfigOptionResponse:
        """Set an option, and return all options."""
        open_session = await self.reopen(params.session_id)
        if not isinstance(params.value, str):
            raise InvalidRequest(texts.NOT_A_CHOICE.format(option=safe_line(params.config_id, _NAME_CHARS)))
        known = [option.id for option in open_session.options]
        if params.config_id not in known:
            name = safe_line(params.config_id, _NAME_CHARS)
            raise InvalidRequest(texts.NO_OPTION.format(option=name, options=", ".join(known)))
        if params.config_id == MODE_OPTION:
            await self._choose_mode(open_session, params.value)
            open_session.send_update(CurrentModeUpdate(current_mode_id=open_session.mode))
        elif params.config_id == MODEL_OPTION:
            await self._choose_model(open_session, params.value)
        return SetConfigOptionResponse(config_options=open_session.options)

    async def reopen(self, session_id: str) -> OpenSession:
        """Return the open session with this id. If it is not open, open it in its stored folder."""
        open_session = self._open_sessions.find(session_id)
        if open_session is not None and not open_session.is_closing:
            return open_session
        await self._bridge.agents_ready()
        session = _known(await self._sessions.get_session(session_id))
        open_session = await self._open_here(session, Workplace(cwd=session.cwd))
        await self._name(open_session)
        return open_session

    async def refresh(self, open_session: OpenSession) -> None:
        """Send the editor the changes that a command or the agent made to a session. `UnknownSession`: it was deleted."""
        if self._open_sessions.find(open_session.session_id) is not open_session or open_session.is_closing:
            return
        session = _known(await self._sessions.get_session(open_session.session_id))
        title, options, mode = open_session.title, open_session.options, open_session.mode
        await self._apply_stored(open_session, session)
        # It may have other first words: something was undone, or another conversation goes on here.
        await self._name(open_session)
        if open_session.title != title:
            open_session.tell_name(session.updated_at)
        if open_session.mode != mode:
            open_session.send_update(CurrentModeUpdate(current_mode_id=open_session.mode))
        if open_session.options != options:
            open_session.send_update(ConfigOptionUpdate(config_options=open_session.options))

    def close_lost(self, open_session: OpenSession) -> None:
        """Close a session that was deleted elsewhere, or whose work has ended."""
        self._open_sessions.close(open_session)
        self._sessions.close_session(open_session.session_id)

    async def _open(self, params: LoadSessionRequest | ResumeSessionRequest) -> OpenSession:
        workspace = read_workspace(params.cwd, params.additional_directories, params.mcp_servers)
        await self._bridge.agents_ready()
        session = _known(await self._sessions.get_session(params.session_id))
        if session.cwd != params.cwd:
            session = _known(await self._sessions.update_cwd(params.session_id, params.cwd))
        return await self._open_here(session, workspace)

    async def _open_here(self, session: EditorSession, workspace: Workplace) -> OpenSession:
        open_session = self._open_sessions.open(session.session_id, source_of(session.session_id, self._user))
        open_session.is_closing = False
        open_session.workplace = workspace
        await self._apply_stored(open_session, session)
        return open_session

    async def _apply_stored(self, open_session: OpenSession, session: EditorSession) -> None:
        """Apply the stored title, mode and options to an open session."""
        if session.title is not None:
            open_session.title, open_session.is_titled = session.title, True
        elif open_session.is_titled or session.entry.session_id != open_session.stored_id:
            # Another session continues at this place, or the title was removed.
            open_session.title, open_session.is_titled = None, False
        open_session.stored_id = session.entry.session_id
        open_session.mode = mode_of(session.mode)
        _, agent = await self._bridge.agent_at(open_session.source)
        chooses = isinstance(agent, ChoosesModel)
        open_session.options = config_options(open_session.mode, session.entry, chooses_model=chooses)

    async def _name(self, open_session: OpenSession) -> None:
        if not open_session.is_titled:
            _call_by_first_words(open_session, await self._bridge.snapshot(open_session.source))

    async def _choose_mode(self, open_session: OpenSession, mode: str) -> None:
        if mode not in texts.MODES:
            shown = safe_line(mode, _NAME_CHARS)
            raise InvalidRequest(texts.NO_MODE.format(mode=shown, modes=", ".join(texts.MODES)))
        session = await self._sessions.save_session(open_session.session_id, mode=mode)
        await self._follow(open_session, _known(session))

    async def _choose_model(self, open_session: OpenSession, model: str) -> None:
        _, agent = await self._bridge.agent_at(open_session.source)
        name = None
        if model != OWN_MODEL and isinstance(agent, ChoosesModel):
            name = await agent.check_model(model)
        session = await self._sessions.save_session(open_session.session_id, model=name)
        await self._follow(open_session, _known(session))

    async def _follow(self, open_session: OpenSession, session: EditorSession) -> None:
        await self._apply_stored(open_session, session)
        if open_session.title is None and session.history_len:
            # A command in another window switched to another conversation.
            await self._name(open_session)

    async def _clear(self, open_session: OpenSession) -> None:
        """Close a session once its work has ended, unless it was opened again meanwhile."""
        if open_session.work is not None:
            await asyncio.wait([open_session.work])
        if open_session.is_closing:
            self.close_lost(open_session)

    def _announce_later(self, open_session: OpenSession, *, is_named: bool = False) -> None:
        """Send the title and commands after the answer that opens the session. Before it, the editor does not know the id."""

        def tell() -> None:
            if is_named:
                open_session.send_update(SessionInfoUpdate(title=open_session.title))
            open_session.send_update(commands())

        asyncio.get_running_loop().call_soon(tell)


def _known(session: EditorSession | None) -> EditorSession:
    """Return the session, or raise `UnknownSession` if it is None."""
    if session is None:
        raise UnknownSession("no session of an editor has this id")
    return session


def _call_by_first_words(open_session: OpenSession, snapshot: ConversationSnapshot | None) -> None:
    """Set the title of an untitled session to its first words, as in a list."""
    if not open_session.is_titled:
        open_session.title = (snapshot.preview or None) if snapshot is not None else None


def _listed(session: EditorSession) -> SessionInfo:
    return SessionInfo(
        session_id=session.session_id,
        cwd=session.cwd,
        title=session.title or session.preview or None,
        updated_at=iso_time(session.updated_at),
    )


def mode_of(kept: str | None) -> str:
    """Return the mode of a session. An unknown mode counts as `ask`."""
    return kept if kept in texts.MODES else ASK


def mode_state(mode: str) -> ModeState:
    """Return all modes and the current one."""
    modes = (Mode(id=name, name=shown, description=told) for name, (shown, told) in texts.MODES.items())
    return ModeState(current_mode_id=mode, available_modes=tuple(modes))


def config_options(mode: str, entry: SessionEntry, *, chooses_model: bool) -> tuple[ConfigOption, ...]:
    """Return all options with their current values."""
    modes = {name: shown for name, (shown, _) in texts.MODES.items()}
    found: list[ConfigOption] = [
        ConfigSelect(
            id=MODE_OPTION,
            name=texts.MODE_OPTION,
            description=texts.MODE_OPTION_HELP,
            category="mode",
            current_value=mode,
            options=_choices(modes),
        )
    ]
    if chooses_model:
        known = (entry.chosen_model, entry.model)
        models = {OWN_MODEL: texts.MODEL_OWN} | {name: name for name in known if name is not None}
        found.append(
            ConfigSelect(
                id=MODEL_OPTION,
                name=texts.MODEL_OPTION,
                description=texts.MODEL_OPTION_HELP,
                category="model",
                current_value=entry.chosen_model or OWN_MODEL,
                options=_choices(models),
            )
        )
    return tuple(found)


def commands() -> AvailableCommandsUpdate:
    """Return the gateway's commands that make sense in an editor."""
    offered = [command for command in OFFERED if command.name not in _NOT_HERE]
    return AvailableCommandsUpdate(
        available_commands=tuple(
            AvailableCommand(name=command.name, description=command.help, input=_input(command.name))
            for command in offered
        )
    )


def _input(name: str) -> CommandInput | None:
    hint = TABLE[name].usage.partition(" ")[2]
    return CommandInput(hint=hint) if hint else None


def _choices(named: Mapping[str, str]) -> tuple[ConfigChoice, ...]:
    return tuple(ConfigChoice(name=shown, value=value) for value, shown in named.items())


def read_workspace(cwd: str, directories: tuple[str, ...], servers: tuple[McpServer, ...]) -> Workplace:
    """Return the folders and MCP servers that the editor names. `InvalidRequest`: a path is not absolute."""
    check_path(cwd, texts.CWD_NOT_ABSOLUTE)
    for directory in directories:
        check_path(directory, texts.DIRECTORY_NOT_ABSOLUTE)
    return Workplace(cwd=cwd, directories=directories, mcp_servers=tuple(_server(server) for server in servers))


def check_path(path: str, otherwise: str) -> None:
    """Raise `InvalidRequest` with this text unless the path is absolute."""
    if "\0" in path:
        raise InvalidRequest(texts.NUL_IN_PATH)
    if not posixpath.isabs(path):
        raise InvalidRequest(otherwise)


def _server(server: McpServer) -> agent.McpServer:
    return agent.McpServer(
        name=server.name,
        kind=server.kind,
        command=server.command or "",
        args=server.args or (),
        url=server.url or "",
        pairs=tuple((pair.name, pair.value) for pair in server.pairs),
    )
