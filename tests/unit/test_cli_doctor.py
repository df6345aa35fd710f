"""`threadline doctor` says what is there, what is missing, and the command for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.conftest import Cli

from threadline import SessionStore
from threadline.store.engine.sqlite.database import ServeLock
from threadline.testing import dm, user


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has configured nothing yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("THREADLINE_CONFIG")
    return tmp_path


def findings(cli: Cli, *arguments: str) -> dict[str, dict[str, Any]]:
    return {finding["what"]: finding for finding in cli("doctor", "--json", *arguments).json()}


def configured(home: Path, text: str) -> Path:
    file = home / "settings" / "threadline" / "config.toml"
    file.parent.mkdir(mode=0o700, parents=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def extras(folder: Path, monkeypatch: pytest.MonkeyPatch, requires: str, *, is_checkout: bool) -> None:
    """Lets the package say that it needs these for its extras."""
    about = folder / "threadline-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: threadline\nVersion: 0.1.0\n{requires}")
    if is_checkout:
        (about / "direct_url.json").write_text('{"url": "file:///src/thread line", "dir_info": {"editable": true}}')
    monkeypatch.syspath_prepend(folder)


def test_it_says_what_it_found(home: Path, db: Path, store: SessionStore, cli: Cli) -> None:
    text = '[agents.main]\nkind = "acp"\npreset = "claude"\n[agents.other]\n[platforms.bot]\nkind = "telegram"\nenabled = false'
    file = configured(home, text)
    store.append_to_transcript(store.get_or_create_session(dm()).session_id, user("hi"))
    found = findings(cli)
    assert found["configuration"]["found"] == str(file)
    assert found["agent main"]["found"] == "acp, claude"
    assert found["agent other"]["found"] == "echo"
    assert found["database"]["found"].startswith(f"sqlite://{db}, ")
    assert "KB, 1 session, 1 message (" in found["database"]["found"]
    assert found["platforms"]["found"] == "the web page, bot (telegram), which is switched off"
    assert found["settings folder"]["found"] == f"{file.parent} (drwx------)"
    assert set(found["extras"]["found"].split(", ")) == {"model", "postgres", "telegram"}
    assert found["gateway"]["found"].startswith("none runs")
    with ServeLock(db, "process 4711") as lock:
        lock.announce("http://127.0.0.1:8765/")
        assert findings(cli)["gateway"]["found"] == "process 4711 at http://127.0.0.1:8765/"


def test_a_model_is_named(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(home, '[agents.main]\nkind = "model"\nmodel = "openai:gpt-5"\napi_key = "env:MY_KEY"\n')
    agent = findings(cli)["agent main"]
    assert agent["found"] == "model, openai:gpt-5"
    assert "export MY_KEY=" in agent["fault"]
    assert cli("doctor").code == 1
    monkeypatch.setenv("MY_KEY", "sk-1")
    done = cli("doctor")
    assert (done.code, done.err) == (0, "")
    assert "sk-1" not in done.out


def test_a_fresh_installation_lacks_nothing_and_is_told_what_can_be_added(home: Path, cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0
    assert "`threadline config init`" in done.out
    assert "`threadline platforms add telegram`" in done.out
    assert done.out.endswith("All that a gateway needs is there.\n")
    assert list(home.iterdir()) == [], "looking makes nothing"


def test_every_platform_that_does_not_work_is_named(home: Path, cli: Cli) -> None:
    configured(home, "[platforms.telegram]\n[platforms.pigeon]\n")
    faults = findings(cli)["platforms"]["fault"].splitlines()
    assert [line.partition(":")[0] for line in faults] == ["telegram", "pigeon"]


@pytest.mark.parametrize("is_checkout", [False, True])
def test_an_extra_that_is_missing_comes_with_the_command_that_installs_it(
    home: Path, cli: Cli, is_checkout: bool, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    requires = (
        "Requires-Dist: no-such-package[fast]>=1 ; extra == 'model'\nRequires-Dist: typer ; extra == 'telegram'\n"
    )
    extras(tmp_path_factory.mktemp("site"), monkeypatch, requires, is_checkout=is_checkout)
    command = "make -C '/src/thread line' setup"
    if not is_checkout:
        command = f"{sys.executable} -m pip install 'no-such-package[fast]>=1'"
    found = findings(cli)["extras"]
    assert (found["found"], found["fault"]) == ("telegram", "")
    assert found["hint"] == f"model is not installed; to use it, run: {command}"
    configured(home, '[agents.main]\nkind = "model"\nmodel = "openai:gpt-5"\n')
    found = findings(cli)["extras"]
    assert found["fault"] == f"model is not installed, and the configuration needs it; run: {command}"


def test_a_folder_of_ours_that_others_can_look_into_comes_with_the_command(home: Path, cli: Cli) -> None:
    folder = home / "data" / "threadline"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    found = findings(cli)["data folder"]
    assert found["found"] == f"{folder} (drwxr-xr-x)"
    assert found["hint"].endswith(f"run: chmod 700 {folder}")
    folder.chmod(0o700)
    assert findings(cli)["data folder"]["hint"] == ""


def test_of_places_that_are_not_ours_no_rights_are_to_be_changed(home: Path, cli: Cli) -> None:
    home.chmod(0o777)
    (home / "file").touch()
    refused = cli("doctor", "--db", str(home / "file" / "x.db"))
    assert refused.code == 1
    assert f"{home / 'file'} is no folder" in refused.out
    assert "chmod" not in refused.out
    assert "chown" not in refused.out


def test_good_and_bad_have_colours(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = cli("doctor", "--agent", "no_such_module:answer").out
    assert "\x1b[32mok  \x1b[0m\x1b[1mdatabase" in shown
    assert "\x1b[1;31m !  \x1b[0m\x1b[1magent main" in shown
    assert "\x1b[33m      `threadline config init`" in shown


def test_it_shows_no_secrets_of_commands_and_databases(home: Path, cli: Cli) -> None:
    configured(home, '[agents.main]\nkind = "acp"\ncommand = ["true", "--key", "s3cret"]')
    done = cli("doctor", "--db", "postgresql://me:s3cret@127.0.0.1:1/x?sslpassword=s3cret&password=s3cret")
    assert "acp, true" in done.out
    assert "postgresql://me:…@127.0.0.1:1/x?sslpassword=…&password=…" in done.out
    assert "s3cret" not in done.out + done.err
