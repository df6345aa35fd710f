"""Every setting, declared once: the loader, the variables, the help and the reference page derive from here."""

# Annotations are values here, not text: they are evaluated at every start, and text would have to be compiled first.
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from threadline.config.schema import Setting, SettingPath, all_settings
from threadline.config.secrets import Secret
from threadline.errors import InvalidRequest
from threadline.model.access import Role
from threadline.model.address import SessionScope
from threadline.model.policy import INSTALLATION_ZONE, PERSON_ZONE, ResetMode, SessionResetPolicy, checked_zone
from threadline.model.source import MAIN_ACCOUNT, ChatType
from threadline.model.turn import WhenBusy

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
# The ACP agents whose command, variables and sign-in are built in.
AcpPreset: TypeAlias = Literal["claude", "codex", "copilot", "cursor", "gemini", "goose", "kimi", "opencode", "qwen"]
AcpPermissions: TypeAlias = Literal["ask", "allow", "deny"]

MAIN_AGENT = "main"
# The kinds of agents that come with Threadline. Packages bring more; all settings of these are declared here.
OWN_KINDS = ("acp", "echo", "function", "model")
# The group of entry points by which packages add agent kinds.
AGENT_GROUP = "threadline.agents"

_CENTURY_MINUTES = 100 * 366 * 24 * 60
_POLICY = SessionResetPolicy()
_SCOPE = SessionScope()


def setting(text: str, *, unset: str = "", example: object = None, rest: bool = False) -> msgspec.Meta:
    """Return the help for a setting. `unset` says what applies if it is not set; `example` is shown if it has no default."""
    return msgspec.Meta(description=text, extra={"unset": unset, "example": example, "rest": rest})


def _checked_day_zone(name: str) -> None:
    if name not in (INSTALLATION_ZONE, PERSON_ZONE):
        checked_zone(name)


def _checked_network(text: str) -> None:
    # Imported here: only installations behind a proxy need it.
    from ipaddress import ip_network

    try:
        ip_network(text, strict=False)
    except ValueError as cause:
        raise InvalidRequest(
            f"{text!r} is no address; use one such as 10.0.0.2, or a network such as 10.0.0.0/8"
        ) from cause


Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Minutes: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_CENTURY_MINUTES)]
Zone: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"check": checked_zone, "allowed": 'an IANA name such as "Europe/Berlin"'})
]
DayZone: TypeAlias = Annotated[
    str,
    msgspec.Meta(extra={"check": _checked_day_zone, "allowed": '"installation", "person" or an IANA name'}),
]
Slug: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"\A[a-z][a-z0-9_-]*\Z", extra={"allowed": "a name of lower-case letters, digits, - and _"}),
]
Id: TypeAlias = Annotated[str, msgspec.Meta(extra={"takes_numbers": True, "allowed": "the platform's id, as text"})]
PersonName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[a-z][a-z0-9_-]*(@[^:\s]+)?:[^\s].*\Z",
        extra={"allowed": 'a platform and the id of a person there, such as "telegram:7"'},
    ),
]
GroupName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A(\*|[a-z][a-z0-9_-]*(@[^:\s]+)?:[^\s].*)\Z",
        extra={"allowed": 'a platform and the id of a chat there, such as "telegram:-100123", or "*" for all'},
    ),
]
Callable: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z",
        extra={"allowed": 'a function by its module and name, such as "package.module:answer"'},
    ),
]
VariableName: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", extra={"allowed": 'the name of a variable, such as "MY_KEY"'}),
]
WholePath: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A(/|~(/|\Z))", extra={"allowed": 'a whole path, such as "/srv/agent", or one that begins with ~/'}
    ),
]
WebAddress: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\Ahttps?://[^\s@]+\Z",
        extra={"allowed": "an address that begins with http:// or https:// and holds no password"},
    ),
]

