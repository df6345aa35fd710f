"""An editor as a platform: its person waits while they are answered, and sees each turn as it happens."""

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

# Puts a question to the person.
Ask: TypeAlias = Callable[[OpenSession, Outgoing], None]

# How deliveries are named: those that answer a command, and those that a running turn asked for.
_COMMAND = "command."
_NOTE = ".note."
# What parts one thing that is said from the next, which an editor shows as one text.
GAP = "\n\n"


async def _at_once() -> None:
    return


class GatewayBridge:
    """The gateway and its store, from where an editor sits. It is made before the gateway, and works once it has that."""

    def __init__(self, store: GatewayStore, *, agents_ready: Callable[[], Awaitable[None]] = _at_once) -> None:
        """`agents_ready` returns when agents can be asked for without keeping everybody waiting."""
        self.store = store
        self.agents_ready = agents_ready
        self.accept: Accept | None = None
        self._gateway: Gateway | None = None

    def open(self, gateway: Gateway) -> None:
        """From now on this gateway answers."""
        self._gateway = gateway

    async def agent_at(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there, by name."""
        await self.agents_ready()
        return self._running().agent_at(source)

    async def admit(self, event: Inbound) -> Verdict:
        """Lets somebody's words in by the gateway's one door. `Transient` while it is closed.

        `ConversationBusy`: something else goes on there. `UnknownSession`: there is no such conversation. Then nothing was taken.
        """
        await self.agents_ready()
        while self._running().outbox.platform_of(ACP, MAIN_ACCOUNT) is None:  # noqa: ASYNC110 - a moment at the start
            await asyncio.sleep(0.005)
        if self.accept is None:
            raise Transient("the gateway takes no messages any more")
        return await self.accept(event)

    async def adopt(self, source: SessionSource) -> None:
        """A conversation that another agent has answered meanwhile goes on here. `UnknownSession`: there is none."""
        await self.store.editor_sessions.find(source, agent=self._running().agent_at(source)[0])

    async def is_pending(self, source: SessionSource) -> bool:
        """Whether anything there waits, runs or is to be told."""
        return await self.store.outbox.has_pending_at(source, agent=self._running().agent_at(source)[0])

    async def stop(self, source: SessionSource) -> bool:
        """Ends the turn that runs or waits there, without a word; whether there was one."""
        return await self._running().stop_in(source)

    async def snapshot(self, source: SessionSource, *, limit: int = 1) -> ConversationSnapshot | None:
        """Where the conversation stands."""
        await self.agents_ready()
        return await self.store.change_feed.snapshot(source, agent=self._running().agent_at(source)[0], limit=limit)

    async def store_file(self, source: SessionSource, file: PromptFile) -> Attachment:
        """Stores a file that comes with a message."""
        kept = await self.store.keep_file(file_owner_of(source), file.body, name=file.name, mime=file.mime)
        return kept.attachment()

    async def read_file(self, file: Attachment) -> bytes | None:
        """What is in a stored file; `None` where it is gone."""
        try:
            return await self.store.files.read_body(stored_id(file.handle) or "")
        except UnknownFile:
            return None

    def _running(self) -> Gateway:
        if self._gateway is None:
            raise Transient("the gateway does not run yet")
        return self._gateway


def new_message_id() -> str:
    """What tells one message of an editor from all others."""
    return os.urandom(12).hex()


class OpenSessions:
    """What lies open before the editor."""

    def __init__(self, bridge: GatewayBridge, connection: Connection, ask: Ask, start: Start) -> None:
        self._bridge = bridge
        self._connection = connection
        self._ask = ask
        self._start = start
        self._open: dict[str, OpenSession] = {}
        # Those that were spoken in, until they are looked at and found at rest.
        self._spoken_in: dict[str, OpenSession] = {}
        # Whether the editor has a place of its own for what is no part of an answer.
        self.shows_notices = False

    def find(self, session_id: str) -> OpenSession | None:
        """The session of that id, if it is open here."""
        return self._open.get(session_id)

    def open(self, session_id: str, source: SessionSource) -> OpenSession:
        """The session of that id, open from now on."""
        session = self._open.get(session_id)
        if session is None:
            queue = UpdateQueue(self._connection.send_lines, self._start)
            session = self._open[session_id] = OpenSession(session_id, source, queue, self._bridge.read_file)
        return session

    def begin(self, session: OpenSession, prompt: OpenPrompt) -> None:
        """Somebody waits in that session from now on."""
        session.begin(prompt)
        self._spoken_in[session.session_id] = session

    def close(self, session: OpenSession) -> None:
        """The session is not open any more."""
        if self._open.get(session.session_id) is session:
            del self._open[session.session_id]

    def open_sources(self) -> list[SessionSource]:
        """Where this process answers: in the sessions that somebody waits in here, or has just cancelled something in.

        Of a session that two windows have open, the one that is spoken in does all.
        """
        bound: list[SessionSource] = []
        # However many are open, few are at work.
        for key, one in list(self._spoken_in.items()):
            if not one.is_busy:
                del self._spoken_in[key]
            elif self._open.get(key) is one:
                bound.append(one.source)
        return bound

    def workplace_for(self, source: SessionSource) -> Workplace | None:
        """Where the editor lets the agent work in that session."""
        session = self._open.get(source.chat_id or "")
        return None if session is None else session.workplace

    def show_delivery(self, to: Target, message: Outgoing, key: str) -> None:
        """Tells what the gateway has to say besides turns: notices, questions, and answers to commands to who waits for one.

        Whoever pressed a button, in this process or in one that is gone, knows what they have pressed.
        """
        session = self._open.get(to.chat_id)
        if session is None or not session.mark_sent(key):
            return
        if message.buttons:
            self._ask(session, message)
        elif message.text and (session.is_command_pending or not key.startswith(_COMMAND)):
            # What the turn said before, or says next, must not run on in the same line.
            before = GAP if session.has_sent_text else ""
            behind = GAP if session.prompt is not None and session.prompt.is_running else ""
            session.send_update(self.shown(key, message.text, before=before, behind=behind), key=key)

    def shown(self, key: str, text: str, *, before: str = "", behind: str = "") -> KnownUpdate:
        """What the gateway says besides turns, as this editor shows it: apart, or among what else is said, with gaps around it."""
        if _NOTE in key and self.shows_notices:
            return Notice(severity="info", title=text)
        return agent_text(before + text + behind)


class AcpPlatform:
    """A `Platform` that shows turns, for the one editor that this process serves. It ends when the editor hangs up."""

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
        """`talk` hears the editor until it hangs up."""
        self._open_sessions = open_sessions
        self._bridge = bridge
        self._talk = talk

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Serves the editor until the end of its input."""
        self._bridge.accept = accept
        ready.set()
        try:
            await self._talk()
        finally:
            self._bridge.accept = None

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Tells the editor. Where the session is not open there any more, whoever opens it reads what counts."""
        refuse_undeclared(self.capabilities, message, to)
        self._open_sessions.show_delivery(to, message, key)
        return key

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - see `capabilities`
        """Nothing is edited here: what was told was told."""
        raise NotDeclared("what an editor was told is not edited")

    async def typing(self, to: Target) -> None:  # noqa: ARG002 - see `capabilities`
        """An editor shows by itself that its prompt is being answered."""
        raise NotDeclared("nobody is seen typing in an editor")

    async def close(self) -> None:
        """From now on nothing comes in."""
        self._bridge.accept = None

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:  # noqa: ARG002 - one that goes on is the same
        """Passes it on."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_began(turn_id)

    def turn_grew(self, to: Target, growth: Growth) -> None:
        """Passes it on."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_grew(growth)

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        """Passes it on."""
        session = self._open_sessions.find(to.chat_id)
        if session is not None:
            session.turn_ended(turn_id, ending)
