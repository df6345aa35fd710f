"""Agents: what answers.

An agent is given a turn and yields events. It holds no store and sends nothing: what it says, does and costs reaches the
transcript and the chat through its events alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from threadline.errors import InvalidRequest, ThreadlineError, UnknownFile
from threadline.model.access import Role, may_use
from threadline.model.inbound import Attachment
from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import Replay

# What a tool does, for those who show or permit it.
ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the answer, in order. Pieces are joined as they are."""

    text: str


class Thought(msgspec.Struct, frozen=True, tag="thought"):
    """A piece of reasoning: kept with the turn, folded away where it is shown at all."""

    text: str


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where in which file a tool is at work."""

    path: str
    line: int | None = None


class Diff(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a tool changed a file; without `old` it was not there before."""

    path: str
    new: str
    old: str | None = None


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", omit_defaults=True):
    """A tool is about to run. `arguments` is JSON text; `title` says for people what it does, where the name does not.

    `is_asked`: only if somebody allows it; an `AskPermission` about it follows.
    """

    call_id: str
    name: str
    arguments: str = "{}"
    title: str = ""
    kind: ToolKind = "other"
    places: tuple[Place, ...] = ()
    is_asked: bool = False


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """What a tool gave back, and which files it changed."""

    call_id: str
    content: str
    is_error: bool = False
    diffs: tuple[Diff, ...] = ()


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that the agent means to do."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class Plan(msgspec.Struct, frozen=True, tag="plan"):
    """What the agent means to do, all of it: it replaces the plan before."""

    steps: tuple[PlanStep, ...]


class Titled(msgspec.Struct, frozen=True, tag="titled"):
    """A name for the conversation, taken where no person has given it one."""

    title: str


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """Something that people should know and that is no part of the answer. It stands in the chat, and never in a transcript."""

    text: str


class ContextWindow(msgspec.Struct, frozen=True, tag="window"):
    """How much of what the model can see at once is taken, in tokens."""

    used: int
    size: int


class Remember(msgspec.Struct, frozen=True, tag="remember"):
    """What the agent wants to be given with the session's next turn, as `Turn.remembered`, at most 8,000 characters.

    It is on disk before the agent goes on, replaces what the agent gave before, and is shown to nobody.
    """

    text: str


class File(msgspec.Struct, frozen=True, tag="file"):
    """A file that goes with the answer, in its place among the words. `Turn.file` makes it: the store has what is in it."""

    attachment: Attachment


class UsageOf(msgspec.Struct, frozen=True, tag="usage", kw_only=True, omit_defaults=True):
    """What a request to a model cost. Several in one turn are added up; `prompt_tokens` is the last request's whole prompt."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    prompt_tokens: int | None = None
    cost_micros: int = 0
    cost_status: Literal["unknown", "estimated", "actual", "included"] = "unknown"
    model: str | None = None


class AskPermission(msgspec.Struct, frozen=True, tag="ask", kw_only=True, omit_defaults=True):
    """The agent may not go on without somebody's word; the run ends with this event.

    People see the whole call. Once somebody whose role is at least `least` has answered, the turn runs again: `Turn.answered`
    tells whether this question is behind it, `Turn.permitted` lets exactly this call be done, in one run alone, and
    `Turn.so_far` has what was said and done before.

    `call` is the tool call that was told before and that this is about, `diffs` how it would change files: those who show calls
    show the question with it. Everybody else sees `tool` and `arguments` alone, so these say all. `is_for_good`: a yes can't be
    had for this call alone, and people are told so.
    """

    ask_id: str
    tool: str
    arguments: str = "{}"
    reason: str = ""
    least: Role = "owner"
    call: ToolCall | None = None
    diffs: tuple[Diff, ...] = ()
    is_for_good: bool = False


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The answer is complete. An agent that simply ends says the same."""


