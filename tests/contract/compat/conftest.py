"""What the tests of the original API share: a folder under a parent of its own, and a store on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from threadline.compat import GatewayConfig, SessionDB, SessionResetPolicy, SessionStore

Reopen: TypeAlias = Callable[[], SessionStore]


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder for the time of a test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "data" / "threadline"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in a folder that is empty otherwise."""
    path = tmp_path / "home" / "sessions"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def config() -> GatewayConfig:
    """A configuration by which nothing is reset by itself."""
    return GatewayConfig(default_reset_policy=SessionResetPolicy(mode="none"))


@pytest.fixture
def open_store(folder: Path, config: GatewayConfig) -> Iterator[Callable[..., SessionStore]]:
    """Opens one store more on the folder; all are closed at the end."""
    opened: list[SessionStore] = []

    def open_one(using: object = None, **options: Callable[[str], bool]) -> SessionStore:
        opened.append(SessionStore(folder, using or config, **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., SessionStore]) -> SessionStore:
    """A store on the folder."""
    return open_store()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    """A database of sessions by id."""
    with SessionDB(tmp_path / "editors.db") as opened:
        yield opened
