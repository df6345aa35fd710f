"""`threadline serve` reads its configuration anew on SIGHUP: what it may change it changes, and a broken file changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import httpx
from tests.system.test_serve import own_home
from tests.system.test_serving import chat

from threadline.store.facade import GatewayStore
from threadline.store.work.owner_alerts import OwnerAlert
from threadline.testing.scripted import ScriptedChat

_AGENTS = """
import asyncio

def old(turn):
    return "old"

def new(turn):
    return "new"

async def slow(turn):
    await asyncio.sleep(1.0)
    return "slow, " + str(turn.system_prompt)
"""


class Served:
    """A gateway in a process of its own, its configuration, and what it has logged."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], link: str, log: Path) -> None:
        self.config = folder / "config.toml"
        self.process = process
        self.address, _, self._token = link.partition("#t=")
        self._log = log

    def hang_up(self, text: str) -> None:
        """Changes the file and sends SIGHUP."""
        self.config.write_text(text)
        self.process.send_signal(signal.SIGHUP)

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def logged(self, *words: str, times: int = 1) -> str:
        """Waits for the line that holds all these words."""

        def lines() -> list[str]:
            return [line for line in self.log.splitlines() if all(word in line for word in words)]

        async def is_there() -> bool:
            return len(lines()) >= times

        await until(is_there)
        return lines()[-1]

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """What its page says."""
        return await asyncio.to_thread(httpx.get, f"{self.address}{path}", headers=headers)

    async def metrics(self) -> list[str]:
        """What it has counted, line by line."""
        return (await self.get("metrics", Authorization=f"Bearer {self._token}")).text.splitlines()


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits for something that another process does."""
    async with asyncio.timeout(20):
        while not await is_so():  # noqa: ASYNC110 - nobody is told of it
            await asyncio.sleep(0.02)


def started(command: list[str], folder: Path, errors: TextIO) -> subprocess.Popen[str]:
    own = os.environ | own_home(folder)
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, env=own)


@asynccontextmanager
async def serving(folder: Path, config: str, db: str | None = None) -> AsyncIterator[Served]:
    """A gateway with that configuration, on a file of its own or on `db`."""
    (folder / "my_agents.py").write_text(_AGENTS)
    (folder / "config.toml").write_text(config)
    log = folder / "log.txt"
    command = [sys.executable, "-m", "threadline", "serve", "--db", db or str(folder / "t.db"), "--port", "0"]
    command += ["--config", str(folder / "config.toml")]
    with (
        log.open("w") as errors,
        started(command, folder, errors) as process,
    ):
        try:
            assert process.stdout is not None
            line = await asyncio.to_thread(process.stdout.readline)
            assert line.startswith("Threadline is at "), log.read_text()
            yield Served(folder, process, line.removeprefix("Threadline is at ").strip(), log)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
        finally:
            process.kill()


def config_of(*chats: ScriptedChat, call: str = "old", more: str = "", at_head: str = "") -> str:
    """A configuration with a platform for each chat."""
    platforms = "".join(
        f'[platforms.p{number}]\nkind = "scripted"\naddress = "{chat.address}"\n' for number, chat in enumerate(chats)
    )
    return (
        f'{at_head}[gateway]\nwelcome = false\nburst_seconds = 0.0\n[agents.main]\nkind = "function"\n'
        f'call = "my_agents:{call}"\n[access]\nowners = ["p0:ada", "p1:ada"]\n{platforms}{more}'
    )


async def ask(world: ScriptedChat, text: str) -> str:
    before = len(world.messages("dm-ada"))
    world.say(text)
    await world.wait_for(lambda: len(world.messages("dm-ada")) > before, timeout=20)
    await world.wait_for(lambda: world.messages("dm-ada")[-1].text)
    return world.messages("dm-ada")[-1].text


def awaited(test: Callable[[Path], object]) -> Callable[[Path], None]:
    """A test that awaits."""

    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))  # type: ignore[arg-type]

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@awaited
async def test_agents_and_platforms_change_and_others_stay_connected(folder: Path) -> None:
    async with ScriptedChat() as first, ScriptedChat() as second, serving(folder, config_of(first)) as here:
        await first.wait_for(lambda: first.connected, timeout=20)
        assert await ask(first, "who?") == "old"
        here.hang_up(config_of(first, second, call="new"))
        await second.wait_for(lambda: second.connected, timeout=20)
        assert await ask(first, "and now?") == "new"
        assert await ask(second, "here too?") == "new"
        assert here.log.count("platform.connected platform=p0") == 1
        here.hang_up(config_of(first, call="new"))
        await second.wait_for(lambda: not second.connected, timeout=20)
        assert await ask(first, "still there?") == "new"
        assert here.log.count("platform.connected platform=p0") == 1


@awaited
async def test_a_broken_file_changes_nothing_and_is_told_with_its_place(folder: Path) -> None:
    async with ScriptedChat() as world, serving(folder, config_of(world)) as here:
        await world.wait_for(lambda: world.connected, timeout=20)
        here.hang_up(config_of(world, call="new") + "\n[privacy\n")
        line = await here.logged("config.refused")
        number = here.config.read_text().splitlines().index("[privacy") + 1
        assert f"{here.config}:{number}:9: expected ]" in line
        assert await ask(world, "who?") == "old"
        for number, call in enumerate(("missing", "old\\nkind = 7"), 2):
            here.hang_up(config_of(world, call=call))
            await here.logged("config.refused", times=number)
        assert await ask(world, "who?") == "old"
        assert 'threadline_config_reloads_total{result="refused"} 3' in await here.metrics()
        here.hang_up(config_of(world, call="new"))
        await here.logged("config.loaded")
        assert await ask(world, "who?") == "new"


@awaited
async def test_a_turn_that_runs_ends_as_it_began(folder: Path) -> None:
    rule = '[[chats]]\nplatform = "p0"\nchat = "dm-ada"\nsystem_prompt = "as before"\n'
    async with ScriptedChat() as world, serving(folder, config_of(world, call="slow", more=rule)) as here:
        await world.wait_for(lambda: world.connected, timeout=20)
        world.say("go")
        await world.wait_for(lambda: not world.unacknowledged, timeout=20)

        async def is_running() -> bool:
            return "threadline_turns_running 1" in await here.metrics()

        await until(is_running)
        here.hang_up(config_of(world, call="new", more=rule.replace("before", "now")))
        await here.logged("config.loaded")
        await world.wait_for(lambda: world.texts("dm-ada") == ["slow, as before"], timeout=20)
        assert await ask(world, "who?") == "new"


@awaited
async def test_what_needs_a_restart_is_said(folder: Path) -> None:
    async with ScriptedChat() as world, serving(folder, config_of(world)) as here:
        changed = config_of(world, at_head='log_level = "debug"\n').replace(
            "[gateway]\n", "[gateway]\nlease_seconds = 20\n"
        )
        here.hang_up(changed + '[web]\nhost = "127.0.0.2"\nport = 1\n')
        line = await here.logged("config.needs_restart")
        assert "web.host, gateway.lease_seconds" in line, "the port was given on the command line"
        world.say("nobody knows me", user="zoe", chat="den", chat_type="group", mention=False)
        # Only at this level is it told.
        await here.logged("message.ignored", "not meant for us")


@awaited
async def test_an_operator_sees_whether_it_is_ready(folder: Path) -> None:
    async with ScriptedChat() as world, serving(folder, config_of(world)) as here:
        await world.wait_for(lambda: world.connected, timeout=20)

        async def is_ready() -> bool:
            return (await here.get("readyz")).status_code == 200

        await until(is_ready)
        assert (await here.get("readyz")).json()["status"] == "ok"
        assert (await here.get("metrics", Host="evil.example")).status_code == 421
        here.hang_up(config_of(world, more='[platforms.away]\nkind = "scripted"\naddress = "127.0.0.1:9"\n'))
        await here.logged("config.loaded")
        answer = await here.get("readyz")
        assert (answer.status_code, answer.json()["not_ready"]) == (503, ["platform away@main"])


def test_a_start_closes_alarms_about_what_is_not_configured_only_where_no_other_gateway_can_be(
    tmp_path: Path, location: str
) -> None:
    async def left() -> list[str]:
        async with await GatewayStore.open(location) as store, ScriptedChat() as world:
            for name in ("agent:main", "agent:theirs", "platform:telegram@main"):
                await store.owner_alerts.raise_alert(OwnerAlert(name=name, text="x", since=store.clock.now()), ())
            async with serving(tmp_path, config_of(world), location):
                return [alarm.name for alarm in await store.owner_alerts.list_open()]

    is_shared = location.startswith("postgresql")
    theirs = ["agent:theirs", "platform:telegram@main"] if is_shared else []
    assert asyncio.run(left()) == ["agent:main", *theirs]


def test_a_pipe_whose_agent_failed_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text("def broken(turn):\n    raise RuntimeError\n")
    db = tmp_path / "t.db"
    failed = chat(db, "one\ntwo\n", "--agent", "my_agents:broken", folder=tmp_path)
    assert failed.returncode == 1
    assert failed.stdout.count("I could not answer that") == 2
    assert chat(db, "fine\n", folder=tmp_path).returncode == 0


def test_an_agent_named_on_the_command_line_answers_whatever_the_bindings_say(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(_AGENTS)
    config = tmp_path / "config.toml"
    config.write_text(
        '[agents.other]\nkind = "function"\ncall = "my_agents:old"\n[[bindings]]\nagent = "other"\nplatform = "local"\n'
    )
    bound = chat(tmp_path / "t.db", "who?\n", "--config", str(config), folder=tmp_path)
    named = chat(tmp_path / "t.db", "who?\n", "--config", str(config), "--agent", "my_agents:new", folder=tmp_path)
    assert [done.stdout.split()[-1] for done in (bound, named)] == ["old", "new"]
