from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

from threadline.config.load import current_environment
from threadline.config.secrets import (
    Secret,
    find_plain_secrets,
    find_reference,
    is_secret_name,
    mask_password,
    resolve_all,
    resolve_secret,
)
from threadline.errors import ConfigError


def _python(code: str) -> Secret:
    return Secret(f"command:{shlex.join([sys.executable, '-c', code])}")


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "my key"
    path.write_bytes(b"s3cret\n")
    path.chmod(0o600)
    return path


# --- References -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "target"),
    [
        ("env:API_KEY", "env", "API_KEY"),
        ("file:/etc/key", "file", "/etc/key"),
        ("file:~/my key", "file", "~/my key"),
        ("command:pass show 'a b'", "command", "pass show 'a b'"),
    ],
)
def test_a_reference_says_where_a_secret_is(text: str, place: str, target: str) -> None:
    secret = Secret(text)
    assert (secret.place, secret.target) == (place, target)
    assert find_reference(text) == secret
    assert str(secret) == text
    assert repr(secret) == f"Secret({text!r})"


@pytest.mark.parametrize(
    "text",
    ["", "sk-abc123", "env:", "env:sk-abc123", "env:A B", "ENV:A", "file:", "file:abc123", "file:/a\x00b", "command:",
     "file:///etc/abc123", "command:'abc123", "command: ", "vault:abc123", "command:a\x00b"],
)  # fmt: skip
def test_what_is_no_reference_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"env:|file:|command:") as error:
        Secret(text)
    assert "abc123" not in str(error.value)
    assert find_reference(text) is None


def test_a_secret_as_json_is_its_reference() -> None:
    assert json.loads(msgspec.json.encode({"key": Secret("env:API_KEY")})) == {"key": {"reference": "env:API_KEY"}}


@pytest.mark.parametrize(
    "name", ["token", "bot_token", "TOKENS", "api-key", "apiKey", "client_secret", "password", "credentials"]
)
def test_the_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["token_file", "token_url", "passwords_allowed", "key", "name", "secretary"])
def test_names_that_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_plain_secrets_are_found_to_any_depth() -> None:
    raw = {"token": "env:A", "a": {"b": {"password": "x"}}, "secret": ["env:A", "x"], "max_tokens": 5, "name": "x"}
    assert find_plain_secrets(raw) == [("a", "b", "password"), ("secret",)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:p@ss:w@host/db", "postgresql://me:…@host/db"),
        ("postgresql://me@host/db?password=x&a=1", "postgresql://me@host/db?password=…&a=1"),
        ("socks5://:pw@host", "socks5://:…@host"),
        ("http://127.0.0.1:8080/a@b", "http://127.0.0.1:8080/a@b"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_no_password_of_a_url_is_shown(text: str, shown: str) -> None:
    assert mask_password(text) == shown


# --- From a variable ------------------------------------------------------------------------------


def test_a_variable_holds_a_secret() -> None:
    assert resolve_secret(Secret("env:KEY"), {"KEY": "s3cret"}) == "s3cret"


def test_a_variable_of_this_process_holds_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_FOR_A_TEST", "s3cret")
    assert resolve_secret(Secret("env:KEY_FOR_A_TEST"), current_environment()) == "s3cret"


@pytest.mark.parametrize("environment", [{}, {"KEY": ""}])
def test_a_variable_that_is_missing_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="the variable KEY is not set"):
        resolve_secret(Secret("env:KEY"), environment)


# --- From a file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"s3cret", "s3cret"), (b"s3cret\n", "s3cret"), (b"s3cret\n\n", "s3cret\n"), (b" a\r\n", " a")],
)
def test_a_file_holds_a_secret_with_or_without_a_line_end(content: bytes, text: str, secret_file: Path) -> None:
    secret_file.write_bytes(content)
    assert resolve_secret(Secret(f"file:{secret_file}"), {}) == text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o777])
def test_a_file_that_others_can_use_is_refused(mode: int, secret_file: Path) -> None:
    secret_file.chmod(mode)
    with pytest.raises(
        ConfigError, match=r"others can read .*my key.* refer to a file that only you can read"
    ) as error:
        resolve_secret(Secret(f"file:{secret_file}"), {})
    assert "s3cret" not in str(error.value)
    assert "chmod" not in str(error.value), "it may be a file of the system"


