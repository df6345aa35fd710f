"""The checks of `threadline doctor`: what a gateway needs, what is missing, and the command that fixes it."""

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


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check.

    `problem` says what is wrong and what to do, and is empty if nothing is. `details` says what is there, and `hint` what could
    be added or improved. In JSON the fields keep their earlier names.
    """

    subject: str = msgspec.field(name="what")
    problem: str = msgspec.field(name="fault", default="")
    details: str = msgspec.field(name="found", default="")
    hint: str = ""


def run_checks(*, agent: str | None = None, config: Path | None = None, db: str | None = None) -> Iterator[CheckResult]:
    """Check everything that a gateway needs and yield a result for each check. Changes nothing and sends nothing."""
    from threadline import __version__
    from threadline.assembly import with_agent
    from threadline.config.load import load_config
    from threadline.errors import ThreadlineError
    from threadline.local_user import default_config, default_database, user_folder

    yield CheckResult("threadline", details=f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    try:
        loaded = with_agent(load_config(config, overrides={} if db is None else {"db": db}), agent)
    except ThreadlineError as cause:
        yield CheckResult("configuration", str(cause))
        return
    place = loaded.db or str(default_database())
    yield _configuration(loaded)
    yield _database(place)
    yield from _gateway(place)
    for name in loaded.agents:
        yield _agent(loaded, name)
    yield _platforms(loaded)
    yield _folder("data folder", user_folder())
    yield _folder("settings folder", (loaded.path or default_config()).absolute().parent, is_written=False)
    yield _extras(loaded, place)
    yield from _alarms(loaded, place)


def _configuration(config: Config) -> CheckResult:
    from threadline.config.check import check

    if config.path is None:
        return CheckResult(
            "configuration", details="no file: the defaults hold", hint="`threadline config init` writes one"
        )
    doubts = [doubt.text for doubt in check(config.path) if doubt.severity == "warning"]
    return CheckResult("configuration", details=str(config.path), hint="\n".join(doubts))


def _database(place: str) -> CheckResult:
    from threadline.app import is_there, locate, open_existing
    from threadline.errors import ThreadlineError
    from threadline.store.engine.database import SqliteLocation

    located = locate(place)
    problem = _folder("", located.path.parent).problem if isinstance(located, SqliteLocation) else ""
    if problem or not is_there(located):
        return CheckResult("database", problem, f"{located.text}, which `threadline serve` makes")
    try:
        with open_existing(place) as store:
            facts = store.facts()
    except ThreadlineError as cause:
        return CheckResult("database", str(cause), located.text)
    engine = facts.engine
    size = render.format_size(engine.size_bytes + engine.wal_bytes)
    counts = f"{render.count_text(facts.sessions, 'session')}, {render.count_text(facts.messages, 'message')}"
    version = f"{engine.engine} {engine.engine_version}, schema {engine.schema_version}"
    return CheckResult("database", details=f"{engine.location}, {size}, {counts} ({version})")


def _gateway(place: str) -> Iterator[CheckResult]:
    from threadline.app import locate, served_by
    from threadline.store.engine.database import SqliteLocation

    # The gateways of a PostgreSQL server may run on other machines, which can't be seen from here.
    if isinstance(locate(place), SqliteLocation):
        yield CheckResult("gateway", details=str(served_by(place) or "none runs; `threadline serve` starts one"))


def _agent(config: Config, name: str) -> CheckResult:
    from threadline.assembly import Agents
    from threadline.errors import ThreadlineError

    agent, problem = config.agents[name], ""
    try:
        Agents(config).named(name)
    except ThreadlineError as cause:
        problem = str(cause)
    where = config.path or "the file that `threadline config init` writes"
    hint = f"it repeats what it hears; name a model in [agents.{name}] of {where}" if agent.kind == "echo" else ""
    return CheckResult(f"agent {name}", problem, _agent_text(agent), hint)


def _agent_text(agent: AgentSettings) -> str:
    # Arguments of a command may be secrets, and the output of doctor is shown to others.
    parts = (agent.preset, *agent.command[:1], agent.call, agent.model)
    return ", ".join([agent.kind, *(part for part in parts if part)])


def _platforms(config: Config) -> CheckResult:
    from threadline.assembly import platform_settings
    from threadline.errors import ThreadlineError
    from threadline.platforms.registry import addable_platforms, make_platform

    problems, names = [], []
    for name, settings in config.platforms.items():
        kind = "" if name == settings.kind else f" ({settings.kind})"
        names.append(f"{name}{kind}" if settings.enabled else f"{name}{kind}, which is switched off")
        try:
            if settings.enabled:
                make_platform(settings.kind, platform_settings(config, name))
        except ThreadlineError as cause:
            problems.append(f"{name}: {cause}")
    hint = "" if names else "\n".join(f"`threadline platforms add {kind}` adds one" for kind in addable_platforms())
    return CheckResult("platforms", "\n".join(problems), ", ".join(["the web page", *names]), hint)


def _folder(subject: str, folder: Path, *, is_written: bool = True) -> CheckResult:
    from threadline.local_user import is_in_our_folders

    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        mode = nearest.stat().st_mode
    except OSError as cause:
        return CheckResult(subject, f"{folder} can't be looked at: {cause.strerror}")
    if not stat.S_ISDIR(mode):
        return CheckResult(subject, f"{nearest} is no folder; choose another place", str(folder))
    details = f"{folder} ({stat.filemode(mode)})" if nearest == folder else f"{folder}, which is made when it is needed"
    # Advise a change of permissions only for folders that belong to Threadline.
    ours = is_in_our_folders(nearest)
    if is_written and not os.access(nearest, os.W_OK | os.X_OK):
        fix = f'run: sudo chown "$(id -un)" {shlex.quote(str(nearest))}' if ours else "choose another place"
        return CheckResult(subject, f"this user can't write to {nearest}; {fix}", details)
    is_open = ours and mode & (stat.S_IRWXG | stat.S_IRWXO)
    hint = f"others can look into it; run: chmod 700 {shlex.quote(str(nearest))}" if is_open else ""
    return CheckResult(subject, details=details, hint=hint)


def _extras(config: Config, place: str) -> CheckResult:
    """List installed extras and how to install the others. A missing extra that the configuration needs is a problem."""
    from importlib.metadata import distribution

    from threadline.app import locate
    from threadline.store.engine.database import PostgresLocation

    package = distribution("threadline")
    needed = {agent.kind for agent in config.agents.values()}
    needed |= {settings.kind for settings in config.platforms.values() if settings.enabled}
    needed |= {"postgres"} if isinstance(locate(place), PostgresLocation) else set()
    problems, hints, installed = [], [], []
    for extra, requirements in _requirements(package).items():
        fix = f"run: {_install_command(package, requirements)}"
        if all(_is_installed(requirement) for requirement in requirements):
            installed.append(extra)
        elif extra in needed:
            problems.append(f"{extra} is not installed, and the configuration needs it; {fix}")
        else:
            hints.append(f"{extra} is not installed; to use it, {fix}")
    return CheckResult("extras", "\n".join(problems), ", ".join(installed) or "none", "\n".join(hints))


def _requirements(package: Distribution) -> dict[str, list[str]]:
    """Return the requirements of each extra of the package."""
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


def _install_command(package: Distribution, requirements: list[str]) -> str:
    """Return the command that installs the requirements here: `make setup` in a checkout, else pip."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return f"make -C {shlex.quote(origin['url'].removeprefix('file://'))} setup"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(requirements)}"


def _alarms(config: Config, place: str) -> Iterator[CheckResult]:
    """Yield the open alerts that running gateways have raised."""
    from threadline.app import is_there, locate, with_gateway_store
    from threadline.assembly import alarms_of
    from threadline.errors import ThreadlineError
    from threadline.gateway.alarms import is_about_chat, is_about_message

    if not is_there(locate(place)):
        return
    try:
        alarms = with_gateway_store(place, lambda store: store.owner_alerts.list_open())
    except ThreadlineError:
        # The check of the database has reported this already.
        return
    for alarm in alarms:
        if is_about_message(alarm.name):
            until = "told for an hour"
        elif alarm.name in alarms_of(config) or is_about_chat(alarm.name):
            until = "until it has worked again"
        else:
            until = "about something that is not in this configuration"
        yield CheckResult(f"alarm since {render.format_time(alarm.since)}, {until}", alarm.text)
