"""The example as people use it: installed beside Threadline, named in a configuration, and answered through by `serve`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.peers.irc.world import CHANNEL, EXAMPLE, NICK, IrcWorld, irc_world

from threadline.testing.contracts.platforms.staging import eventually, shows

pytestmark = pytest.mark.peers

_CONFIGURATION = """
[gateway]
welcome = false
burst_seconds = 0.0

[platforms.irc]
server = "127.0.0.1"
port = {port}
nick = "{nick}"
password = "env:IRC_PASSWORD"
channels = ["{channel}"]

[access]
guests = ["irc:ada"]
answer_groups = ["irc:{channel}"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example was installed into."""
    folder = tmp_path_factory.mktemp("installed")
    copy = folder / "sources"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    uv = shutil.which("uv") or shutil.which("uv", path=EXAMPLE.parents[2] / "build" / "uv" / "bin")
    pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", folder / "site", copy], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@asynccontextmanager
async def served(world: IrcWorld, folder: Path, installed: Path) -> AsyncIterator[None]:
    """`threadline serve` with the bot in it, once it has joined."""
    file = folder / "config.toml"
    file.write_text(_CONFIGURATION.format(port=world.wire.port, nick=NICK, channel=CHANNEL))
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "PYTHONPATH": str(installed)}
    settings = {"THREADLINE_CONFIG": str(file), "IRC_PASSWORD": "secret"}
    command = ["-m", "threadline", "serve", "--db", str(folder / "threadline.db"), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=os.environ | home | settings, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        while not await is_there(world):
            assert process.returncode is None
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def is_there(world: IrcWorld) -> bool:
    """Whether the bot is in the channel: who writes to somebody who is not there gets no answer."""
    await asyncio.sleep(0.1)
    bob = world.people["bob"]
    bob.joined.clear()
    bob.write(f"NAMES {CHANNEL}")
    await bob.up_to_date()
    return NICK in bob.joined


def test_somebody_on_irc_is_answered_by_serve(tmp_path: Path, installed: Path) -> None:
    async def scenario() -> None:
        async with irc_world(tmp_path) as world, served(world, tmp_path, installed):
            private, channel = world.places
            await world.say("hello there", private)
            await world.say("and here", channel)
            await world.mutter("not for you", channel)
            await eventually(lambda: shows(world, "hello there", where=private))
            await eventually(lambda: shows(world, "and here", where=channel))

    asyncio.run(asyncio.wait_for(scenario(), 60))
