"""How two peers get to know each other: who they are, what they can do, and how one signs in."""

from __future__ import annotations

from typing import Annotated

import msgspec

from threadline.rpc.acp.shape import Firm, Shape, otherwise

PROTOCOL_VERSION = 1


class Supported(Shape, frozen=True, kw_only=True):
    """It can be done. Written as an empty object; what can't be done is not written."""


class Implementation(Shape, frozen=True, kw_only=True):
    """A program."""

    name: str
    title: str | None = None
    version: Annotated[str, otherwise("")]


class FileSystemCapabilities(Shape, frozen=True, kw_only=True):
    """Whether the client reads and writes files for the agent."""

    read_text_file: bool = False
    write_text_file: bool = False


class ClientAuthCapabilities(Shape, frozen=True, kw_only=True):
    """Whether the client can run the agent in a terminal for people to sign in."""

    terminal: bool = False


class ConfigOptionsCapabilities(Shape, frozen=True, kw_only=True):
    """Which kinds of options the client knows besides selects."""

    boolean: Supported | None = None


class ClientSessionCapabilities(Shape, frozen=True, kw_only=True):
    """Which news of a session the client can show."""

    compaction: Supported | None = None
    config_options: ConfigOptionsCapabilities | None = None
    notices: Supported | None = None


class ElicitationCapabilities(Shape, frozen=True, kw_only=True):
    """How the client can ask people for more. An empty object means: not at all."""

    form: Supported | None = None
    url: Supported | None = None


class ClientCapabilities(Shape, frozen=True, kw_only=True):
    """What an agent may ask of the client."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities = ClientAuthCapabilities()
    elicitation: ElicitationCapabilities | None = None


class PromptCapabilities(Shape, frozen=True, kw_only=True):
    """What a prompt may hold besides text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Shape, frozen=True, kw_only=True):
    """Which MCP servers the agent reaches besides those that it starts."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(Shape, frozen=True, kw_only=True):
    """What can be done with sessions besides beginning and prompting them. `fork` is not settled in the protocol."""

    list: Supported | None = None
    delete: Supported | None = None
    additional_directories: Supported | None = None
    resume: Supported | None = None
    close: Supported | None = None
    fork: Supported | None = None


class AgentAuthCapabilities(Shape, frozen=True, kw_only=True):
    """Whether one can sign out."""

    logout: Supported | None = None


class AgentCapabilities(Shape, frozen=True, kw_only=True):
    """What a client may ask of the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()


class AuthMethod(Shape, frozen=True, kw_only=True):
    """One way to sign in. Without a `type` the agent does it, on `authenticate`; with `terminal` the client runs the agent
    again in a terminal, with these arguments and this environment besides, and never calls `authenticate`."""

    id: str
    name: str
    type: str | None = None
    description: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)


class InitializeRequest(Shape, frozen=True, kw_only=True):
    """The client's first words."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class InitializeResponse(Shape, frozen=True, kw_only=True):
    """The agent's answer: the same version where it speaks it, else the newest that it does."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: Annotated[tuple[AuthMethod, ...], otherwise(())]
    agent_info: Implementation | None = None


class AuthenticateRequest(Firm, frozen=True, kw_only=True):
    """Sign in this way."""

    method_id: str


class Nothing(Shape, frozen=True, kw_only=True):
    """Params or a result without anything in them."""
