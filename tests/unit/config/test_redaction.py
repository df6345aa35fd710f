"""The secret that a library caller redacts with when it gives none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from threadline import HomeChannel, SessionContext, SessionSource, build_session_context_prompt
from threadline.config.secrets import load_or_make_secret
from threadline.errors import ConfigError, InvalidRequest
from threadline.model import context as model_context

SIGNAL = SessionContext(SessionSource(platform="signal", chat_id="+4915112345678", user_id="+4915112345678"))
DISCORD = SessionContext(SessionSource(platform="discord", chat_id="42", user_id="7", user_name="Ada"))
LOCAL = SessionContext(SessionSource.local_cli())


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "threadline" / "redaction-secret"


def test_without_a_secret_the_one_of_the_data_folder_is_used_and_made_once(path: Path) -> None:
    first = build_session_context_prompt(SIGNAL, redact_pii=True)
    secret = bytes.fromhex(path.read_text().strip())
    assert len(secret) == 32
    assert first == model_context.build_session_context_prompt(SIGNAL, redact_pii=True, secret=secret)
    assert build_session_context_prompt(SIGNAL, redact_pii=True) == first
    assert "4915112345678" not in first


def test_the_file_is_for_its_user_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        load_or_make_secret(path)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_where_nothing_is_redacted_no_file_is_needed_or_made(path: Path) -> None:
    for context in (SIGNAL, DISCORD, LOCAL):
        build_session_context_prompt(context)
        build_session_context_prompt(context, redact_pii=True, secret=b"mine")
    for context in (DISCORD, LOCAL):
        shown = build_session_context_prompt(context, redact_pii=True)
        assert shown == build_session_context_prompt(context, redact_pii=True, secret=b"mine")
    assert not path.parent.exists()


def test_a_home_channel_whose_id_is_replaced_needs_the_secret(path: Path) -> None:
    home = HomeChannel("signal", "+4915112345678", "Home")
    context = SessionContext(LOCAL.source, connected_platforms=("signal",), home_channels=(home,))
    build_session_context_prompt(context, redact_pii=True)
    assert path.exists()


def test_a_given_secret_is_used_and_an_empty_one_refused(path: Path) -> None:
    expected = model_context.build_session_context_prompt(SIGNAL, redact_pii=True, secret=b"mine")
    assert build_session_context_prompt(SIGNAL, redact_pii=True, secret=b"mine") == expected
    with pytest.raises(InvalidRequest, match="secret"):
        build_session_context_prompt(SIGNAL, redact_pii=True, secret=b"")
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "\n", "0" * 63, "0" * 65, "g" * 64, "A" * 64, "ü" * 64])
def test_a_file_without_a_secret_is_refused_and_stays_as_it_is(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no secret"):
        build_session_context_prompt(SIGNAL, redact_pii=True)
    assert path.read_text() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_use_is_refused(path: Path, mode: int) -> None:
    load_or_make_secret(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_or_make_secret(path)


def test_what_is_no_plain_file_is_refused(path: Path, tmp_path: Path) -> None:
    load_or_make_secret(tmp_path / "elsewhere")
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="plain file"):
        load_or_make_secret(path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match="plain file"):
        load_or_make_secret(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="plain file"):
        load_or_make_secret(path)


def test_a_folder_that_can_not_be_made_is_told(path: Path) -> None:
    path.parent.write_text("in the way")
    with pytest.raises(ConfigError, match=str(path)):
        load_or_make_secret(path)


def test_processes_that_make_it_at_once_get_the_same(path: Path) -> None:
    program = """
import sys
from pathlib import Path
from threadline.config.secrets import load_or_make_secret
print("ready", flush=True)
sys.stdin.readline()
print(load_or_make_secret(Path(sys.argv[1])).hex())
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    found = {child.communicate(timeout=60)[0].strip() for child in children}
    assert found == {path.read_text().strip()}
    assert list(path.parent.iterdir()) == [path]
