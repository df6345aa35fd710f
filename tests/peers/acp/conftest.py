"""The protocol's own description and third parties that speak it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.peers.acp.world import Editor

# `make test` needs none of them, and looks for its tests here all the same. `make test-peers` installs what they need.
collect_ignore_glob = [] if importlib.util.find_spec("jsonschema_rs") else ["*"]


@pytest.fixture(scope="package")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """The editor that most tests share: each begins sessions of its own."""
    from tests.peers.acp.world import editing

    with editing(tmp_path_factory.mktemp("editor")) as editor:
        yield editor
