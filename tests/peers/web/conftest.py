"""A real browser in front of a real gateway."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.peers.web.world import Site, Tab, Visit

# `make test` needs no browser, and looks for its tests here all the same. `make test-peers` installs what they need.
collect_ignore_glob = [] if importlib.util.find_spec("playwright") else ["*"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright
    from tests.peers.web.world import ARGUMENTS, CHROMIUM

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site that most tests share: each begins conversations of its own."""
    from tests.peers.web.world import running_site

    with running_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A site for one test alone, which may kill it."""
    from tests.peers.web.world import running_site

    with running_site(tmp_path) as site:
        yield site


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Visit]:
    """The owner's browser."""
    from tests.peers.web.world import visiting

    with visiting(site, browser) as visit:
        yield visit


@pytest.fixture
def tab(visit: Visit) -> Tab:
    """A tab of the owner, who has just come in."""
    return visit.enter()
