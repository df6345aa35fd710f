from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.unit.conftest import Outcome
from typer.main import get_command

from threadline.cli.config import app
from threadline.config.write import starter_text
from threadline.errors import ConfigError

Config: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def config(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Config:
    """Runs `threadline config` with these arguments on the test's own file."""
    monkeypatch.setenv("THREADLINE_CONFIG", str(file))
    monkeypatch.delenv("THREADLINE_DB", raising=False)

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            get_command(app).main(args=list(arguments), prog_name="threadline config")
        printed = capsys.readouterr()
        return Outcome(int(end.value.code or 0), printed.out, printed.err)

    return run


def test_init_writes_a_file_for_its_owner_alone(config: Config, file: Path) -> None:
    written = config("init")
    assert (written.code, written.err) == (0, "")
    assert str(file) in written.out
    assert file.read_text() == starter_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert config("check").out == f"{file} can be used.\n"


def test_init_makes_the_folder_that_is_missing(config: Config, tmp_path: Path) -> None:
    target = tmp_path / "new" / "deep" / "my.toml"
    assert config("init", "--path", str(target)).code == 0
    assert target.read_text() == starter_text()
    assert target.parent.stat().st_mode & 0o777 == 0o700


def test_init_replaces_a_file_only_when_forced(config: Config, file: Path) -> None:
    file.write_text("mine")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"is there already; nothing was changed\. Add --force"):
        config("init")
    assert file.read_text() == "mine"
    assert config("init", "--force").code == 0
    assert file.read_text() == starter_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_init_replaces_no_link_that_leads_nowhere(config: Config, file: Path, tmp_path: Path) -> None:
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is there already"):
        config("init")
    assert not (tmp_path / "elsewhere").exists()


def test_init_says_where_it_can_not_write(config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"can't be written: .*; name another place with --path"):
        config("init", "--path", str(tmp_path / "file" / "config.toml"))


def test_show_says_what_holds_and_why(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[web]\nport = 1")
    monkeypatch.setenv("THREADLINE_LOG_LEVEL", "debug")
    shown = config("show")
    assert (shown.code, shown.err) == (0, "")
    assert "port = 1  # from the file, line 2\n" in shown.out
    assert 'log_level = "debug"  # from THREADLINE_LOG_LEVEL\n' in shown.out


def test_another_file_can_be_named(config: Config, file: Path, tmp_path: Path) -> None:
    file.write_text("[web]\nport = 1")
    other = tmp_path / "other.toml"
    other.write_text("[web]\nport = 2")
    assert "port = 2 " in config("show", "--config", str(other)).out
    assert config("path", "--config", str(other)).out == f"{other}\n"
    assert config("check", "--config", str(other)).out == f"{other} can be used.\n"


def test_check_tells_all_that_is_wrong(config: Config, file: Path) -> None:
    file.write_text("[web]\nport = -1\nhots = 1\n")
    refused = config("check")
    assert refused.code == 1
    assert refused.out.splitlines() == [
        f"- {file}:2: web.port: found -1; use a whole number from 0 to 65535",
        f"- {file}:3: web.hots: there is no such setting; did you mean web.hosts?",
    ]
    assert refused.err == "threadline: 2 problems found in the configuration.\n"


def test_check_tells_of_doubts_and_still_passes(config: Config, file: Path) -> None:
    file.write_text('[web]\nhost = "0.0.0.0"\n')
    passed = config("check")
    assert (passed.code, passed.err) == (0, "")
    assert passed.out.startswith("- warning: web.host: ")
    assert passed.out.endswith(f"{file} can be used.\n")


def test_check_as_json(config: Config, file: Path) -> None:
    file.write_text('log_level = "loud"\n')
    refused = config("check", "--json")
    report = json.loads(refused.out)
    assert refused.code == 1
    assert (report["ok"], report["path"], report["warnings"]) == (False, str(file), [])
    assert len(report["problems"]) == 1


def test_path_says_which_file_is_read(config: Config, file: Path) -> None:
    missing = config("path")
    assert missing.out == f"{file}\n"
    assert "config init" in missing.err
    assert config("path", "--json").json() == {"path": str(file), "exists": False}
    file.touch()
    assert config("path") == (0, f"{file}\n", "")


@pytest.mark.parametrize("command", ["init", "show", "check", "path"])
def test_every_command_gives_examples(command: str, config: Config) -> None:
    told = config(command, "--help")
    assert f"threadline config {command}" in told.out.partition("Examples:")[2]
