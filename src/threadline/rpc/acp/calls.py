"""What clients ask of agents, and what they are answered."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from threadline.rpc.acp.content import ContentBlock
from threadline.rpc.acp.options import ConfigOption, ModelState, ModeState
from threadline.rpc.acp.shape import Firm, Shape, otherwise

# Agents in use know others besides; those stay as they came.
StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
McpKind: TypeAlias = Literal["stdio", "http", "sse"]


class Pair(Firm, frozen=True, kw_only=True):
    """A variable of an environment, or a header. Its value may be secret and is not shown."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Pair(name={self.name!r})"


class McpServer(Firm, frozen=True, kw_only=True):
    """A server of tools: one that the agent starts (without a `type`), or one that it reaches.

    `stdio_server` and `remote_server` make them with all that the protocol wants to see written.
    """

    name: str
    type: McpKind | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Pair, ...] | None = None
    url: str | None = None
    headers: tuple[Pair, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind == "stdio" and self.command is None:
            raise ValueError("An MCP server that is started has a `command`.")
        if self.kind != "stdio" and self.url is None:
            raise ValueError("An MCP server that is reached has a `url`.")

    @property
    def kind(self) -> McpKind:
        """How it is reached."""
        return self.type or "stdio"

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Its environment or its headers."""
        return (self.env if self.kind == "stdio" else self.headers) or ()


def stdio_server(name: str, command: str, args: tuple[str, ...] = (), env: tuple[Pair, ...] = ()) -> McpServer:
    """A server that the agent starts."""
    return McpServer(name=name, command=command, args=args, env=env)


def remote_server(name: str, kind: Literal["http", "sse"], url: str, headers: tuple[Pair, ...] = ()) -> McpServer:
    """A server that the agent reaches."""
    return McpServer(name=name, type=kind, url=url, headers=headers)


class NewSessionRequest(Firm, frozen=True, kw_only=True):
    """Begin a session that works in `cwd`, which is an absolute path."""

    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], otherwise(())]
    additional_directories: tuple[str, ...] = ()


class SessionAt(Firm, frozen=True, kw_only=True):
    """A session that there is, and where it works from now on."""

    session_id: str
    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], otherwise(())]
    additional_directories: tuple[str, ...] = ()


class LoadSessionRequest(SessionAt, frozen=True, kw_only=True):
    """Open a session, and show all that was said in it before the answer."""


class ResumeSessionRequest(SessionAt, frozen=True, kw_only=True):
    """Open a session without showing what was said in it."""


class ForkSessionRequest(SessionAt, frozen=True, kw_only=True):
    """Begin a session with all that was said in this one."""


class SessionState(Shape, frozen=True, kw_only=True):
    """What is chosen for a session. None: there is nothing to choose."""

    modes: ModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None
    models: ModelState | None = None


class NewSessionResponse(SessionState, frozen=True, kw_only=True):
    """The session is there."""

    session_id: str


class LoadSessionResponse(SessionState, frozen=True, kw_only=True):
    """The session is open, and all of it was shown."""


class ResumeSessionResponse(SessionState, frozen=True, kw_only=True):
    """The session is open."""


class ForkSessionResponse(SessionState, frozen=True, kw_only=True):
    """The new session is there; nothing of it was shown."""

    session_id: str


class ListSessionsRequest(Firm, frozen=True, kw_only=True):
    """Which sessions are there: all, or those of one folder."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Shape, frozen=True, kw_only=True):
    """One session of a list. `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    additional_directories: tuple[str, ...] = ()


class ListSessionsResponse(Shape, frozen=True, kw_only=True):
    """A page of sessions; without `next_cursor` the last."""

    sessions: Annotated[tuple[SessionInfo, ...], otherwise(())]
    next_cursor: str | None = None


class OneSession(Firm, frozen=True, kw_only=True):
    """Params that name a session and no more."""

    session_id: str


class CloseSessionRequest(OneSession, frozen=True, kw_only=True):
    """Stop what runs and let go of it; it stays in the list."""


class DeleteSessionRequest(OneSession, frozen=True, kw_only=True):
    """Take it out of the list. One that is gone already is no error."""


class CancelNotification(OneSession, frozen=True, kw_only=True):
    """Stop the turn that runs; its prompt is answered with `cancelled`."""


class SetModeRequest(Firm, frozen=True, kw_only=True):
    """Work in this mode."""

    session_id: str
    mode_id: str


class SetModelRequest(Firm, frozen=True, kw_only=True):
    """Work with this model; for agents that still offer `models`."""

    session_id: str
    model_id: str


class SetConfigOptionRequest(Firm, frozen=True, kw_only=True):
    """Choose a value. For an option that is on or off `type` is `boolean` and the value is one."""

    session_id: str
    config_id: str
    type: str | None = None
    value: str | bool


class SetConfigOptionResponse(Shape, frozen=True, kw_only=True):
    """All options as they are now."""

    config_options: Annotated[tuple[ConfigOption, ...], otherwise(())]


class PromptRequest(Firm, frozen=True, kw_only=True):
    """What a person says."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


class Usage(Shape, frozen=True, kw_only=True):
    """What a turn cost in tokens. Not settled in the protocol."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResponse(Shape, frozen=True, kw_only=True):
    """The turn is over. `stop_reason` is a `StopReason`, or one that we don't know."""

    stop_reason: str
    usage: Usage | None = None


class CancelRequestNotification(Shape, frozen=True, kw_only=True):
    """Whoever made this request no longer waits for it."""

    request_id: int | str | None
