"""The platform `acp`: the editor of one process, the bridge to its gateway, and the sessions that are open in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from threadline.acp.open_session import OpenPrompt, OpenSession, UpdateQueue
from threadline.acp.translate import PromptFile, agent_text
from threadline.errors import UnknownFile
from threadline.gateway.gateway import Gateway
from threadline.model.client_sources import ACP
from threadline.model.delivery import Target
from threadline.model.inbound import Attachment, Inbound, stored_id
from threadline.model.ownership import file_owner_of
from threadline.model.source import MAIN_ACCOUNT, SessionSource
from threadline.ports.agent import Agent, Workplace
from threadline.ports.live import Ending, Growth
from threadline.ports.platform import Accept, Capabilities, NotDeclared, Outgoing, Transient, Verdict, refuse_undeclared
from threadline.rpc.acp import KnownUpdate, Notice
from threadline.rpc.connection import Connection, Start
from threadline.store.facade import GatewayStore
from threadline.store.work.change_feed import ConversationSnapshot

# Asks the person in the editor a permission question.
Ask: TypeAlias = Callable[[OpenSession, Outgoing], None]

# Parts of delivery ids: replies to commands, and notices of a running turn.
_COMMAND = "command."
_NOTE = ".note."
# Separates two messages, which an editor shows as one text.
GAP = "\n\n"


async def _at_once() -> None:
    return


class GatewayBridge:
    """Access of the editor side to the gateway and its store. It is made before the gateway and works once `open` was called."""

    def __init__(self, store: GatewayStore, *, agents_ready: Callable[[], Awaitable[None]] = _at_once) -> None:
        """`agents_ready` returns once asking for an agent does not block the process."""
        self.store = store
        self.agents_ready = agents_ready
        self.accept: Accept | None = None
        self._gateway: Gateway | None = None

    def open(self, gateway: Gateway) -> None:
        """Use this gateway from now on."""
        self._gateway = gateway

    async def agent_at(self, source: SessionSource) -> tuple[str, Agent]:
        """Return the agent that answers at this source, with its name."""
        await self.agents_ready()
        return self._running().agent_at(source)

    async def admit(self, event: Inbound) -> Verdict:
        """Pass a message to the gateway's admission. `Transient`: the gateway accepts nothing now.

        `ConversationBusy`: another turn runs there. `UnknownSession`: there is no such conversation. Then nothing was accepted.
        """
        await self.agents_ready()
        while self._running().outbox.platform_of(ACP, MAIN_ACCOUNT) is None:  # noqa: ASYNC110 - a moment at the start
            await asyncio.sleep(0.005)
        if self.accept is None:
            raise Transient("the gateway takes no messages any more")
        return await self.accept(event)

    async def adopt(self, source: SessionSource) -> None:
        """Give the conversation at this source to the agent that answers here. `UnknownSession`: there is no conversation."""
        await self.store.editor_sessions.find(source, agent=self._running().agent_at(source)[0])

    async def is_pending(self, source: SessionSource) -> bool:
        """Return whether a turn, a message or a delivery at this source is still pending."""
        return await self.store.outbox.has_pending_at(source, agent=self._running().agent_at(source)[0])

    async def stop(self, source: SessionSource) -> bool:
        """Stop the turn that runs or waits at this source, without a notice. Return whether there was one."""
        return await self._running().stop_in(source)

    async def snapshot(self, source: SessionSource, *, limit: int = 1) -> ConversationSnapshot | None:
        """Return the current state of the conversation at this source, or None if there is no conversation."""
        await self.agents_ready()
        return await self.store.change_feed.snapshot(source, agent=self._running().agent_at(source)[0], limit=limit)

    async def store_file(self, source: SessionSource, file: PromptFile) -> Attachment:
        """Store a file that came with a prompt."""
        kept = await self.store.keep_file(file_owner_of(source), file.body, name=file.name, mime=file.mime)
        return kept.attachment()

    async def read_file(self, file: Attachment) -> bytes | None:
        """Return the content of a stored file, or None if the file was removed."""
        try:
            return await self.store.files.read_body(stored_id(file.handle) or "")
        except UnknownFile:
            return None

    def _running(self) -> Gateway:
        if self._gateway is None:
            raise Transient("the gateway does not run yet")
        return self._gateway


def new_message_id() -> str:
    """Return a random id for a message of an editor."""
    return os.urandom(12).hex()


class OpenSessions:
    """The sessions that are open in the editor of this process."""

    def __init__(self, bridge: GatewayBridge, connection: Connection, ask: Ask, start: Start) -> None:
        self._bridge = bridge
        self._connection = connection
        self._ask = ask
        self._start = start
        self._open: dict[str, OpenSession] = {}
        # Sessions with a prompt; removed when `open_sources` finds them idle.
        self._spoken_in: dict[str, OpenSession] = {}
        # Whether the editor shows notices apart from answers.
        self.shows_notices = False

    def find(self, session_id: str) -> OpenSession | None:
        """Return the open session with this id, or None."""
        return self._open.get(session_id)

    def open(self, session_id: str, source: SessionSource) -> OpenSession:
        """Open the session with this id, or return it if it is open already."""
        session = self._open.get(session_id)
        if session is None:
            queue = UpdateQueue(self._connection.send_lines, self._start)
            session = self._open[session_id] = OpenSession(session_id, source, queue, self._bridge.read_file)
        return session

    def begin(self, session: OpenSession, prompt: OpenPrompt) -> None:
        """Start a prompt in this session."""
        session.begin(prompt)
        self._spoken_in[session.session_id] = session

    def close(self, session: OpenSession) -> None:
        """Close this session."""
        if self._open.get(session.session_id) is session:
            del self._open[session.session_id]

    def open_sources(self) -> list[SessionSource]:
        """Return the sources at which this process runs turns: sessions with a waiting prompt, or with one just cancelled.

        If two windows have a session open, the window with the prompt runs its turn.
        """
        bound: list[SessionSource] = []
        # Many sessions may be open, but few of them are busy.
        for key, one in list(self._spoken_in.items()):
            if not one.is_busy:
                del self._spoken_in[key]
            elif self._open.get(key) is one:
                bound.append(one.source)
        return bound

    def workplace_for(self, source: SessionSource) -> Workplace | None:
        """Return the folders in which the agent may work in this session, or None if the session is not open."""
        session = self._open.get(source.chat_id or "")
        return None if session is None else session.workplace

    def show_delivery(self, to: Target, message: Outgoing, key: str) -> None:
        """Show a delivery besides turns: a notice, a question, or the reply to a command that waits here.

        The reply to a pressed button is not shown: the person knows which one they pressed.
        """
        session = self._open.get(to.chat_id)
        if session is None or not session.mark_sent(key):
            return
        if message.buttons:
            self._ask(session, message)
        elif message.text and (session.is_command_pending or not key.startswith(_COMMAND)):
            # Text of the turn before or after it must not run on in the same line.
            before = GAP if session.has_sent_text else ""
            behind = GAP if session.prompt is not None and session.prompt.is_running else ""
            session.send_update(self.shown(key, message.text, before=before, behind=behind), key=key)

    def shown(self, key: str, text: str, *, before: str = "", behind: str = "") -> KnownUpdate:
        """Return the update for a delivery: a notice if the editor shows notices apart, else text with these separators."""
        if _NOTE in key and self.shows_notices:
            return Notice(severity="info", title=text)
        return agent_text(before + text + behind)


class AcpPlatform:
    """A `Platform` that shows turns to the one editor of this process. `run` ends when the editor closes its input."""

    name = ACP
    account = MAIN_ACCOUNT
    capabilities = Capabilities(
        max_length=1_000_000,
        buttons=True,
        files=True,
        idempotent_send=True,
        bursts=False,
        attended=True,
        begins_by_message=False,
    )

    def __init__(self, open_sessions: OpenSessions, bridge: GatewayBridge, talk: Callable[[], Awaitable[None]]) -> None:
        """`talk` reads the editor's requests until it closes its input."""
        self._open_sessions = open_sessions
        self._bridge = bridge
        self._talk = talk

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Serve the editor until the end of its input."""
        self._bridge.accept = accept
        ready.set()
        try:
            await self._talk()
        finally:
            self._bridge.accept = None

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Send a delivery to the editor. If its session is closed, it stays in the store for the next load."""
        refuse_undeclared(self.capabilities, message, to)
        self._open_sessions.show_delivery(to, message, key)
        return key

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """Raise `NotDeclared`: an editor can't edit a sent message."""
        raise NotDeclared("what an editor was told is not edited")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """Raise `NotDeclared`: an editor shows a running prompt by itself."""
        raise NotDeclared("nobody is seen typing in an editor")

    async def close(self) -> None:
        """Accept no more messages."""
        self._bridge.accept = None

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:  # noqa: ARG002 - one that goes on is the same
        """Forward the start of a turn to its open session."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_began(turn_id)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Forward new events of a turn to its open session."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_grew(growth)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """Forward the end of a turn to its open session."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_ended(turn_id, ending)