PublicUrl: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\Ahttps?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?\Z",
        extra={"allowed": 'an address with nothing behind the name, such as "https://chat.example.org"'},
    ),
]
HostName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?\Z",
        extra={"allowed": 'a name, with a port or without, such as "chat.example.org" or "192.168.1.5:8765"'},
    ),
]
Network: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"check": _checked_network, "allowed": 'an address or a network, such as "127.0.0.1"'})
]


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web page."""

    host: Annotated[str, setting("The address to listen at; other machines reach any but 127.0.0.1")] = "127.0.0.1"
    port: Annotated[Port | None, setting("The port to listen at", unset="8765, or the next free one", example=8765)] = (
        None
    )
    public_url: Annotated[
        PublicUrl | None,
        setting(
            "The address under which people reach the page, where a proxy stands before it",
            unset="the address that it listens at",
            example="https://chat.example.org",
        ),
    ] = None
    hosts: Annotated[tuple[HostName, ...], setting("Further names under which the page answers")] = ()
    trusted_proxies: Annotated[
        tuple[Network, ...], setting("The proxies whose X-Forwarded headers are believed: addresses or networks")
    ] = ()


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How messages become turns."""

    when_busy: Annotated[
        WhenBusy, setting("What becomes of messages that arrive while a turn of their session runs")
    ] = "collect"
    burst_seconds: Annotated[Seconds, setting("Messages that follow each other this closely become one turn")] = 0.6
    turns_at_once: Annotated[Count, setting("How many turns run at the same time")] = 32
    turns_per_person: Annotated[Count, setting("How many of them may be one person's")] = 2
    turns_per_platform: Annotated[Count, setting("How many of them may come from one platform")] = 16
    queue_per_session: Annotated[
        Count, setting("How many messages may wait in one session; the sender of any more is told")
    ] = 50
    lease_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=1, le=3600)],
        setting("How long a turn stays with a process that no longer answers"),
    ] = 15.0
    crash_back_off_seconds: Annotated[
        Seconds,
        setting(
            "How long a turn waits that was running when the gateway died; 4 and 15 times this after further deaths"
        ),
    ] = 2.0
    turn_silence_minutes: Annotated[Minutes, setting("A turn that gives no sign of life for this long is ended")] = 30
    drain_seconds: Annotated[Seconds, setting("How long running turns may go on after the gateway is told to stop")] = (
        20.0
    )
    welcome: Annotated[bool, setting("Whether the first conversation ever starts with a welcome")] = True
    default_agent: Annotated[Slug, setting("The agent that answers where no binding names another")] = MAIN_AGENT


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who shares a conversation."""

    group_sessions_per_user: Annotated[
        bool, setting("Whether each member of a group has a conversation of their own")
    ] = _SCOPE.group_sessions_per_user
    thread_sessions_per_user: Annotated[
        bool, setting("Whether each member has one of their own in threads, if they have in groups")
    ] = _SCOPE.thread_sessions_per_user


class ResetRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a conversation starts afresh. What is left out is as in [resets]."""

    mode: Annotated[ResetMode, setting("After a pause, at an hour of the day, at either, or never by itself")] = (
        _POLICY.mode
    )
    idle_minutes: Annotated[Minutes, setting("How long the pause is")] = _POLICY.idle_minutes
    at_hour: Annotated[Annotated[int, msgspec.Meta(ge=0, le=23)], setting("The hour of the day")] = _POLICY.at_hour
    timezone: Annotated[DayZone, setting("Whose clocks tell the hour")] = _POLICY.timezone
    grace_minutes: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=_CENTURY_MINUTES)],
        setting("No conversation starts afresh this soon after it was used"),
    ] = _POLICY.grace_minutes
    notify: Annotated[bool, setting("Whether people are told that a conversation started afresh")] = _POLICY.notify


class ResetSettings(ResetRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a conversation starts afresh by itself: by platform, else by chat type, else as here."""

    platform: Annotated[dict[Slug, ResetRule], setting("For one platform", example="telegram")] = {}
    type: Annotated[dict[ChatType, ResetRule], setting("For one type of chat", example="group")] = {}


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent that answers; further settings are those of a kind that a package brings."""

    kind: Annotated[
        Slug,
        setting(
            "What it is: echo repeats what it hears, function is a Python function, model asks a model, acp is a program of its own"
        ),
    ] = "echo"
    call: Annotated[Callable | None, setting("For a function: where it is", example="my_agents.main:answer")] = None
    model: Annotated[
        str | None,
        setting("For a model: its provider and name; for acp: the agent's own name of one", example="openai:gpt-5"),
    ] = None
    system_prompt: Annotated[
        str | None, setting("What a model is told before anything else", example="You are a helpful assistant.")
    ] = None
    base_url: Annotated[
        WebAddress | None,
        setting("Where the model's provider is", unset="the provider's own", example="http://127.0.0.1:11434/v1"),
    ] = None
    api_key: Annotated[
        Secret | None,
        setting("The key for the provider", unset="the provider's own variable", example=Secret("env:OPENAI_API_KEY")),
    ] = None
    temperature: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=2)] | None,
        setting("How freely a model chooses its words", unset="the model's own", example=0.7),
    ] = None
    max_tokens: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        setting("How long an answer may be", unset="the model's own", example=4096),
    ] = None
    history_limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        setting("How many messages of the conversation it is shown", unset="all of them", example=200),
    ] = None
    preset: Annotated[AcpPreset | None, setting("For acp: an agent whose command is known", example="claude")] = None
    command: Annotated[
        tuple[str, ...], setting("For acp: the program that answers and its arguments, where they are not the preset's")
    ] = ()
    env: Annotated[
        tuple[VariableName, ...],
        setting("For acp: the variables that it is given besides those that every program needs"),
    ] = ()
    cwd: Annotated[
        WholePath | None,
        setting(
            "For acp: the folder that it works in", unset="a folder of its own for each person", example="/srv/agent"
        ),
    ] = None
    permissions: Annotated[
        AcpPermissions | None,
        setting("For acp: what becomes of its questions whether it may do something", unset="ask", example="ask"),
    ] = None
    mode: Annotated[str | None, setting("For acp: the mode that it works in", unset="its own", example="plan")] = None
    auth_method: Annotated[
        str | None,
        setting("For acp: how it is signed in", unset="as the preset says, where it asks", example="gemini-api-key"),
    ] = None
    options: Annotated[dict[str, object], setting("The own settings of a kind that a package brings", rest=True)] = {}


class BindingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent answers where. The most exact one holds: a chat, else an account, else a platform."""

    agent: Annotated[Slug, setting("The agent that answers", example=MAIN_AGENT)]
    platform: Annotated[Slug | None, setting("On this platform alone", unset="on all", example="telegram")] = None
    account: Annotated[str | None, setting("For this account of ours alone", unset="for all", example=MAIN_ACCOUNT)] = (
        None
    )
    chat: Annotated[Id | None, setting("In this chat alone", unset="in all", example="-100123")] = None


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different in one chat."""

    platform: Annotated[Slug, setting("The chat's platform", example="telegram")]
    chat: Annotated[Id, setting("The chat's id", example="-100123")]
    account: Annotated[str | None, setting("For this account of ours alone", unset="for all", example=MAIN_ACCOUNT)] = (
        None
    )
    role: Annotated[
        Role | None,
        setting("What everybody's words in it may do", unset="what the least trusted speaker may", example="guest"),
    ] = None
    system_prompt: Annotated[
        str | None,
        setting("What the agent is told in it", unset="what it is told elsewhere", example="Answer briefly."),
    ] = None


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is answered, and what they may do."""

    owners: Annotated[tuple[PersonName, ...], setting('Who may do everything, such as "telegram:7"')] = ()
    trusted: Annotated[
        tuple[PersonName, ...], setting("Who may also use /model and /handoff; an agent may do more for them")
    ] = ()
    guests: Annotated[tuple[PersonName, ...], setting("Who may talk and use their own sessions")] = ()
    answer_groups: Annotated[
        tuple[GroupName, ...], setting('The groups in which everybody is answered, such as "telegram:-100123"')
    ] = ()
    pairing: Annotated[bool, setting("Whether a stranger is given a code that the owner can approve")] = True


class PlatformSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A platform that messages come from; further settings are the platform's own."""

    kind: Annotated[Slug, setting("Which platform it is", unset="NAME", example="telegram")]
    enabled: Annotated[bool, setting("Whether the gateway connects to it")] = True
    account: Annotated[str, setting("The name of our account there")] = MAIN_ACCOUNT
    options: Annotated[dict[str, object], setting("The platform's own settings", rest=True)] = {}


class HomeChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The chat of a platform where messages go that answer nobody."""

    platform: Annotated[Slug, setting("The chat's platform", example="telegram")]
    chat_id: Annotated[Id, setting("The chat's id", example="-100123")]
    name: Annotated[str, setting("What agents call it", example="Family")]
    thread_id: Annotated[Id | None, setting("The thread in it", unset="none", example="12")] = None
    account: Annotated[str, setting("The account of ours that is in it")] = MAIN_ACCOUNT


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models are told about people."""

    redact_pii: Annotated[
        bool, setting("Whether ids and phone numbers are hidden from models where they never need them")
    ] = False


def _main_agent() -> dict[str, AgentSettings]:
    return {MAIN_AGENT: AgentSettings()}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `None` means that nothing is set."""

    db: Annotated[
        str | None,
        setting(
            "Where the sessions are: a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE",
            unset="threadline.db in your data folder",
            example="postgresql://threadline@localhost/threadline",
        ),
    ] = None
    timezone: Annotated[
        Zone | None, setting("The time zone of this installation", unset="this machine's", example="Europe/Berlin")
    ] = None
    log_level: Annotated[LogLevel, setting("How much is logged")] = "info"
    web: WebSettings = WebSettings()
    gateway: GatewaySettings = GatewaySettings()
    sessions: SessionSettings = SessionSettings()
    resets: ResetSettings = ResetSettings()
    agents: Annotated[dict[Slug, AgentSettings], setting("By name", example=MAIN_AGENT)] = msgspec.field(
        default_factory=_main_agent
    )
    bindings: tuple[BindingSettings, ...] = ()
    chats: tuple[ChatSettings, ...] = ()
    access: AccessSettings = AccessSettings()
    platforms: Annotated[dict[Slug, PlatformSettings], setting("By name", example="telegram")] = {}
    home_channels: tuple[HomeChannelSettings, ...] = ()
    privacy: PrivacySettings = PrivacySettings()


class Origin(msgspec.Struct, frozen=True):
    """The origin of a value: a variable, else a line of the file, else the command line."""

    variable: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.variable is not None:
            return f"from {self.variable}"
        return "from the command line" if self.line is None else f"from the file, line {self.line}"


class Config(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in force, with the origin of each that is not a default. `path` is the file that was read."""

    path: Path | None = None
    origins: dict[SettingPath, Origin] = {}


DB: Setting = next(all_settings(Settings))

# The settings that every command uses, with or without a gateway. `all_settings(Settings)` gives all settings.
SETTINGS: tuple[Setting, ...] = (DB,)
