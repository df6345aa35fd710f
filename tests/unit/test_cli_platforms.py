"""`threadline platforms`, against a Bot API on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pty
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.conftest import Cli, Outcome

from threadline.config.load import load_config
from threadline.testing.telegram import BotApi, refuse

T = TypeVar("T")
BEFORE = '# mine\n[web]\nport = 8123 # the usual one\n\n[agents.main]\nkind = "echo"'


class Api:
    """A Bot API that answers while the test runs commands."""

    def __init__(self, api: BotApi, loop: asyncio.AbstractEventLoop) -> None:
        self.url = api.url
        self.token = api.token
        self._api = api
        self._loop = loop

    def change(self, work: Callable[[BotApi], T]) -> T:
        """Does something in its world."""

        async def done() -> T:
            return work(self._api)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(10)


@pytest.fixture
def api() -> Iterator[Api]:
    begun, ended = threading.Event(), asyncio.Event()
    found: list[Api] = []

    async def live() -> None:
        async with BotApi() as api:
            found.append(Api(api, asyncio.get_running_loop()))
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
    thread.start()
    assert begun.wait(10)
    yield found[0]
    found[0]._loop.call_soon_threadsafe(ended.set)
    thread.join(10)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file; nothing is there yet."""
    path = tmp_path / "settings" / "config.toml"
    monkeypatch.setenv("THREADLINE_CONFIG", str(path))
    return path


@pytest.fixture
def written(file: Path) -> Path:
    """The configuration file as somebody wrote it."""
    file.parent.mkdir()
    file.write_text(BEFORE)
    file.chmod(0o640)
    return file


