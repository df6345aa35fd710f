"""`threadline doctor`: everything that a gateway needs, what is missing, and the command that fixes it."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from threadline.cli import render

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from threadline.config.settings import AgentSettings, Config

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)""")
_PACKAGE = re.compile(r"[\w.-]+")


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at.

    `fault` says what is wrong and what to do, and is empty where all is well. `found` says what is there, and `hint` what could
    be added or improved.
    """

    what: str
    fault: str = ""
    found: str = ""
    hint: str = ""


def diagnose(*, agent: str | None = None, config: Path | None = None, db: str | None = None) -> Iterator[Finding]:
    """Looks at everything that a gateway needs, one finding each: nothing is changed, nothing is sent."""
    from threadline import __version__
    from threadline.assembly import with_agent
    from threadline.config.load import load_config
    from threadline.errors import ThreadlineError
    from threadline.local_user import default_config, default_database, user_folder

    yield Finding("threadline", found=f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    try:
        held = with_agent(load_config(config, overrides={} if db is None else {"db": db}), agent)
    except ThreadlineError as cause:
        yield Finding("configuration", str(cause))
        return
    place = held.db or str(default_database())
    yield _configuration(held)
    yield _database(place)
    yield from _gateway(place)
    for name in held.agents:
        yield _agent(held, name)
    yield _platforms(held)
    yield _folder("data folder", user_folder())
    yield _folder("settings folder", (held.path or default_config()).absolute().parent, is_written=False)
    yield _extras(held, place)
    yield from _alarms(held, place)


def _configuration(config: Config) -> Finding:
    from threadline.config.check import check

    if config.path is None:
        return Finding("configuration", found="no file: the defaults hold", hint="`threadline config init` writes one")
    doubts = [doubt.text for doubt in check(config.path) if doubt.severity == "warning"]
    return Finding("configuration", found=str(config.path), hint="\n".join(doubts))


def _database(place: str) -> Finding:
    from threadline.app import is_there, locate, open_existing
    from threadline.errors import ThreadlineError
    from threadline.store.engine.database import SqliteLocation

    located = locate(place)
    fault = _folder("", located.path.parent).fault if isinstance(located, SqliteLocation) else ""
    if fault or not is_there(located):
        return Finding("database", fault, f"{located.text}, which `threadline serve` makes")
    try:
        with open_existing(place) as store:
            facts = store.facts()
    except ThreadlineError as cause:
        return Finding("database", str(cause), located.text)
    engine = facts.engine
    size = render.size(engine.size_bytes + engine.wal_bytes)
    counts = f"{render.counted(facts.sessions, 'session')}, {render.counted(facts.messages, 'message')}"
    version = f"{engine.engine} {engine.engine_version}, schema {engine.schema_version}"
    return Finding("database", found=f"{engine.location}, {size}, {counts} ({version})")


def _gateway(place: str) -> Iterator[Finding]:
    from threadline.app import locate, served_by
    from threadline.store.engine.database import SqliteLocation

    # Of a server only the others could tell which gateways it has.
    if isinstance(locate(place), SqliteLocation):
        yield Finding("gateway", found=str(served_by(place) or "none runs; `threadline serve` starts one"))


def _agent(config: Config, name: str) -> Finding:
    from threadline.assembly import Agents
    from threadline.errors import ThreadlineError

    agent, fault = config.agents[name], ""
    try:
        Agents(config).named(name)
    except ThreadlineError as cause:
        fault = str(cause)
    where = config.path or "the file that `threadline config init` writes"
    hint = f"it repeats what it hears; name a model in [agents.{name}] of {where}" if agent.kind == "echo" else ""
    return Finding(f"agent {name}", fault, _described(agent), hint)


def _described(agent: AgentSettings) -> str:
    # Arguments of a command may be secrets, and what is told here is shown to others.
    parts = (agent.preset, *agent.command[:1], agent.call, agent.model)
    return ", ".join([agent.kind, *(part for part in parts if part)])


def _platforms(config: Config) -> Finding:
    from threadline.assembly import platform_settings
    from threadline.errors import ThreadlineError
    from threadline.platforms.registry import addable_platforms, make_platform

    faults, found = [], []
    for name, one in config.platforms.items():
        kind = "" if name == one.kind else f" ({one.kind})"
        found.append(f"{name}{kind}" if one.enabled else f"{name}{kind}, which is switched off")
        try:
            if one.enabled:
                make_platform(one.kind, platform_settings(config, name))
        except ThreadlineError as cause:
            faults.append(f"{name}: {cause}")
    hint = "" if found else "\n".join(f"`threadline platforms add {kind}` adds one" for kind in addable_platforms())
    return Finding("platforms", "\n".join(faults), ", ".join(["the web page", *found]), hint)


def _folder(what: str, folder: Path, *, is_written: bool = True) -> Finding:
    from threadline.local_user import is_in_our_folders

    try:
        there = next(one for one in (folder, *folder.parents) if one.exists())
        mode = there.stat().st_mode
    except OSError as cause:
        return Finding(what, f"{folder} can't be looked at: {cause.strerror}")
    if not stat.S_ISDIR(mode):
        return Finding(what, f"{there} is no folder; choose another place", str(folder))
    found = f"{folder} ({stat.filemode(mode)})" if there == folder else f"{folder}, which is made when it is needed"
    # Of folders that are not ours nobody's rights are to be changed on our word.
    ours = is_in_our_folders(there)
    if is_written and not os.access(there, os.W_OK | os.X_OK):
        fix = f'run: sudo chown "$(id -un)" {shlex.quote(str(there))}' if ours else "choose another place"
        return Finding(what, f"this user can't write to {there}; {fix}", found)
    is_open = ours and mode & (stat.S_IRWXG | stat.S_IRWXO)
    hint = f"others can look into it; run: chmod 700 {shlex.quote(str(there))}" if is_open else ""
    return Finding(what, found=found, hint=hint)


def _extras(config: Config, place: str) -> Finding:
    """Says which extras are installed, and how to install the others; a fault where the configuration needs one of those."""
    from importlib.metadata import distribution

    from threadline.app import locate
    from threadline.store.engine.database import PostgresLocation

    package = distribution("threadline")
    needed = {agent.kind for agent in config.agents.values()}
    needed |= {one.kind for one in config.platforms.values() if one.enabled}
    needed |= {"postgres"} if isinstance(locate(place), PostgresLocation) else set()
    faults, hints, found = [], [], []
    for extra, requirements in _requirements(package).items():
        fix = f"run: {_installing(package, requirements)}"
        if all(_is_installed(one) for one in requirements):
            found.append(extra)
        elif extra in needed:
            faults.append(f"{extra} is not installed, and the configuration needs it; {fix}")
        else:
            hints.append(f"{extra} is not installed; to use it, {fix}")
    return Finding("extras", "\n".join(faults), ", ".join(found) or "none", "\n".join(hints))


def _requirements(package: Distribution) -> dict[str, list[str]]:
    """What each extra of the package asks for."""
    extras: dict[str, list[str]] = {}
    for line in package.requires or []:
        requirement, _, marker = line.partition(";")
        if (extra := _EXTRA.search(marker)) is not None:
            extras.setdefault(extra.group(1), []).append(requirement.strip())
    return extras


def _is_installed(requirement: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    named = _PACKAGE.match(requirement)
    try:
        return named is not None and bool(version(named.group()))
    except PackageNotFoundError:
        return False


def _installing(package: Distribution, requirements: list[str]) -> str:
    """The command that installs them where this program runs: in a checkout that of its Makefile, else pip's."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return f"make -C {shlex.quote(origin['url'].removeprefix('file://'))} setup"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(requirements)}"


def _alarms(config: Config, place: str) -> Iterator[Finding]:
    """What fails until somebody fixes it, as running gateways found it."""
    from threadline.app import is_there, locate, with_gateway_store
    from threadline.assembly import alarms_of
    from threadline.errors import ThreadlineError
    from threadline.gateway.alarms import is_about_chat, is_about_message

    if not is_there(locate(place)):
        return
    try:
        alarms = with_gateway_store(place, lambda store: store.owner_alerts.list_open())
    except ThreadlineError:
        # What is wrong with the database was told before.
        return
    for alarm in alarms:
        if is_about_message(alarm.name):
            until = "told for an hour"
        elif alarm.name in alarms_of(config) or is_about_chat(alarm.name):
            until = "until it has worked again"
        else:
            until = "about something that is not in this configuration"
        yield Finding(f"alarm since {render.when(alarm.since)}, {until}", alarm.text)