Event: TypeAlias = (
    Text
    | Thought
    | ToolCall
    | ToolResult
    | Plan
    | File
    | Titled
    | Notice
    | ContextWindow
    | UsageOf
    | Remember
    | AskPermission
    | Done
)


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to send, for functions: given or yielded like an event, it is stored and becomes a `File`."""

    body: bytes
    name: str
    mime: str = "application/octet-stream"


class AgentError(ThreadlineError):
    """The agent could not answer. Its message is one plain sentence for the chat; the cause is for the log.

    `is_owners` tells that the owner should know (a wrong key, no credit, a provider that can't be reached): they are told, once.
    """

    def __init__(self, message: str | None = None, *, is_owners: bool = False) -> None:
        super().__init__(message)
        self.is_owners = is_owners


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """One message that a turn answers. `text` carries `[NAME]` in a shared session."""

    text: str
    source: SessionSource
    message_id: str | None = None
    quoted: str | None = None
    attachments: tuple[Attachment, ...] = ()


class Permission(msgspec.Struct, frozen=True):
    """What somebody answered to a question. `used`: an earlier run was allowed it, and asked for something else then."""

    asked: AskPermission
    granted: bool
    used: bool = False

    def covers(self, ask: AskPermission) -> bool:
        """Whether it was an answer to this call, to the letter."""
        return (ask.ask_id, ask.tool, ask.arguments) == (self.asked.ask_id, self.asked.tool, self.asked.arguments)


class Uses:
    """Which permissions a run has used. In any thread: one that the run left behind may still look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: set[AskPermission] = set()
        self._is_over = False

    def use(self, asked: AskPermission) -> bool:
        """Notes that the run acts on this; False once it is over, for then another run may be given the permission."""
        with self._lock:
            if not self._is_over:
                self._used.add(asked)
            return not self._is_over

    def end(self) -> frozenset[AskPermission]:
        """The run is over, and uses nothing more; what it has used."""
        with self._lock:
            self._is_over = True
            return frozenset(self._used)


def answered(permissions: Sequence[Permission], ask: AskPermission) -> bool | None:
    """What was answered to exactly this call in this turn; `None`: ask."""
    return next((one.granted for one in reversed(permissions) if one.covers(ask)), None)


def permitted(permissions: Sequence[Permission], ask: AskPermission, uses: Uses) -> bool | None:
    """Whether exactly this call may be done now; `None`: nobody was asked, or an earlier run was allowed it."""
    found = next((one for one in reversed(permissions) if one.covers(ask) and not one.used), None)
    if found is None or (found.granted and not uses.use(found.asked)):
        return None
    return found.granted


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of tools that an editor names. `pairs` are its environment or headers: they hold secrets, and are never shown."""

    name: str
    kind: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    pairs: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"McpServer(name={self.name!r}, kind={self.kind!r}, …)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("name", self.name), ("kind", self.kind)]


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an editor lets the agent work, as it said when it opened the session. Nothing of it is stored but `cwd`."""

    cwd: str
    directories: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()


async def _nothing_more() -> tuple[Spoken, ...]:
    return ()


async def _no_file(_: Attachment) -> bytes:
    raise UnknownFile


async def _keeps_nothing(_: NewFile) -> Attachment:
    raise InvalidRequest("files can't be sent from here: nothing would keep them")


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is given: what was said, what was said before, and where."""

    turn_id: str
    session: SessionEntry
    # What the turn answers: one text, and the messages that it is made of.
    text: str
    messages: tuple[Spoken, ...]
    # What the model saw before, in chat-completions form, oldest first; the end of it for an agent that `LimitsHistory`.
    history: Sequence[Message]
    # The stored block that tells the agent where it is.
    context_prompt: str
    # Set when nobody waits for the answer any more; an agent ends soon after, and keeps what it has said.
    cancelled: asyncio.Event
    source: SessionSource
    # The least of those whose words the turn answers, unless the chat has one of its own; see `may`.
    role: Role = "guest"
    attempt: int = 1
    # What people answered in this turn, and what it had said and done until it last asked: its new events follow those.
    permissions: tuple[Permission, ...] = ()
    so_far: Sequence[Event] = ()
    uses: Uses = msgspec.field(default_factory=Uses)
    # Takes in what was said since the turn began; see `more`.
    take: Callable[[], Awaitable[tuple[Spoken, ...]]] = _nothing_more
    # What is in a file that came with a message, of this turn or before; `UnknownFile` where it is gone or can't be had.
    fetch: Callable[[Attachment], Awaitable[bytes]] = _no_file
    # Stores a file that goes with the answer; see `file`.
    keep: Callable[[NewFile], Awaitable[Attachment]] = _keeps_nothing
    # What the chat's own settings add to the agent's instructions.
    system_prompt: str | None = None
    # What the agent last gave with `Remember` in this session.
    remembered: str | None = None
    # Only in a session that an editor has opened.
    workplace: Workplace | None = None

    def answered(self, ask: AskPermission) -> bool | None:
        """What was answered to exactly this call in this turn; `None`: ask. It uses nothing up."""
        return answered(self.permissions, ask)

    def permitted(self, ask: AskPermission) -> bool | None:
        """Whether exactly this call may be done now; `None`: nobody was asked, or an earlier run was allowed it.

        A yes is for this run alone: look when you are about to do it, not before.
        """
        return permitted(self.permissions, ask, self.uses)

    def may(self, use: str) -> bool:
        """Whether the turn's role is enough for something that a tool does or reaches, such as `host_files` or `shell`."""
        return may_use(self.role, use)

    async def more(self) -> tuple[Spoken, ...]:
        """What was said since the turn began, for an agent that can take it in between two steps.

        From then on the turn answers it too. Empty where `when_busy` is not `steer`: there it waits for the next turn.
        """
        return await self.take()

    async def file(self, body: bytes, *, name: str, mime: str = "application/octet-stream") -> File:
        """Stores a file, and the event that lets it go with the answer: yield it.

        It is kept for the person whom the turn answers, as long as the answer is. `InvalidRequest` for one that is empty or larger
        than 10 MB.
        """
        return File(await self.keep(NewFile(body=body, name=name, mime=mime)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for agents outside of this process."""
        return {
            "turn_id": self.turn_id,
            "session_id": self.session.session_id,
            "text": self.text,
            "history": list(self.history),
            "context_prompt": self.context_prompt,
            "source": self.source.to_dict(),
        }


class Agent(Protocol):
    """Answers turns, any number at once.

    `run` yields events until the answer is complete. It never blocks the event loop. What it raises ends the turn: an
    `AgentError` with its sentence, anything else as a fault. Closing the iterator stops it.

    `replay` tells whether a turn that broke off may run again: `safe` (it does no harm), `until_tool` (not once a tool was
    called) or `never`.
    """

    @property
    def replay(self) -> Replay: ...

    def run(self, turn: Turn) -> AsyncIterator[Event]: ...


@runtime_checkable
class Flushes(Protocol):
    """An agent that wants to see a conversation once more after it has ended, to keep what it wants to remember."""

    async def flush(self, session: SessionEntry, history: Sequence[Message]) -> None: ...


@runtime_checkable
class LimitsHistory(Protocol):
    """An agent that reads only the end of a conversation: so many messages at most, and no more are loaded; `None`: all."""

    @property
    def history_limit(self) -> int | None: ...


@runtime_checkable
class Remembers(Protocol):
    """An agent that yields `Remember`, and is given what it remembers."""

    @property
    def remembers(self) -> Literal[True]: ...


@runtime_checkable
class ChoosesModel(Protocol):
    """An agent that answers a session with the model that was chosen for it: `turn.session.chosen_model`."""

    async def check_model(self, name: str) -> str:
        """The full name under which a session keeps a model that somebody named; `InvalidRequest` for one that can't be asked.

        Nothing is sent to find that out.
        """
        ...


@runtime_checkable
class Closes(Protocol):
    """An agent that holds something beyond its turns: processes, connections."""

    async def close(self) -> None:
        """Lets go of all of it, within five seconds. No turn of it runs any more, and none will."""
        ...


@runtime_checkable
class HearsOfEnds(Protocol):
    """An agent that holds something for a turn while that waits for somebody's word."""

    def abandoned(self, turn_id: str) -> None:
        """A turn that has asked was ended without an answer: it does not run again. Returns at once, and never raises.

        Told in the process that ended it, for any turn that no run was at.
        """
        ...