@pytest.fixture
def add(cli: Cli, api: Api, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Adds the bot, with its token on standard input; no output may hold it."""

    def run(*more: str, token: str = api.token) -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
        done = cli("platforms", "add", "telegram", "--token", "-", "--set", f"base_url={api.url}", *more)
        assert token not in done.out + done.err
        return done

    return run


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_bot_is_tried_out_and_written_behind_what_is_there(
    written: Path, add: Callable[..., Outcome], api: Api
) -> None:
    done = add()
    assert done.code == 0, done.err
    assert "we are @our_bot (id " in done.out
    assert "threadline pair approve --owner CODE" in done.err
    assert written.read_text().startswith(f"{BEFORE}\n\n[platforms.telegram]\n")
    assert mode(written) == 0o640
    secret = written.parent / "telegram.token"
    assert secret.read_text().strip() == api.token
    assert mode(secret) == 0o600
    bot = load_config(written).platforms["telegram"]
    assert (bot.kind, bot.options) == ("telegram", {"token": f"file:{secret}", "base_url": api.url})
    assert load_config(written).web.port == 8123


def test_at_a_terminal_the_token_is_asked_for_and_not_shown(written: Path, api: Api) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "threadline", "platforms", "add", "telegram", "--set", f"base_url={api.url}"]
    # Without a terminal of its own getpass takes its input.
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    while b"not shown" not in shown:
        shown += os.read(ours, 1024)
    os.write(ours, f"{api.token}\n".encode())
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 1024):
            shown += piece
    os.close(ours)
    assert process.wait(30) == 0, shown
    assert b"we are @our_bot" in shown
    assert api.token.encode() not in shown
    assert list(load_config(written).platforms) == ["telegram"]


def test_a_file_that_is_missing_begins_as_init_writes_it(file: Path, add: Callable[..., Outcome]) -> None:
    assert add().code == 0
    assert mode(file) == 0o600
    assert "# " in file.read_text()
    assert list(load_config(file).platforms) == ["telegram"]


def test_line_ends_and_links_stay(file: Path, add: Callable[..., Outcome], tmp_path: Path) -> None:
    behind = tmp_path / "behind.toml"
    behind.write_bytes(b"[web]\r\nport = 8123\r\n")
    file.parent.mkdir()
    file.symlink_to(behind)
    assert add().code == 0
    assert file.is_symlink()
    assert b"\n" not in behind.read_bytes().replace(b"\r\n", b"")
    assert list(load_config(file).platforms) == ["telegram"]


def test_a_second_one_needs_another_name(written: Path, add: Callable[..., Outcome]) -> None:
    assert add().code == 0
    before = written.read_text()
    again = add()
    assert again.code == 1
    assert "--name" in again.err
    assert written.read_text() == before
    assert add("--name", "family").code == 0
    assert load_config(written).platforms["family"].kind == "telegram"


def test_a_wrong_token_changes_nothing(written: Path, add: Callable[..., Outcome]) -> None:
    done = add(token="7:no-such-bot")
    assert done.code == 1
    assert "does not know this token" in done.err
    assert written.read_text() == BEFORE
    assert names_in(written.parent) == [written.name]


def test_what_the_file_can_not_take_leaves_nothing_behind(file: Path, add: Callable[..., Outcome]) -> None:
    file.parent.mkdir()
    # Behind a table on one line no section can follow.
    text = 'platforms = { other = { kind = "telegram", token = "env:X" } }\n'
    file.write_text(text)
    done = add()
    assert done.code == 1
    assert "nothing was changed" in done.err
    assert file.read_text() == text
    assert names_in(file.parent) == [file.name]


def test_a_file_with_a_token_is_not_overwritten(written: Path, add: Callable[..., Outcome]) -> None:
    secret = written.parent / "telegram.token"
    secret.write_text("an older one")
    done = add()
    assert done.code == 1
    assert "--token-file" in done.err
    assert secret.read_text() == "an older one"
    assert written.read_text() == BEFORE


def test_a_token_can_stay_where_it_is(
    written: Path, cli: Cli, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOT_TOKEN", api.token)
    own = tmp_path / "own"
    own.write_text(api.token)
    own.chmod(0o600)
    base = ("platforms", "add", "telegram", "--set", f"base_url={api.url}")
    assert cli(*base, "--token-env", "BOT_TOKEN").code == 0
    assert cli(*base, "--name", "other", "--token-file", str(own)).code == 0
    found = load_config(written).platforms
    assert found["telegram"].options["token"] == "env:BOT_TOKEN"
    assert found["other"].options["token"] == f"file:{own}"
    assert names_in(written.parent) == [written.name]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--token", "42:secret"), "seen by everybody"),
        (("--token", "-", "--token-env", "X"), "one token is enough"),
        (("--token-env", "NOT_THERE"), "NOT_THERE is not set"),
        ((), "nobody is there to ask"),
        (("--token", "-", "--name", "../up"), "can't be the name"),
        (("--token", "-", "--set", "nonsense"), "NAME=VALUE"),
    ],
)
def test_what_can_not_be_added_says_why(
    written: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    done = cli("platforms", "add", "telegram", *arguments)
    assert done.code != 0
    assert told in " ".join(done.err.replace("│", " ").split())
    assert "42:secret" not in done.out + done.err
    assert written.read_text() == BEFORE


def test_an_unknown_kind_is_told_before_anything_is_asked(written: Path, cli: Cli) -> None:
    done = cli("platforms", "add", "telegrm")
    assert done.code == 1
    assert "did you mean 'telegram'?" in done.err


@pytest.mark.parametrize("kind", ["foo", "scriptd", "locl"])
def test_an_unknown_kind_is_offered_nothing_that_is_for_tests(kind: str, written: Path, cli: Cli) -> None:
    done = cli("platforms", "add", kind)
    assert (done.code, written.read_text()) == (1, BEFORE)
    assert "telegram" in done.err
    for hidden in ("scripted", "local"):
        assert hidden not in done.err


def test_the_terminal_can_not_be_added_and_the_reason_stands_on_a_line_of_its_own(
    written: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(os.devnull).open(encoding="utf-8") as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        done = cli("platforms", "add", "local")
    assert (done.code, written.read_text()) == (1, BEFORE)
    first, second = done.err.splitlines()
    assert first.endswith("nothing was changed:")
    assert "use `threadline chat`" in second


def test_without_a_network_it_can_be_written_down_untried(written: Path, add: Callable[..., Outcome], api: Api) -> None:
    done = add("--no-check")
    assert done.code == 0
    assert "was not tried out" in done.err
    assert api.change(lambda world: world.calls) == []


def test_the_list_shows_what_is_configured_and_what_can_be(
    written: Path, add: Callable[..., Outcome], cli: Cli
) -> None:
    assert "No chat platform is configured" in cli("platforms", "list").out
    add()
    written.write_text(f'{written.read_text()}\n[platforms.pigeons]\nkind = "pigeon"\nenabled = false\n')
    shown = cli("platforms", "list")
    assert shown.out.split("\n")[1].split() == ["telegram", "telegram", "main", "yes", "yes"]
    assert shown.out.split("\n")[2].split() == ["pigeons", "pigeon", "main", "no", "no"]
    assert "no platform of the kind 'pigeon' is installed" in shown.err
    told = cli("platforms", "list", "--json").json()
    assert "telegram" in told["kinds"]
    assert "local" not in told["kinds"]
    assert [(one["name"], bool(one["fault"])) for one in told["platforms"]] == [("telegram", False), ("pigeons", True)]


def test_a_platform_that_works_says_who_we_are(written: Path, add: Callable[..., Outcome], cli: Cli, api: Api) -> None:
    add()
    api.change(lambda world: world.say("hello"))
    api.change(lambda world: setattr(world.bot, "webhook", "https://example.org/secret-path"))
    done = cli("platforms", "test", "telegram")
    assert done.code == 0
    assert "@our_bot" in done.out
    assert "webhook" in done.out
    assert "secret-path" not in done.out
    told = cli("platforms", "test", "telegram", "--json").json()
    assert (told["ok"], told["fault"]) == (True, "")
    assert told["who"].startswith("@our_bot (id ")
    assert any("wait for it: 1" in remark for remark in told["remarks"])
    # Nothing was taken from the gateway that runs.
    assert len(api.change(lambda world: world.unconfirmed)) == 1


def test_a_platform_that_does_not_work_says_so(written: Path, add: Callable[..., Outcome], cli: Cli, api: Api) -> None:
    add()
    api.change(lambda world: world.fail_next("getMe", refuse(401, "Unauthorized"), 2))
    done = cli("platforms", "test", "telegram")
    assert (done.code, done.out) == (1, "")
    assert "does not know this token" in done.err
    told = cli("platforms", "test", "telegram", "--json")
    assert told.code == 1
    assert told.json()["ok"] is False
    assert api.token not in done.err + told.out


def test_a_platform_that_is_not_configured_says_which_are(written: Path, add: Callable[..., Outcome], cli: Cli) -> None:
    assert "platforms add KIND" in cli("platforms", "test", "telegram").err
    add()
    done = cli("platforms", "test", "telegrams")
    assert done.code == 1
    assert "there are telegram" in done.err


def test_one_that_can_not_tell_is_not_called_broken(written: Path, cli: Cli) -> None:
    written.write_text('[platforms.scripted]\naddress = "127.0.0.1:9"\n')
    done = cli("platforms", "test", "scripted")
    assert done.code == 0
    assert "can't say more" in done.out
