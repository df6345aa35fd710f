"""An editor in the test's own process, at the other end of lines in memory: the real server, gateway and store behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from tests.acp.wire import check_line

from threadline.acp.server import AcpServer
from threadline.config.settings import Config
from threadline.editor import EditorAgents, editing
from threadline.gateway.gateway import Gateway
from threadline.ports.agent import Agent
from threadline.rpc.acp import METHODS
from threadline.rpc.lines import LineReader, LineWriter
from threadline.store.facade import GatewayStore

Decide: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
CWD = "/home/ada/project"


class Mouth:
    """What the editor says: lines for the server to read."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._over = False

    async def next(self) -> bytes | None:
        line = None if self._over else await self._lines.get()
        self._over = line is None
        return line

    def say(self, line: bytes | None) -> None:
        self._lines.put_nowait(line)


class Ear:
    """What the editor hears: whole lines, in order."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    def write(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        for one in line[:-1].split(b"\n"):
            self._hear(one)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def flush(self) -> None:
        return

    def close(self) -> None:
        return


class RpcFailure(Exception):
    """The agent answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.context: Any = error.get("data")


class AgentGone(Exception):
    """The agent ended before it answered."""


class Editor:
    """A client of the protocol, with all that it was told."""

    def __init__(self) -> None:
        self.mouth = Mouth()
        self.ear = Ear(self._heard)
        # Every message that came, in order.
        self.heard: list[dict[str, Any]] = []
        self.decide: Decide = _allow
        # Lines that are not the protocol's; there must be none.
        self.faults: list[str] = []
        self._asked = 0
        self._methods: dict[int, str] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._stirred = asyncio.Event()
        self._deciding: set[asyncio.Task[None]] = set()

    @property
    def updates(self) -> list[dict[str, Any]]:
        """All updates, of all sessions."""
        return [message["params"]["update"] for message in self.heard if message.get("method") == "session/update"]

    def updates_of(self, session_id: str) -> list[dict[str, Any]]:
        """The updates of one session."""
        return [
            message["params"]["update"]
            for message in self.heard
            if message.get("method") == "session/update" and message["params"]["sessionId"] == session_id
        ]

    def texts(self, kind: str = "agent_message_chunk", *, since: int = 0) -> list[str]:
        """The texts of such updates, each chunk for itself."""
        chunks = [update for update in self.updates[since:] if update["sessionUpdate"] == kind]
        return [chunk["content"].get("text", "") for chunk in chunks]

    def ask(self, method: str, params: Any = None, **named: Any) -> asyncio.Future[Any]:
        """Sends a request; its answer comes."""
        self._asked += 1
        if method in METHODS:
            self._methods[self._asked] = method
        coming = self._waiting[self._asked] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params or named})
        return coming

    async def call(self, method: str, **params: Any) -> Any:
        """Sends a request and waits for its result; an error is `RpcFailure`."""
        return await asyncio.wait_for(self.ask(method, params), 20)

    def tell(self, method: str, **params: Any) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Any) -> None:
        """Sends a message as it is."""
        self.mouth.say(json.dumps(message).encode())

    async def begin(self, seconds: float = 60) -> None:
        """Gets to know the agent, which may have to be loaded first."""
        await asyncio.wait_for(self.ask("initialize", protocolVersion=1), seconds)

    async def new(self, **more: Any) -> str:
        """A new session; its id."""
        made = await self.call("session/new", cwd=CWD, mcpServers=[], **more)
        return str(made["sessionId"])

    def prompt(self, session_id: str, *blocks: str | dict[str, Any]) -> asyncio.Future[Any]:
        """Says something; the answer comes."""
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.ask("session/prompt", {"sessionId": session_id, "prompt": content})

    async def said(self, session_id: str, *blocks: str | dict[str, Any]) -> Any:
        """Says something and waits for the end of the answer."""
        return await asyncio.wait_for(self.prompt(session_id, *blocks), 20)

    async def load(self, session_id: str) -> list[dict[str, Any]]:
        """Loads a session; what was told of it before the answer."""
        before = len(self.updates_of(session_id))
        await self.call("session/load", sessionId=session_id, cwd=CWD, mcpServers=[])
        answered = next(place for place in range(len(self.heard) - 1, -1, -1) if "result" in self.heard[place])
        told = [message for message in self.heard[:answered] if message.get("method") == "session/update"]
        mine = [message["params"]["update"] for message in told if message["params"]["sessionId"] == session_id]
        return mine[before:]

    async def until(self, predicate: Callable[[], Any]) -> None:
        """Returns when that holds of what was heard."""
        async with asyncio.timeout(20):
            while not predicate():
                self._stirred.clear()
                await self._stirred.wait()

    def gone(self) -> None:
        """The agent is gone: nobody answers any more."""
        for coming in self._waiting.values():
            if not coming.done():
                coming.set_exception(AgentGone())
        self._waiting.clear()
        self._stirred.set()

    def hang_up(self) -> None:
        """Closes the input."""
        self.mouth.say(None)

    def _heard(self, line: bytes) -> None:
        message = json.loads(line)
        try:
            check_line("to_client", line, answers=self._methods.get(message.get("id")))
        except AssertionError as fault:
            self.faults.append(str(fault))
        self.heard.append(message)
        self._stirred.set()
        if "method" in message and "id" in message:
            task = asyncio.get_running_loop().create_task(self._decided(message))
            self._deciding.add(task)
            task.add_done_callback(self._deciding.discard)
        elif "id" in message and "method" not in message and isinstance(message["id"], int):
            coming = self._waiting.pop(message["id"], None)
            if coming is not None and not coming.done():
                if "error" in message:
                    coming.set_exception(RpcFailure(message["error"]))
                else:
                    coming.set_result(message["result"])

    async def _decided(self, message: dict[str, Any]) -> None:
        assert message["method"] == "session/request_permission"
        outcome = await self.decide(message["params"])
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})


async def _allow(params: dict[str, Any]) -> dict[str, Any]:
    return chosen(params, "allow_once")


def chosen(params: dict[str, Any], kind: str) -> dict[str, Any]:
    """The outcome that chooses the first option of that kind."""
    option = next(option for option in params["options"] if option["kind"] == kind)
    return {"outcome": "selected", "optionId": option["optionId"]}


class GivenAgents(EditorAgents):
    """One agent for everything."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(Config())
        self._agent = agent

    def named(self, name: str) -> Agent:
        return self._agent


class Opened(Editor):
    """An editor that is connected, with what stands behind it."""

    def __init__(self, store: GatewayStore) -> None:
        super().__init__()
        self.store = store
        self.server: AcpServer
        self.gateway: Gateway


@asynccontextmanager
async def opened(location: str, agent: Agent | EditorAgents, *, begun: bool = True) -> AsyncIterator[Opened]:
    """An editor on the database at `location`, answered by that agent; it hangs up at the end."""
    agents = agent if isinstance(agent, EditorAgents) else GivenAgents(agent)
    async with await GatewayStore.open(location) as store:
        editor = Opened(store)
        lines: LineReader = editor.mouth
        sink: LineWriter = editor.ear
        async with editing(Config(), store, lines, sink, agents=agents) as (editor.server, editor.gateway):
            if begun:
                await editor.begin()
            yield editor
            assert editor.faults == []
            editor.hang_up()
            with suppress(TimeoutError):
                await asyncio.wait_for(editor.gateway.wait_for_platforms(), 10)
