"""The composition root: the only module that puts the concrete parts together."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from threadline.config.load import load_config
from threadline.config.settings import Config
from threadline.errors import InvalidLocation, ThreadlineError
from threadline.local_user import agents_folder, default_database, ensure_user_folder, web_token_file
from threadline.log import EventFormatter, get_logger
from threadline.store.engine.database import Location, SqliteLocation, parse_location
from threadline.store.engine.sqlite.database import Holder, ServeLock
from threadline.store.facade import SessionStore
from threadline.texts import platforms as platforms_texts

if TYPE_CHECKING:
    # Loaded where they are used: most commands need no gateway, and would pay for it at every start.
    from threadline.assembly import Agents, Running
    from threadline.gateway.gateway import Gateway
    from threadline.platforms.registry import PlatformSetup
    from threadline.ports.platform import Platform, Probed
    from threadline.store.facade import GatewayStore

log = get_logger(__name__)

# Settings of the page that it is made with.
_READ_ONCE = ("public_url", "hosts", "trusted_proxies")

T = TypeVar("T")
Tell: TypeAlias = Callable[[str], None]


def locate(db: str | None = None) -> Location:
    """The place that `db` names, else the one that the environment names, else the user's data folder."""
    wanted: str | Path = db or load_config().db or default_database()
    try:
        return parse_location(wanted)
    except RuntimeError as cause:
        raise InvalidLocation(f"{wanted} names a home folder that is not there; write the path out") from cause


def is_there(place: Location) -> bool:
    """Whether there is something to open. Of a server only opening it can tell."""
    if not isinstance(place, SqliteLocation):
        return True
    try:
        place.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # It may well be there; opening it says what is wrong.
        return True
    return True


def open_existing(db: str | None = None) -> SessionStore:
    """An open store that was there before. Where there is none `InvalidLocation`, and no file is made.

    An older schema is `SchemaTooOld`: looking at a database never changes it.
    """
    place = locate(db)
    if not is_there(place):
        raise InvalidLocation(
            f"there is no database at {place.text}; `threadline db migrate` makes one, --db names another"
        )
    return SessionStore.open(_reopenable(place), migrate=False)


