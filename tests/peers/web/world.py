"""A running gateway with its page, and people in front of it: what they do, and what they see."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect

ROOT = Path(__file__).parents[3]
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = (1200, 800)
PHONE = (360, 740)
# A busy machine is slow; a test that fails has time to say so.
_PATIENCE = 15_000
expect.set_options(timeout=_PATIENCE)

_GREETING = "Threadline is at "
CONFIG = """
[gateway]
welcome = false
burst_seconds = 0.0
lease_seconds = 5.0
[agents.main]
kind = "function"
call = "tests.peers.web.agent:answer"
"""


class Site:
    """`threadline serve` in a process of its own, always at the same port: it can be killed and started again."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        self.folder = folder
        self.db = folder / "threadline.db"
        self.port = free_port()
        self.link = ""
        self._config = folder / "config.toml"
        self._config.write_text(config)
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def token(self) -> str:
        """The owner's."""
        return self.link.partition("#t=")[2]

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def api(self) -> httpx.Client:
        """Requests of the owner, as a program sends them."""
        return httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {self.token}"}, timeout=30)

    def start(self) -> Self:
        """Answers requests when this returns."""
        command = [sys.executable, "-m", "threadline", "serve", "--config", str(self._config), "--db", str(self.db)]
        with (self.folder / "serve.log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=self._home(),
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(_GREETING), (self.folder / "serve.log").read_text()
        self.link = line.removeprefix(_GREETING).strip()
        return self

    def kill(self) -> None:
        """Ends it without a word, like a power cut."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(self, *words: str) -> str:
        """What a `threadline` command on the same store writes."""
        done = subprocess.run(
            [sys.executable, "-m", "threadline", *words, "--db", str(self.db)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
            env=self._home(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def invite(self, name: str) -> str:
        """A link that lets somebody in at this port."""
        code = self.run("web", "invite", name).partition("#i=")[2]
        return f"{self.address}#i={code}"

    def _home(self) -> dict[str, str]:
        own = {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "share")}
        return os.environ | own | {"PYTHONPATH": str(ROOT)}


@contextmanager
def running_site(folder: Path, config: str = CONFIG) -> Iterator[Site]:
    """A site that is killed at the end, whatever happened."""
    site = Site(folder, config).start()
    try:
        yield site
    finally:
        site.kill()


class Tab:
    """One tab of somebody's browser: their hands and eyes."""

    def __init__(self, site: Site, page: Page) -> None:
        self.site = site
        self.page = page
        # What no page of ours may ever do.
        self.faults: list[str] = []
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._note_request)

    def open(self, place: str = "") -> Self:
        """Goes to an address of the site; the field to write in is there afterwards."""
        self.page.goto(self.site.address + place)
        expect(self.field).to_be_visible()
        return self

    @property
    def field(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def answers(self) -> Locator:
        return self.page.get_by_role("article", name="Answer")

    @property
    def said(self) -> Locator:
        return self.page.get_by_role("article", name="You")

    @property
    def rows(self) -> Locator:
        """The conversations at the side."""
        return self.page.get_by_role("navigation", name="Conversations").locator("li.row")

    @property
    def conversation(self) -> str:
        """The id of the one that is open."""
        return str(self.page.url).partition("#/c/")[2].partition("?")[0].partition("/")[0]

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def begin(self) -> None:
        """Begins a new conversation."""
        self.page.get_by_role("link", name="New conversation").click()
        expect(self.page.locator(".log .entry")).to_have_count(0)

    def write(self, text: str) -> None:
        """Writes a message and sends it."""
        self.field.fill(text)
        self.field.press("Enter")

    def ask(self, text: str, answered: str) -> Locator:
        """Writes a message and waits for the whole answer to it; the answer."""
        count = self.answers.count()
        self.write(text)
        answer = self.answers.nth(count)
        expect(answer).to_contain_text(answered)
        self.expect_quiet()
        return answer

    def expect_quiet(self) -> None:
        """Waits until nothing is being written any more."""
        expect(self.page.locator(".entry.live")).to_have_count(0)
        expect(self.button("Stop the answer")).to_have_count(0)

    def sees(self) -> list[tuple[str, str]]:
        """The talk, top to bottom: who, and the first line of what they said."""
        script = """() => [...document.querySelectorAll('.log .entry')].map((one) => [
            one.getAttribute('aria-label') ?? 'Notice',
            (one.querySelector('.said, .parts') ?? one).innerText.trim().split('\\n')[0]])"""
        return [(str(who), str(text)) for who, text in self.page.evaluate(script)]

    def width(self) -> int:
        """How wide the page is, with what would have to be scrolled to."""
        return int(self.page.evaluate("document.scrollingElement.scrollWidth"))

    def told(self) -> str:
        """What stood in the tab when a test failed, for whoever has to find out why."""
        body = self.page.locator("body").inner_html(timeout=1_000) if not self.page.is_closed() else "(closed)"
        return f"{self.page.url}: {body[:2_000]!r}, faults {self.faults}"

    def _note_console(self, message: ConsoleMessage) -> None:
        text = message.text
        if message.type == "error" and "Failed to load resource" not in text and "ERR_" not in text:
            self.faults.append(f"console: {text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.site.address, "data:", "about:")):
            self.faults.append(f"request: {request.url}")


class Visit:
    """A person's browser: cookies of their own, any number of tabs."""

    def __init__(self, site: Site, context: BrowserContext) -> None:
        self.site = site
        self.context = context
        self.tabs: list[Tab] = []

    def tab(self) -> Tab:
        """An empty one."""
        tab = Tab(self.site, self.context.new_page())
        self.tabs.append(tab)
        return tab

    def enter(self, link: str = "") -> Tab:
        """A tab that came in by a link: the owner's, if no other is given."""
        tab = self.tab()
        tab.page.goto(link or f"{self.site.address}#t={self.site.token}")
        expect(tab.field).to_be_visible()
        return tab

    @property
    def faults(self) -> list[str]:
        """What the pages did that they must not."""
        return [fault for tab in self.tabs for fault in tab.faults]


@contextmanager
def visiting(site: Site, browser: Browser, size: tuple[int, int] = DESKTOP, **options: object) -> Iterator[Visit]:
    """Somebody's browser, closed at the end; by then none of its pages may have done what no page may."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce", **options)  # type: ignore[arg-type, unused-ignore]
    context.set_default_timeout(_PATIENCE)
    visit = Visit(site, context)
    try:
        yield visit
        assert visit.faults == []
    except BaseException as failed:
        for tab in visit.tabs:
            failed.add_note(tab.told())
        raise
    finally:
        context.close()


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
