"""What clients ask of agents: `initialize` and the methods of sessions."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from threadline.rpc.acp.content import AcpStruct, ContentBlock, StrictStruct, default_when_invalid

__all__ = [
    "PROTOCOL_VERSION",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthMethod",
    "AuthenticateRequest",
    "CancelNotification",
    "CancelRequestNotification",
    "ClientAuthCapabilities",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "ConfigBoolean",
    "ConfigCategory",
    "ConfigChoice",
    "ConfigOption",
    "ConfigOptionsCapabilities",
    "ConfigSelect",
    "DeleteSessionRequest",
    "ElicitationCapabilities",
    "Empty",
    "FileSystemCapabilities",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "McpCapabilities",
    "McpKind",
    "McpServer",
    "Mode",
    "ModeState",
    "Model",
    "ModelState",
    "NameValue",
    "NewSessionRequest",
    "NewSessionResponse",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "PromptStopReason",
    "PromptUsage",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "SessionCapabilities",
    "SessionIdParams",
    "SessionInFolder",
    "SessionInfo",
    "SessionState",
    "SetConfigOptionRequest",
    "SetConfigOptionResponse",
    "SetModeRequest",
    "SetModelRequest",
    "Supported",
    "remote_server",
    "stdio_server",
]

PROTOCOL_VERSION = 1

# Options may have other categories too: those that begin with `_`.
ConfigCategory: TypeAlias = Literal["mode", "model", "model_config", "thought_level"]

# Agents in use know others besides; those stay as they came.
PromptStopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
McpKind: TypeAlias = Literal["stdio", "http", "sse"]


class Supported(AcpStruct, frozen=True, kw_only=True):
    """It can be done. Written as an empty object; what can't be done is not written."""


class Implementation(AcpStruct, frozen=True, kw_only=True):
    """A program."""

    name: str
    title: str | None = None
    version: Annotated[str, default_when_invalid("")]


class FileSystemCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Whether the client reads and writes files for the agent."""

    read_text_file: bool = False
    write_text_file: bool = False


class ClientAuthCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Whether the client can run the agent in a terminal for people to sign in."""

    terminal: bool = False


class ConfigOptionsCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Which kinds of options the client knows besides selects."""

    boolean: Supported | None = None


class ClientSessionCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Which news of a session the client can show."""

    compaction: Supported | None = None
    config_options: ConfigOptionsCapabilities | None = None
    notices: Supported | None = None


class ElicitationCapabilities(AcpStruct, frozen=True, kw_only=True):
    """How the client can ask people for more. An empty object means: not at all."""

    form: Supported | None = None
    url: Supported | None = None


class ClientCapabilities(AcpStruct, frozen=True, kw_only=True):
    """What an agent may ask of the client."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities = ClientAuthCapabilities()
    elicitation: ElicitationCapabilities | None = None


class PromptCapabilities(AcpStruct, frozen=True, kw_only=True):
    """What a prompt may hold besides text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Which MCP servers the agent reaches besides those that it starts."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(AcpStruct, frozen=True, kw_only=True):
    """What can be done with sessions besides beginning and prompting them. `fork` is not settled in the protocol."""

    list: Supported | None = None
    delete: Supported | None = None
    additional_directories: Supported | None = None
    resume: Supported | None = None
    close: Supported | None = None
    fork: Supported | None = None


class AgentAuthCapabilities(AcpStruct, frozen=True, kw_only=True):
    """Whether one can sign out."""

    logout: Supported | None = None


class AgentCapabilities(AcpStruct, frozen=True, kw_only=True):
    """What a client may ask of the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()


class AuthMethod(AcpStruct, frozen=True, kw_only=True):
    """One way to sign in. Without a `type` the agent does it, on `authenticate`; with `terminal` the client runs the agent
    again in a terminal, with these arguments and this environment besides, and never calls `authenticate`."""

    id: str
    name: str
    type: str | None = None
    description: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)


class InitializeRequest(AcpStruct, frozen=True, kw_only=True):
    """The client's first words."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class InitializeResponse(AcpStruct, frozen=True, kw_only=True):
    """The agent's answer: the same version where it speaks it, else the newest that it does."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: Annotated[tuple[AuthMethod, ...], default_when_invalid(())]
    agent_info: Implementation | None = None


class AuthenticateRequest(StrictStruct, frozen=True, kw_only=True):
    """Sign in this way."""

    method_id: str


class Empty(AcpStruct, frozen=True, kw_only=True):
    """Params or a result without anything in them."""


class Mode(AcpStruct, frozen=True, kw_only=True):
    """One way of working."""

    id: str
    name: str
    description: str | None = None


class ModeState(AcpStruct, frozen=True, kw_only=True):
    """The modes there are, and the one that holds."""

    current_mode_id: str
    available_modes: Annotated[tuple[Mode, ...], default_when_invalid(())]


class Model(AcpStruct, frozen=True, kw_only=True):
    """A model, as agents offered it before there were options."""

    model_id: str
    name: str
    description: str | None = None


class ModelState(AcpStruct, frozen=True, kw_only=True):
    """The models there are, and the one that holds. No longer in the protocol, but still sent by agents in use."""

    current_model_id: str
    available_models: Annotated[tuple[Model, ...], default_when_invalid(())]


class ConfigChoice(AcpStruct, frozen=True, kw_only=True):
    """A value to choose (`value`), or a group of such (`group`, `options`)."""

    name: str
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: tuple[ConfigChoice, ...] | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.group is None):
            raise ValueError("A choice has either a `value` or is a `group`.")


class ConfigSelect(AcpStruct, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """One of many. `category` is a `ConfigCategory` or the peer's own."""

    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: str
    options: tuple[ConfigChoice, ...]

    @property
    def choices(self) -> tuple[ConfigChoice, ...]:
        """The values, groups opened, in their order."""
        return tuple(leaf for one in self.options for leaf in (one.options or (one,)) if leaf.value is not None)


