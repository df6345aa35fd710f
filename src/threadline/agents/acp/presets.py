"""The agents whose command, variables and way of signing in are known."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from threadline.config.settings import AcpPreset


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. `install` and `login` are what its owner does once on the gateway's machine."""

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
