"""Makes the pictures of the web page in docs/images anew. It needs what `make test-peers` installs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, expect, sync_playwright
from tests.peers.web.world import ARGUMENTS, CHROMIUM, PHONE, Site, Tab, running_site, visiting

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES = 150_000
SIZE = (1180, 760)
_CONFIG = """
[gateway]
welcome = false
burst_seconds = 0.0
[agents.main]
kind = "function"
call = "scripts.screenshots_agent:answer"
"""
EARLIER = (
    "Plan a weekend in Lisbon",
    "Why is the sky dark at night?",
    "Rename two thousand photos by date",
    "A birthday poem for Ada",
    "Explain this stack trace",
)
ASKED = "My basil wilts every afternoon. How often should I water it, and can you write me a reminder script?"


def fill(tab: Tab) -> None:
    """Conversations as somebody has them after some days."""
    for words in EARLIER:
        tab.begin()
        tab.ask(words, "Gladly.")
    tab.begin()
    tab.ask(ASKED, "Stop at any time")
    tab.page.get_by_role("heading", level=1).get_by_role("button").click()
    name = tab.page.get_by_label("Name of the conversation")
    name.fill("Basil that wilts")
    name.press("Enter")
    expect(tab.rows.first).to_contain_text("Basil that wilts")


def take(browser: Browser, site: Site, name: str, size: tuple[int, int], place: str, **options: object) -> None:
    """One picture."""
    with visiting(site, browser, size, **options) as visit:
        tab = visit.enter()
        tab.open(place)
        expect(tab.answers.first).to_contain_text("Stop at any time")
        tab.page.locator(".log").evaluate("(one) => { one.scrollTop = 0; }")
        tab.page.mouse.move(0, 0)
        tab.page.wait_for_timeout(400)
        file = IMAGES / f"web-{name}.png"
        tab.page.locator(".to-end").evaluate_all("(all) => { for (const one of all) one.style.display = 'none'; }")
        tab.page.screenshot(path=file)
    if file.stat().st_size > MOST_BYTES:
        sys.exit(f"{file} has {file.stat().st_size:,} bytes; make its window smaller")


def main() -> None:
    """Writes all of them."""
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_site(Path(folder), _CONFIG) as site,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with visiting(site, browser, SIZE) as visit:
            tab = visit.enter()
            fill(tab)
            place = f"#/c/{tab.conversation}"
        take(browser, site, "dark", SIZE, place, color_scheme="dark")
        take(browser, site, "light", SIZE, place, color_scheme="light")
        take(browser, site, "phone", PHONE, place, color_scheme="light", is_mobile=True, has_touch=True)
        browser.close()


if __name__ == "__main__":
    main()
