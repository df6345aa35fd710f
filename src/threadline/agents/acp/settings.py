"""Settings of an ACP agent: presets, command, environment and limits."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from threadline.agents.registry import AgentSetup
from threadline.config.settings import AcpPreset
from threadline.errors import InvalidRequest
from threadline.ports.agent import AgentError
from threadline.texts import acp_agents as texts

Permissions: TypeAlias = Literal["ask", "allow", "deny"]

# What every program needs to find its way about. Of what else this process knows, only what the owner names goes along.
_ALWAYS = frozenset({"PATH", "HOME", "LANG", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"})
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_FAMILIES = ("LC_", "XDG_")


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A known agent. `install` and `login` are what its owner does once on the gateway's machine."""

    command: tuple[str, ...]
    install: str
    login: str
    # The variables that it reads: keys, addresses, and where its own settings are.
    env: tuple[str, ...] = ()
    # How it is signed in where a variable is set: the variable, and the method's id.
    keys: tuple[tuple[str, str], ...] = ()


PRESETS: Mapping[AcpPreset, Preset] = {
    "claude": Preset(
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        login="run `claude` and use its /login, or set ANTHROPIC_API_KEY for the gateway",
        # Run by root it refuses to work unless it is told that it is in a sandbox.
        env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "IS_SANDBOX"),
    ),
    "codex": Preset(
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        login="run `codex login`",
        env=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME", "CODEX_PATH"),
    ),
    "copilot": Preset(
        command=("copilot", "--acp", "--stdio"),
        install="npm install -g @github/copilot",
        login="run `copilot` and use its /login",
        env=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
    ),
    "cursor": Preset(
        command=("cursor-agent", "acp"),
        install="see https://cursor.com/docs/cli",
        login="run `cursor-agent login`, or set CURSOR_API_KEY for the gateway",
        env=("CURSOR_API_KEY",),
    ),
    "gemini": Preset(
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        login="run `gemini` and sign in, or set GEMINI_API_KEY for the gateway",
        env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        keys=(("GEMINI_API_KEY", "gemini-api-key"),),
    ),
    "goose": Preset(
        command=("goose", "acp"),
        install="see https://block.github.io/goose",
        login="run `goose configure`",
        env=("GOOSE_PROVIDER", "GOOSE_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
    ),
    "kimi": Preset(
        command=("kimi", "acp"),
        install="see https://github.com/MoonshotAI/kimi-cli",
        login="run `kimi acp --login`",
    ),
    "opencode": Preset(
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        login="run `opencode auth login`",
        env=(
            "OPENCODE_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
        ),
    ),
    "qwen": Preset(
        command=("qwen", "--acp"),
        install="npm install -g @qwen-code/qwen-code",
        login="run `qwen` and sign in, or set OPENAI_API_KEY for the gateway",
        env=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
    ),
}


class AcpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts, in seconds, and upper bounds on what an agent may send."""

    start: float = 60.0
    call: float = 60.0
    # What a turn gets to end after it was cancelled, and a process after it was told to end.
    cancel: float = 5.0
    end: float = 1.0
    idle: float = 600.0
    # After so long without a word of what was said before, a session that was loaded has told all.
    history_idle_seconds: float = 0.25
    # A question is open for a day.
    question_seconds: float = 25 * 3600.0
    # Between two starts, once it has ended by itself twice: twice as long each time.
    first_restart_pause: float = 1.0
    longest_restart_pause: float = 60.0
    processes: int = 16
    # Of one turn: characters said and thought, characters of tools, other events; and updates that tell nothing.
    max_text_chars: int = 1_000_000
    max_tool_chars: int = 16_000_000
    events: int = 5_000
    updates: int = 100_000
    questions: int = 20
    # Lines that are no message, in a row; and messages that belong to no turn, less what those that do make up for.
    max_noise_lines: int = 100
    max_stray_messages: int = 10_000


class AcpAgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as its owner configured it. `env` holds secrets and is never shown."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    permissions: Permissions = "ask"
    mode: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    auth_method: str | None = None
    # A method to try where the agent asks to be signed in, and what its owner can do instead.
    key_method: str | None = None
    login: str = ""

    @property
    def digest(self) -> str:
        """Return a digest of the command: a session belongs to the program that created it."""
        return hashlib.blake2b("\x00".join(self.command).encode(), digest_size=6).hexdigest()

    def __repr__(self) -> str:
        return f"AcpAgentConfig(name={self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name)]


def read_config(settings: AgentSetup, environment: Mapping[str, str]) -> AcpAgentConfig:
    """Return the agent that the settings describe. Raises `AgentError` if its program is not installed."""
    preset = PRESETS.get(cast("AcpPreset", settings.preset))
    command = settings.command or (() if preset is None else preset.command)
    if not command:
        known = ", ".join(PRESETS)
        raise InvalidRequest(f"an acp agent needs `preset`, one of {known}, or `command`: the program that answers")
    env = child_environment(environment, (*settings.env, *(() if preset is None else preset.env)))
    name = settings.preset or Path(command[0]).name
    found = shutil.which(command[0], path=env.get("PATH"))
    if found is None:
        install = "" if preset is None else texts.INSTALL.format(install=preset.install)
        raise AgentError(texts.NOT_THERE.format(program=command[0], agent=name, install=install), is_owners=True)
    return AcpAgentConfig(
        name=name,
        command=(found, *command[1:]),
        env=env,
        cwd=None if settings.cwd is None else str(Path(settings.cwd).expanduser()),
        permissions=_permissions(settings.permissions),
        mode=settings.mode,
        model=settings.model,
        system_prompt=settings.system_prompt,
        auth_method=settings.auth_method,
        key_method=_key_method(preset, env),
        login="" if preset is None else texts.LOGIN.format(login=preset.login),
    )


def child_environment(environment: Mapping[str, str], named: tuple[str, ...]) -> dict[str, str]:
    """The variables that a program is given: those that all need, and those that are named."""
    return {name: value for name, value in environment.items() if name in named or _is_harmless(name)}


def _is_harmless(name: str) -> bool:
    return name in _ALWAYS or name.upper() in _PROXIES or name.startswith(_FAMILIES)


def _permissions(chosen: str | None) -> Permissions:
    if chosen not in (None, "ask", "allow", "deny"):
        raise InvalidRequest(f"`permissions` is ask, allow or deny, not {chosen!r}")
    return cast("Permissions", chosen or "ask")


def _key_method(preset: Preset | None, env: Mapping[str, str]) -> str | None:
    keys = () if preset is None else preset.keys
    return next((method for variable, method in keys if env.get(variable)), None)
