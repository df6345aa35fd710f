"""The installation's token and the file that it stands in."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from threadline import local_user
from threadline.web.token import TokenFile, UnusableToken, ensure_token, invite_fragment, owner_link


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "web-token"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_token_is_made_once_and_has_256_bits(path: Path) -> None:
    token = ensure_token(path)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert ensure_token(path) == token
    assert ensure_token(path.with_name("another")) != token


def test_only_its_user_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        ensure_token(path)
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("open_to", [0o640, 0o604, 0o660, 0o777])
def test_a_file_that_others_can_read_is_mended_and_told(path: Path, open_to: int) -> None:
    token = ensure_token(path)
    path.chmod(open_to)
    told: list[str] = []
    assert ensure_token(path, told.append) == token
    assert mode(path) == 0o600
    assert [str(path) in told[0], "--rotate" in told[0]] == [True, True]
    assert ensure_token(path, told.append) == token
    assert len(told) == 1


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 43, b"x" * 43 + b"\nmore", b"x" * 200])
def test_a_damaged_file_says_what_to_do(path: Path, content: bytes) -> None:
    ensure_token(path)
    path.write_bytes(content)
    with pytest.raises(UnusableToken, match="delete it, and a new one is made"):
        ensure_token(path)
    assert path.read_bytes() == content


def test_what_is_no_file_says_what_to_do(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(UnusableToken, match="delete it"):
        ensure_token(path)


def test_a_folder_that_can_not_be_made_says_so(path: Path) -> None:
    path.parent.write_text("in the way")
    with pytest.raises(UnusableToken, match="can't be"):
        ensure_token(path)


def test_all_who_start_at_once_get_the_same_token(path: Path) -> None:
    together, found = threading.Barrier(8), []

    def start() -> None:
        together.wait()
        found.append(ensure_token(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)
    assert list(path.parent.iterdir()) == [path]


def test_a_new_token_holds_at_once_for_whoever_looks(path: Path) -> None:
    running, rotating = TokenFile(path), TokenFile(path)
    old = running.current()
    fresh = rotating.rotate()
    assert fresh != old
    assert (running.current(), rotating.current()) == (fresh, fresh)
    assert mode(path) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_was_deleted_is_made_anew(path: Path) -> None:
    token = TokenFile(path)
    old = token.current()
    path.unlink()
    assert token.current() != old
    assert token.current() == ensure_token(path)


def test_a_file_that_is_damaged_meanwhile_opens_nothing(path: Path) -> None:
    token = TokenFile(path)
    token.current()
    path.write_text("damaged")
    with pytest.raises(UnusableToken):
        token.current()


def test_links_carry_the_secret_where_no_server_sees_it() -> None:
    assert owner_link("http://127.0.0.1:8765/", "abc") == "http://127.0.0.1:8765/#t=abc"
    assert invite_fragment("abc") == "#i=abc"


def test_the_file_stands_beside_the_default_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert local_user.web_token_file().parent == local_user.default_database().parent
    assert local_user.web_token_file().name == "web-token"