def with_gateway_store(db: str | None, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    """Opens the gateway's side of a store that was there before, does the work and closes it."""
    return asyncio.run(_with_gateway_store(db, work))


async def _with_gateway_store(db: str | None, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    place = locate(db)
    if not is_there(place):
        raise InvalidLocation(f"there is no database at {place.text}; `threadline serve` makes one, --db names another")
    return await _with_store(place, work)


async def _with_store(place: Location, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    from threadline.store.facade import GatewayStore

    async with await GatewayStore.open(_reopenable(place), migrate=False) as store:
        return await work(store)


def open_or_make(db: str | None = None) -> SessionStore:
    """An open store, made where it was missing and brought up to date where it was older."""
    return SessionStore.open(_prepared(locate(db)))


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What `serve` was asked on the command line; what it does not say, the configuration does."""

    db: str | None = None
    host: str | None = None
    port: int | None = None
    agent: str | None = None
    config: Path | None = None


def probe_platform(kind: str, settings: PlatformSetup) -> Probed | None:
    """Tries a platform out, without listening; `None` where its kind can't tell anything that way. What is wrong is raised."""
    from threadline.assembly import probed

    return asyncio.run(probed(kind, settings))


def erase_agent_folders(person: str) -> int:
    """Removes the folders in which agents have worked for a person, with all that is in them; how many there were."""
    from threadline.agents.acp.pool import folder_name

    folders = [folder for folder in agents_folder().glob(f"*/{folder_name(person)}") if folder.is_dir()]
    for folder in folders:
        shutil.rmtree(folder)
    return len(folders)


def served_by(db: str | None) -> Holder | None:
    """Who serves the database now, as far as this machine can tell; `None`: nobody, or it is on a server."""
    place = locate(db)
    return ServeLock.holder_of(place.path) if isinstance(place, SqliteLocation) else None


def serve(wanted: Serving, *, ready: Tell, note: Tell) -> None:
    """Runs the gateway with its web page until SIGTERM or SIGINT, then lets what runs finish and returns.

    SIGHUP lets it read its configuration anew; one that can't be used changes nothing.

    `ready` is told the address once it answers; `note` is told what a person should know. Without a port the first free one
    from the usual one on is used; one that was asked for and is taken is `InvalidRequest`. A file that another gateway
    serves is `AlreadyServed`.
    """
    from threadline.web.server import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(wanted, ready, note))


async def _serve(wanted: Serving, ready: Tell, note: Tell) -> None:
    from threadline.assembly import Platforms, Running, alarms_of
    from threadline.web.guard import SiteNames
    from threadline.web.server import address_file, bind, published_address, run_server
    from threadline.web.token import TokenFile, owner_link
    from threadline.webpage import WebPage

    config = _configured(wanted.config, wanted.db, wanted.agent)
    _log_to(logging.StreamHandler(sys.stderr), config.log_level)
    host, port = wanted.host or config.web.host, wanted.port if wanted.port is not None else config.web.port
    token = TokenFile(web_token_file(), note)
    with (
        _serving_alone(_place(config)) as announce,
        bind(host, port, note) as listening,
        _hangups() as hangup,
        ExitStack() as told,
    ):
        await asyncio.to_thread(token.current)
        platforms = await asyncio.to_thread(Platforms, config)
        async with (
            _opened(config) as store,
            WebPage(store) as page,
            _working(config, "serve", store, [*platforms.all(), page.platform]) as (gateway, agents),
        ):
            running = Running(gateway, store, agents, platforms, config, always=[page.platform])
            gateway.alarms.known = alarms_of(config)
            if isinstance(_place(config), SqliteLocation):
                # A file is served by one gateway. On a server others may know what this configuration does not name.
                await gateway.alarms.forget_all_but(alarms_of(config))
            app = page.application(gateway, token, SiteNames.of(host, listening.getsockname()[1], config.web))
            _advise(config, note)

            def answers_at(address: str) -> None:
                shown = config.web.public_url or address
                announce(shown)
                told.enter_context(published_address(address_file(token.path), shown))
                ready(owner_link(shown, token.current()))

            async with _reloading(running, wanted, config, hangup):
                await run_server(app, listening, answers_at, page.hub.end_streams)
            note("Stopping: what runs is finished first.")


@contextmanager
def _hangups() -> Iterator[asyncio.Event]:
    """An event that is set with each SIGHUP, which otherwise would end the process."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, heard.set)
    try:
        yield heard
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


@asynccontextmanager
async def _reloading(
    running: Running, wanted: Serving, began_with: Config, hangup: asyncio.Event
) -> AsyncIterator[None]:
    """Reads the configuration anew whenever somebody hangs up."""
    from threadline.gateway.supervisor import Supervisor

    tasks = Supervisor()
    tasks.keep("reload", lambda: _keep_reloading(running, wanted, began_with, hangup))
    try:
        yield
    finally:
        await tasks.stop()


async def _keep_reloading(running: Running, wanted: Serving, began_with: Config, hangup: asyncio.Event) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        try:
            config = await asyncio.to_thread(_configured, wanted.config, wanted.db, wanted.agent)
            restart = _needing_restart(began_with, config, wanted)
            await running.reload(config)
        except Exception as cause:  # noqa: BLE001 - a package's own code may raise anything; the old configuration goes on
            running.gateway.metrics.reloaded("refused")
            log.error("config.refused", error=str(cause) if isinstance(cause, ThreadlineError) else repr(cause))  # noqa: TRY400
            continue
        running.gateway.metrics.reloaded("changed")
        logging.getLogger().setLevel(config.log_level.upper())
        log.info("config.loaded", path=config.path)
        if restart:
            log.warning("config.needs_restart", settings=", ".join(restart))


def _needing_restart(before: Config, now: Config, wanted: Serving) -> list[str]:
    """The settings that differ from those at the start and hold only from the next one on."""
    changed = {
        "db": _place(before) != _place(now),
        "web.host": wanted.host is None and before.web.host != now.web.host,
        "web.port": wanted.port is None and before.web.port != now.web.port,
        **{f"web.{name}": getattr(before.web, name) != getattr(now.web, name) for name in _READ_ONCE},
        "gateway.lease_seconds": before.gateway.lease_seconds != now.gateway.lease_seconds,
    }
    return [name for name, has_changed in changed.items() if has_changed]


def chat(wanted: Serving, *, note: Tell, whole_input: bool = False) -> bool:
    """A conversation at this terminal, or through a pipe, until the end of input; whether everything was answered.

    One terminal of a database at a time has it: a pipe is waited for, of which `note` is told; beside another terminal it is
    `AlreadyServed`.
    """
    return asyncio.run(_chat(wanted, note, whole_input=whole_input))


async def _chat(wanted: Serving, note: Tell, *, whole_input: bool) -> bool:
    from threadline.gateway.commands import TABLE
    from threadline.gateway.seat import seated
    from threadline.platforms.local.platform import Terminal

    config = _configured(wanted.config, wanted.db, wanted.agent)
    folder = ensure_user_folder()
    # The terminal is for the conversation; what goes wrong behind it is written down beside the store.
    _log_to(logging.FileHandler(folder / "chat.log", delay=True), "warning")
    settled: list[Gateway] = []

    async def idle() -> None:
        await settled[0].settled("local")

    terminal = Terminal(
        commands={f"/{command.name}": command.help for command in TABLE.values()},
        history=folder / "chat_history",
        whole_input=whole_input,
        idle=idle,
    )
    # A terminal is closed at any moment: what it leaves behind is taken up by the next one soon.
    lease = 5.0
    quick = {"burst_seconds": 0.0, "poll_seconds": 0.2, "lease_seconds": lease, "drain_seconds": 2.0}
    is_pipe = not (sys.stdin.isatty() and sys.stdout.isatty())
    async with (
        _opened(config) as store,
        seated(store, is_pipe=is_pipe, note=note, lease_seconds=lease),
        _working(config, "chat", store, [terminal], **quick) as (gateway, _),
    ):
        settled.append(gateway)
        await gateway.wait_for_platforms()
    counts = gateway.metrics
    unanswered = sum(counts.counted("turns_total", outcome=outcome) for outcome in ("failed", "parked"))
    unanswered += sum(counts.counted("messages_total", verdict=verdict) for verdict in ("refused", "parked"))
    return unanswered == 0


def run_acp(wanted: Serving) -> None:
    """Serves an editor over standard input and output until it closes its input, or SIGTERM or SIGINT.

    What runs then is closed with what it has said. From the start on nothing but the protocol reaches standard output.
    """
    from threadline.rpc.stdio import claim_stdout

    claim_stdout()
    asyncio.run(_run_acp(wanted))


async def _run_acp(wanted: Serving) -> None:
    from threadline.editor import editing
    from threadline.rpc.stdio import open_stdio

    config = _configured(wanted.config, wanted.db, wanted.agent)
    # An editor shows what it finds there as trouble: a turn that went well is none.
    level = "warning" if config.log_level == "info" else config.log_level
    _log_to(logging.StreamHandler(sys.stderr), level)
    lines, sink = await open_stdio()
    async with _opened(config) as store, editing(config, store, lines, sink) as (server, gateway):
        loop = asyncio.get_running_loop()
        for ends in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(ends, server.connection.close)
        await gateway.wait_for_platforms()


@contextmanager
def _serving_alone(place: Location) -> Iterator[Tell]:
    """Keeps every other `serve` off a file; a server may have many. Yields what tells the others our address."""
    if not isinstance(place, SqliteLocation):
        yield lambda _address: None
        return
    with ServeLock(place.path, f"process {os.getpid()}") as lock:
        yield lock.announce


@asynccontextmanager
async def _opened(config: Config) -> AsyncIterator[GatewayStore]:
    """The configured store."""
    from threadline.assembly import open_gateway_store

    async with await open_gateway_store(config, str(_prepared(_place(config)))) as store:
        yield store


@asynccontextmanager
async def _working(
    config: Config, kind: str, store: GatewayStore, platforms: Sequence[Platform], **changes: object
) -> AsyncIterator[tuple[Gateway, Agents]]:
    """A gateway that works, on an open store."""
    from threadline.assembly import Agents, access_rules, close_agents, gateway_settings
    from threadline.gateway.gateway import Gateway

    agents = Agents(config)
    await asyncio.to_thread(agents.make_all)
    settings = gateway_settings(config, kind, agents, await store.people.installation_secret(), **changes)
    gateway = Gateway(store, settings, access_rules(config), platforms)
    # Only of another `serve` can the lock tell that it is dead.
    await gateway.start(alone=isinstance(_place(config), SqliteLocation) and kind == "serve")
    try:
        yield gateway, agents
    finally:
        await gateway.stop()
        await close_agents(agent for _, agent in agents.made.values())


def _configured(path: Path | None, db: str | None, agent: str | None) -> Config:
    from threadline.assembly import with_agent

    return with_agent(load_config(path, overrides={} if db is None else {"db": db}), agent)


def _advise(config: Config, note: Tell) -> None:
    """What to configure next, for someone who has configured nothing."""
    if all(agent.kind == "echo" for agent in config.agents.values()):
        where = f"{config.path} is the place" if config.path else "`threadline config init` writes a file to start from"
        note(f"No agent is configured: the echo agent answers. {where}.")
    if not config.platforms:
        note(f"{platforms_texts.NONE} `threadline platforms list` shows what can be added.")


def _log_to(handler: logging.Handler, level: str) -> None:
    handler.setFormatter(EventFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _place(config: Config) -> Location:
    """The database of a configuration that is loaded already, whichever file it came from."""
    return locate(config.db or str(default_database()))


def _prepared(place: Location) -> str | Path:
    if isinstance(place, SqliteLocation) and place.path == default_database():
        ensure_user_folder()
    return _reopenable(place)


def _reopenable(place: Location) -> str | Path:
    """What opens the place again: of a server the whole URL, not the one that is shown."""
    return place.path if isinstance(place, SqliteLocation) else place.url