class ConfigBoolean(AcpStruct, frozen=True, kw_only=True, tag_field="type", tag="boolean"):
    """On or off. Only for clients that say that they know of it."""

    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: bool


ConfigOption: TypeAlias = ConfigSelect | ConfigBoolean


class NameValue(StrictStruct, frozen=True, kw_only=True):
    """A variable of an environment, or a header. Its value may be secret and is not shown."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Pair(name={self.name!r})"


class McpServer(StrictStruct, frozen=True, kw_only=True):
    """A server of tools: one that the agent starts (without a `type`), or one that it reaches.

    `stdio_server` and `remote_server` make them with all that the protocol wants to see written.
    """

    name: str
    type: McpKind | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[NameValue, ...] | None = None
    url: str | None = None
    headers: tuple[NameValue, ...] | None = None

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
    def pairs(self) -> tuple[NameValue, ...]:
        """Its environment or its headers."""
        return (self.env if self.kind == "stdio" else self.headers) or ()


def stdio_server(name: str, command: str, args: tuple[str, ...] = (), env: tuple[NameValue, ...] = ()) -> McpServer:
    """A server that the agent starts."""
    return McpServer(name=name, command=command, args=args, env=env)


def remote_server(name: str, kind: Literal["http", "sse"], url: str, headers: tuple[NameValue, ...] = ()) -> McpServer:
    """A server that the agent reaches."""
    return McpServer(name=name, type=kind, url=url, headers=headers)


class NewSessionRequest(StrictStruct, frozen=True, kw_only=True):
    """Begin a session that works in `cwd`, which is an absolute path."""

    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], default_when_invalid(())]
    additional_directories: tuple[str, ...] = ()


class SessionInFolder(StrictStruct, frozen=True, kw_only=True):
    """A session that there is, and where it works from now on."""

    session_id: str
    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], default_when_invalid(())]
    additional_directories: tuple[str, ...] = ()


class LoadSessionRequest(SessionInFolder, frozen=True, kw_only=True):
    """Open a session, and show all that was said in it before the answer."""


class ResumeSessionRequest(SessionInFolder, frozen=True, kw_only=True):
    """Open a session without showing what was said in it."""


class ForkSessionRequest(SessionInFolder, frozen=True, kw_only=True):
    """Begin a session with all that was said in this one."""


class SessionState(AcpStruct, frozen=True, kw_only=True):
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


class ListSessionsRequest(StrictStruct, frozen=True, kw_only=True):
    """Which sessions are there: all, or those of one folder."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(AcpStruct, frozen=True, kw_only=True):
    """One session of a list. `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    additional_directories: tuple[str, ...] = ()


class ListSessionsResponse(AcpStruct, frozen=True, kw_only=True):
    """A page of sessions; without `next_cursor` the last."""

    sessions: Annotated[tuple[SessionInfo, ...], default_when_invalid(())]
    next_cursor: str | None = None


class SessionIdParams(StrictStruct, frozen=True, kw_only=True):
    """Params that name a session and no more."""

    session_id: str


class CloseSessionRequest(SessionIdParams, frozen=True, kw_only=True):
    """Stop what runs and let go of it; it stays in the list."""


class DeleteSessionRequest(SessionIdParams, frozen=True, kw_only=True):
    """Take it out of the list. One that is gone already is no error."""


class CancelNotification(SessionIdParams, frozen=True, kw_only=True):
    """Stop the turn that runs; its prompt is answered with `cancelled`."""


class SetModeRequest(StrictStruct, frozen=True, kw_only=True):
    """Work in this mode."""

    session_id: str
    mode_id: str


class SetModelRequest(StrictStruct, frozen=True, kw_only=True):
    """Work with this model; for agents that still offer `models`."""

    session_id: str
    model_id: str


class SetConfigOptionRequest(StrictStruct, frozen=True, kw_only=True):
    """Choose a value. For an option that is on or off `type` is `boolean` and the value is one."""

    session_id: str
    config_id: str
    type: str | None = None
    value: str | bool


class SetConfigOptionResponse(AcpStruct, frozen=True, kw_only=True):
    """All options as they are now."""

    config_options: Annotated[tuple[ConfigOption, ...], default_when_invalid(())]


class PromptRequest(StrictStruct, frozen=True, kw_only=True):
    """What a person says."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


class PromptUsage(AcpStruct, frozen=True, kw_only=True):
    """What a turn cost in tokens. Not settled in the protocol."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResponse(AcpStruct, frozen=True, kw_only=True):
    """The turn is over. `stop_reason` is a `PromptStopReason`, or one that we don't know."""

    stop_reason: str
    usage: PromptUsage | None = None


class CancelRequestNotification(AcpStruct, frozen=True, kw_only=True):
    """Whoever made this request no longer waits for it."""

    request_id: int | str | None
