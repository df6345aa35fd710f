"""Findings about the configuration: problems, and warnings about doubtful settings."""

from __future__ import annotations

import difflib
import ipaddress
import shlex
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from threadline.config.load import current_environment, load_config
from threadline.config.secrets import Secret, find_reference, mask_password, resolve_secret
from threadline.config.settings import AGENT_GROUP, OWN_KINDS, Config
from threadline.errors import ConfigError
from threadline.local_user import is_in_our_folders
from threadline.model.client_sources import LOCAL_PLATFORMS

Severity: TypeAlias = Literal["problem", "warning"]


class ConfigFinding(msgspec.Struct, frozen=True):
    """A problem keeps Threadline from starting or an agent from answering; a warning does not."""

    severity: Severity
    text: str


def check(path: Path | None = None, environment: Mapping[str, str] | None = None) -> list[ConfigFinding]:
    """Return all findings, problems first. Secrets are fetched from variables and files, but no command is run."""
    variables = current_environment() if environment is None else environment
    try:
        config = load_config(path, variables)
    except ConfigError as error:
        return [ConfigFinding("problem", line) for line in str(error).splitlines()]
    problems = [
        ConfigFinding("problem", text) for text in (*_unknown_kinds(config), *_missing_secrets(config, variables))
    ]
    return problems + [ConfigFinding("warning", text) for text in _doubts(config)]


def _unknown_kinds(config: Config) -> Iterator[str]:
    known = sorted({*OWN_KINDS, *(point.name for point in entry_points(group=AGENT_GROUP))})
    for name, agent in config.agents.items():
        if agent.kind not in known:
            near = difflib.get_close_matches(agent.kind, known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(known)}, or install its package"
            yield f'agents.{name}.kind: no agent of the kind "{agent.kind}" is installed; {hint}'


def _missing_secrets(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    for name, secret in _secrets(config):
        if secret.place == "command":
            continue
        try:
            resolve_secret(secret, environment)
        except ConfigError as error:
            yield f"{name}: {error}"


def _secrets(config: Config) -> Iterator[tuple[str, Secret]]:
    """Yield every secret that will be used, with the name of its setting."""
    for name, agent in config.agents.items():
        if agent.api_key is not None:
            yield f"agents.{name}.api_key", agent.api_key
        yield from _references(agent.options, f"agents.{name}")
    for name, platform in config.platforms.items():
        if platform.enabled:
            yield from _references(platform.options, f"platforms.{name}")


def _references(value: object, name: str) -> Iterator[tuple[str, Secret]]:
    if isinstance(value, Mapping):
        for inner_name, inner in value.items():
            yield from _references(inner, f"{name}.{inner_name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner, name)
    elif isinstance(value, str) and (secret := find_reference(value)) is not None:
        yield name, secret


def _doubts(config: Config) -> Iterator[str]:
    if config.path is not None:
        yield from _file_doubts(config.path)
    if config.db is not None and mask_password(config.db) != config.db:
        yield "db: its password can be read by whoever reads this file; keep it in ~/.pgpass or in PGPASSFILE instead"
    if not _is_this_machine(config.web.host):
        yield f"web.host: other machines can reach {config.web.host}; use 127.0.0.1 unless a proxy guards the page"
    if "*" in config.access.answer_groups:
        yield 'access.answer_groups: with "*" everybody in any group that adds the agent is answered, at your expense'
    yield from _unknown_platforms(config)


def _file_doubts(path: Path) -> Iterator[str]:
    try:
        mode = path.stat().st_mode
    except OSError:
        # Deleted since it was read: nothing to warn about.
        return
    if stat.S_ISREG(mode) and mode & (stat.S_IWGRP | stat.S_IWOTH):
        fix = f"run: chmod 600 {shlex.quote(str(path))}" if is_in_our_folders(path) else "only you should be able to"
        yield f"others can change {path}, and with it the commands that run as you; {fix}"


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unknown_platforms(config: Config) -> Iterator[str]:
    """Yield a warning for each setting about a platform that is not configured or not enabled."""
    there = {name for name, platform in config.platforms.items() if platform.enabled}
    there |= {platform.kind for platform in config.platforms.values() if platform.enabled}
    named = [(f"bindings#{number}", binding.platform) for number, binding in enumerate(config.bindings, 1)]
    named += [(f"chats#{number}", chat.platform) for number, chat in enumerate(config.chats, 1)]
    named += [(f"home_channels#{number}", home.platform) for number, home in enumerate(config.home_channels, 1)]
    named += [(f"resets.platform.{name}", name) for name in config.resets.platform]
    for name, platform in named:
        if platform is not None and platform not in there.union(LOCAL_PLATFORMS):
            yield f"{name}: {platform} is no platform of yours; add [platforms.{platform}] or leave this out"
