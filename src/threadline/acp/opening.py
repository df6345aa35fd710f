"""Opening sessions, closing them, and choosing how they behave."""

from __future__ import annotations

import asyncio

from threadline.acp.calls import Names
from threadline.acp.conversation import Conversation
from threadline.acp.desk import Desk
from threadline.acp.options import (
    MODE_OPTION,
    MODEL_OPTION,
    OWN_MODEL,
    commands,
    config_options,
    mode_of,
    mode_state,
)
from threadline.acp.replaying import Replayer
from threadline.acp.sessions import AsyncSessionManager, EditorSession, source_of
from threadline.acp.table import Table
from threadline.acp.translate import iso
from threadline.acp.workplaces import check_path, workplace_of
from threadline.errors import InvalidRequest, UnknownSession
from threadline.model.safe_text import safe_line
from threadline.ports.agent import ChoosesModel, Workplace
from threadline.rpc.acp import (
    CloseSessionRequest,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    DeleteSessionRequest,
    Empty,
    ForkSessionRequest,
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
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
# How long a deletion waits for a turn that it ends.
_LAST_SECONDS = 10.0


class Openings:
    """The life of sessions before an editor. Unknown ids are `UnknownSession`, what can't be chosen is `InvalidRequest`."""

    def __init__(
        self, desk: Desk, sessions: AsyncSessionManager, table: Table, connection: Connection, start: Start, user: str
    ) -> None:
        self._desk = desk
        self._sessions = sessions
        self._table = table
        self._start = start
        self._user = user
        self._replayer = Replayer(desk, connection, table)

    async def new(self, params: NewSessionRequest) -> NewSessionResponse:
        """A new session. It is stored before the editor hears of it, and told of only after."""
        place = workplace_of(params.cwd, params.additional_directories, params.mcp_servers)
        await self._desk.prepared()
        session = await self._sessions.create_session(params.cwd)
        conversation = await self._lay(session, place)
        # Nothing was called in it yet.
        conversation.counted(Names())
        self._soon(conversation)
        return NewSessionResponse(
            session_id=session.session_id,
            modes=mode_state(conversation.mode),
            config_options=conversation.options,
        )

    async def load(self, params: LoadSessionRequest) -> LoadSessionResponse:
        """All of a session is told, then it is answered."""
        conversation = await self._open(params)
        async with conversation.lock:
            seen = await self._replayer.replay(conversation)
        _call_by_first_words(conversation, seen)
        self._soon(conversation, is_named=True)
        return LoadSessionResponse(modes=mode_state(conversation.mode), config_options=conversation.options)

    async def resume(self, params: ResumeSessionRequest) -> ResumeSessionResponse:
        """A session goes on; nothing of it is told."""
        conversation = await self._open(params)
        await self._name(conversation)
        self._soon(conversation, is_named=True)
        return ResumeSessionResponse(modes=mode_state(conversation.mode), config_options=conversation.options)

    async def fork(self, params: ForkSessionRequest) -> ForkSessionResponse:
        """A new session with all that was said in another; nothing of it is told."""
        place = workplace_of(params.cwd, params.additional_directories, params.mcp_servers)
        await self._desk.prepared()
        session = _known(await self._sessions.fork_session(params.session_id, params.cwd))
        conversation = await self._lay(session, place)
        await self._name(conversation)
        self._soon(conversation, is_named=True)
        return ForkSessionResponse(
            session_id=session.session_id,
            modes=mode_state(conversation.mode),
            config_options=conversation.options,
        )

    async def list(self, params: ListSessionsRequest) -> ListSessionsResponse:
        """A page of all sessions, or of those in one folder."""
        if params.cwd is not None:
            check_path(params.cwd, texts.CWD_NOT_ABSOLUTE)
        page = await self._sessions.list_sessions(params.cwd, params.cursor)
        return ListSessionsResponse(sessions=tuple(_listed(session) for session in page), next_cursor=page.cursor)

    async def close(self, params: CloseSessionRequest) -> Empty:
        """What runs in it is cancelled; it stays as it is, and is not open any more."""
        conversation = self._table.find(params.session_id)
        if conversation is None:
            _known(await self._sessions.get_session(params.session_id))
            self._sessions.close_session(params.session_id)
            return Empty()
        conversation.is_closing = True
        conversation.cancel()
        self._start("acp.close", self._clear(conversation))
        return Empty()

    async def delete(self, params: DeleteSessionRequest) -> Empty:
        """It is closed, and gone with all that was said in it. One that is not there is no error."""
        conversation = self._table.find(params.session_id)
        if conversation is not None:
            conversation.is_closing = True
            conversation.cancel()
            if conversation.work is not None:
                await asyncio.wait([conversation.work], timeout=_LAST_SECONDS)
            self._table.clear(conversation)
        await self._sessions.remove_session(params.session_id)
        return Empty()

    async def set_mode(self, params: SetModeRequest) -> Empty:
        """Questions are answered so from now on."""
        conversation = await self.reopen(params.session_id)
        await self._choose_mode(conversation, params.mode_id)
        conversation.tell(ConfigOptionUpdate(config_options=conversation.options))
        return Empty()

    async def set_config_option(self, params: SetConfigOptionRequest) -> SetConfigOptionResponse:
        """An option has that value from now on; all of them as they are then."""
        conversation = await self.reopen(params.session_id)
        if not isinstance(params.value, str):
            raise InvalidRequest(texts.NOT_A_CHOICE.format(option=safe_line(params.config_id, _NAME_CHARS)))
        known = [option.id for option in conversation.options]
        if params.config_id not in known:
            name = safe_line(params.config_id, _NAME_CHARS)
            raise InvalidRequest(texts.NO_OPTION.format(option=name, options=", ".join(known)))
        if params.config_id == MODE_OPTION:
            await self._choose_mode(conversation, params.value)
            conversation.tell(CurrentModeUpdate(current_mode_id=conversation.mode))
        elif params.config_id == MODEL_OPTION:
            await self._choose_model(conversation, params.value)
        return SetConfigOptionResponse(config_options=conversation.options)

    async def reopen(self, session_id: str) -> Conversation:
        """The session of that id, opened where it works already, if it is not open."""
        conversation = self._table.find(session_id)
        if conversation is not None and not conversation.is_closing:
            return conversation
        await self._desk.prepared()
        session = _known(await self._sessions.get_session(session_id))
        conversation = await self._lay(session, Workplace(cwd=session.cwd))
        await self._name(conversation)
        return conversation

    async def refresh(self, conversation: Conversation) -> None:
        """Tells the editor what a command, or the agent, has changed about a session. `UnknownSession`: it is gone."""
        if self._table.find(conversation.session_id) is not conversation or conversation.is_closing:
            return
        session = _known(await self._sessions.get_session(conversation.session_id))
        title, options, mode = conversation.title, conversation.options, conversation.mode
        await self._know(conversation, session)
        # It may have other first words: something was undone, or another conversation goes on here.
        await self._name(conversation)
        if conversation.title != title:
            conversation.tell_name(session.updated_at)
        if conversation.mode != mode:
            conversation.tell(CurrentModeUpdate(current_mode_id=conversation.mode))
        if conversation.options != options:
            conversation.tell(ConfigOptionUpdate(config_options=conversation.options))

    def forget(self, conversation: Conversation) -> None:
        """The session is not open here any more."""
        self._table.clear(conversation)
        self._sessions.close_session(conversation.session_id)

    async def _open(self, params: LoadSessionRequest | ResumeSessionRequest) -> Conversation:
        place = workplace_of(params.cwd, params.additional_directories, params.mcp_servers)
        await self._desk.prepared()
        session = _known(await self._sessions.get_session(params.session_id))
        if session.cwd != params.cwd:
            session = _known(await self._sessions.update_cwd(params.session_id, params.cwd))
        return await self._lay(session, place)

    async def _lay(self, session: EditorSession, place: Workplace) -> Conversation:
        conversation = self._table.lay(session.session_id, source_of(session.session_id, self._user))
        conversation.is_closing = False
        conversation.workplace = place
        await self._know(conversation, session)
        return conversation

    async def _know(self, conversation: Conversation, session: EditorSession) -> None:
        """Takes over what is stored about a session."""
        if session.title is not None:
            conversation.title, conversation.is_titled = session.title, True
        elif conversation.is_titled or session.entry.session_id != conversation.stored_id:
            # Another session goes on at this place, or somebody took its name away.
            conversation.title, conversation.is_titled = None, False
        conversation.stored_id = session.entry.session_id
        conversation.mode = mode_of(session.mode)
        _, agent = await self._desk.agent_at(conversation.source)
        chooses = isinstance(agent, ChoosesModel)
        conversation.options = config_options(conversation.mode, session.entry, chooses_model=chooses)

    async def _name(self, conversation: Conversation) -> None:
        if not conversation.is_titled:
            _call_by_first_words(conversation, await self._desk.look(conversation.source))

    async def _choose_mode(self, conversation: Conversation, mode: str) -> None:
        if mode not in texts.MODES:
            shown = safe_line(mode, _NAME_CHARS)
            raise InvalidRequest(texts.NO_MODE.format(mode=shown, modes=", ".join(texts.MODES)))
        session = await self._sessions.save_session(conversation.session_id, mode=mode)
        await self._follow(conversation, _known(session))

    async def _choose_model(self, conversation: Conversation, wanted: str) -> None:
        _, agent = await self._desk.agent_at(conversation.source)
        name = None
        if wanted != OWN_MODEL and isinstance(agent, ChoosesModel):
            name = await agent.check_model(wanted)
        session = await self._sessions.save_session(conversation.session_id, model=name)
        await self._follow(conversation, _known(session))

    async def _follow(self, conversation: Conversation, session: EditorSession) -> None:
        await self._know(conversation, session)
        if conversation.title is None and session.history_len:
            # Another conversation goes on here, by a command in another window.
            await self._name(conversation)

    async def _clear(self, conversation: Conversation) -> None:
        """Lets go of a closed session once nothing of it runs; unless it was opened again meanwhile."""
        if conversation.work is not None:
            await asyncio.wait([conversation.work])
        if conversation.is_closing:
            self.forget(conversation)

    def _soon(self, conversation: Conversation, *, is_named: bool = False) -> None:
        """Tells what belongs to an open session once the answer that opens it has left: before, the editor knows no such id."""

        def tell() -> None:
            if is_named:
                conversation.tell(SessionInfoUpdate(title=conversation.title))
            conversation.tell(commands())

        asyncio.get_running_loop().call_soon(tell)


def _known(session: EditorSession | None) -> EditorSession:
    """The session that was found; `UnknownSession` where there is none."""
    if session is None:
        raise UnknownSession("no session of an editor has this id")
    return session


def _call_by_first_words(conversation: Conversation, seen: ConversationSnapshot | None) -> None:
    """A session that nobody gave a name is called by its first words, as in a list."""
    if not conversation.is_titled:
        conversation.title = (seen.preview or None) if seen is not None else None


def _listed(session: EditorSession) -> SessionInfo:
    return SessionInfo(
        session_id=session.session_id,
        cwd=session.cwd,
        title=session.title or session.words or None,
        updated_at=iso(session.updated_at),
    )