@pytest.mark.parametrize("folder", ["XDG_DATA_HOME", "XDG_CONFIG_HOME"])
def test_chmod_is_advised_for_a_file_in_our_folders(
    folder: str, secret_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(folder, str(tmp_path))
    ours = tmp_path / "threadline" / "my key"
    ours.parent.mkdir()
    secret_file.chmod(0o644)
    ours.symlink_to(secret_file)
    with pytest.raises(ConfigError, match="refer to a file that only you can read"):
        resolve_secret(Secret(f"file:{ours}"), {})
    ours.unlink()
    secret_file.rename(ours)
    with pytest.raises(ConfigError, match=r"run: chmod 600 '/.*threadline/my key'"):
        resolve_secret(Secret(f"file:{ours}"), {})


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_for_its_owner_alone_is_read(mode: int, secret_file: Path) -> None:
    secret_file.chmod(mode)
    assert resolve_secret(Secret(f"file:{secret_file}"), {}) == "s3cret"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff\xfe", "is no UTF-8 text"),
        (b"x" * 70_000, "is longer than any secret"),
    ],
)
def test_a_file_that_holds_no_secret_is_told_of(content: bytes, told: str, secret_file: Path) -> None:
    secret_file.write_bytes(content)
    with pytest.raises(ConfigError, match=told) as error:
        resolve_secret(Secret(f"file:{secret_file}"), {})
    assert error.value.__cause__ is None


def test_a_file_that_is_missing_or_none_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none, which holds a secret, can't be read: No such file"):
        resolve_secret(Secret(f"file:{tmp_path / 'none'}"), {})
    with pytest.raises(ConfigError, match="is no file"):
        resolve_secret(Secret(f"file:{tmp_path}"), {})


def test_a_path_may_begin_at_home(secret_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(secret_file.parent))
    assert resolve_secret(Secret("file:~/my key"), {}) == "s3cret"
    with pytest.raises(ConfigError, match="names a home folder that is not there"):
        resolve_secret(Secret("file:~nobody-of-that-name/key"), {})


# --- From a command -------------------------------------------------------------------------------


def test_a_command_prints_a_secret() -> None:
    assert resolve_secret(_python("print('s3cret')"), {}) == "s3cret"


def test_no_shell_reads_a_command() -> None:
    code = "import sys; print(sys.argv[1:])"
    secret = Secret(f"command:{shlex.join([sys.executable, '-c', code])} $HOME ; ls | cat '*'")
    assert resolve_secret(secret, {"HOME": "/x"}) == "['$HOME', ';', 'ls', '|', 'cat', '*']"


def test_a_command_sees_the_environment_and_reads_nothing() -> None:
    code = "import os, sys; print(os.environ['KEY'] + sys.stdin.read())"
    assert resolve_secret(_python(code), {"KEY": "s3cret"}) == "s3cret"


def test_a_command_that_fails_is_told_with_its_exit_code_and_without_its_output() -> None:
    code = "import sys; print('s3cret'); print('s3cret', file=sys.stderr); sys.exit(7)"
    with pytest.raises(ConfigError, match="ended with exit code 7") as error:
        resolve_secret(_python(code), {})
    assert "s3cret" not in str(error.value)


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"import time, pathlib; print('s3cret', flush=True); pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    with pytest.raises(ConfigError, match="took longer than 2 s") as error:
        resolve_secret(_python(code), {}, seconds=2)
    assert ready.exists()
    assert "s3cret" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_command_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="the command /none/such, which gives a secret, can't be run: No such file"):
        resolve_secret(Secret("command:/none/such -x"), {})


def test_a_command_that_prints_nothing_is_told_of() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        resolve_secret(_python(""), {})


# --- In the settings of a platform ----------------------------------------------------------------


def test_every_reference_in_a_mapping_is_resolved_and_nothing_else_is_changed() -> None:
    raw = {
        "token": "env:A",
        "rooms": [1, "env:B", "env: no"],
        "proxy": {"url": "u", "key": Secret("env:A")},
        "on": True,
    }
    assert resolve_all(raw, {"A": "one", "B": "two"}) == {
        "token": "one",
        "rooms": [1, "two", "env: no"],
        "proxy": {"url": "u", "key": "one"},
        "on": True,
    }
    assert raw["token"] == "env:A"
