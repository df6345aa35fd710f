"""The conversations at the side: found, named, begun, deleted, however many there are."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Response, expect
from tests.peers.web.world import Site, Tab, visiting

from threadline import AsyncSessionStore
from threadline.model.client_sources import web_source

pytestmark = pytest.mark.peers

MANY = 10_000
# What a first look may cost, however many conversations there are.
FIRST_ROWS = 50
FIRST_BYTES = 20_000


async def filled(db: Path) -> None:
    """Puts very many conversations of the owner into the store."""
    async with await AsyncSessionStore.open(db) as store:

        async def begin(number: int) -> None:
            await store.get_or_create_session(web_source("owner", f"conversation{number:05}", "Owner"))

        await asyncio.gather(*map(begin, range(MANY)))


def test_what_was_said_is_found_and_shown_in_its_place(tab: Tab) -> None:
    tab.ask("say the quince tree blossoms in April", "quince tree")
    place = tab.conversation
    tab.begin()
    tab.ask("say something about turnips", "turnips")
    tab.page.keyboard.press("Control+k")
    search = tab.page.get_by_label("Search all conversations")
    expect(search).to_be_focused()
    search.press_sequentially("quince")
    hits = tab.page.get_by_role("list", name="Found").get_by_role("link")
    expect(hits.first).to_contain_text("the quince tree blossoms")
    expect(hits.first.locator("mark").first).to_have_text("quince")
    hits.first.click()
    expect(tab.answers.first).to_contain_text("quince tree")
    assert tab.conversation == place
    search.fill("nobody ever said xylophone")
    expect(tab.page.get_by_text("Nothing found.")).to_be_visible()
    search.press("Escape")
    expect(tab.rows.first).to_be_visible()


def test_a_conversation_is_named_and_keeps_its_name(tab: Tab) -> None:
    tab.ask("say a walk", "a walk")
    tab.page.get_by_role("heading", level=1).get_by_role("button").click()
    name = tab.page.get_by_label("Name of the conversation")
    name.fill("A walk in the hills")
    name.press("Enter")
    expect(tab.rows.first).to_contain_text("A walk in the hills")
    tab.page.reload()
    expect(tab.page.get_by_role("heading", name="A walk in the hills", level=1)).to_be_visible()
    expect(tab.page).to_have_title("A walk in the hills · Threadline")


def test_a_conversation_is_deleted_only_after_a_second_word(tab: Tab) -> None:
    tab.ask("say a secret of mine", "a secret of mine")
    row = tab.rows.filter(has_text="a secret of mine").first
    expect(row).to_be_visible()
    place, before = tab.conversation, tab.rows.count()
    row.hover()
    row.get_by_role("button", name="Delete").click()
    dialog = tab.page.get_by_role("dialog", name="Delete this conversation?")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(tab.answers).to_have_count(1)
    row.hover()
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(tab.answers).to_have_count(0)
    expect(tab.rows).to_have_count(before - 1)
    tab.page.goto(f"{tab.site.address}#/c/{place}")
    expect(tab.page.get_by_text("This conversation is not here.")).to_be_visible()


def test_a_new_conversation_knows_nothing_of_the_last_one(tab: Tab) -> None:
    tab.ask("say before", "before")
    expect(tab.rows.first).to_contain_text("say before")
    place, rows = tab.conversation, tab.rows.count()
    tab.page.keyboard.press("Control+Shift+o")
    expect(tab.answers).to_have_count(0)
    expect(tab.field).to_be_focused()
    tab.ask("say after", "after")
    assert tab.conversation != place
    expect(tab.rows).to_have_count(rows + 1)
    expect(tab.rows.first).to_contain_text("say after")


def test_ten_thousand_conversations_do_not_weigh_on_the_first_look(tmp_path: Path, browser: Browser) -> None:
    site = Site(tmp_path)
    # Playwright runs an event loop of its own in this thread.
    with ThreadPoolExecutor() as threads:
        threads.submit(asyncio.run, filled(site.db)).result()
    fetched: list[Response] = []

    def note(response: Response) -> None:
        if "/api/conversations?" in response.url:
            fetched.append(response)

    site.start()
    try:
        with visiting(site, browser) as visit:
            tab = visit.tab()
            tab.page.on("response", note)
            tab.page.goto(site.link)
            expect(tab.rows).to_have_count(FIRST_ROWS)
            # A stream that breaks at the start has the page look at the top of the list once more, and at no more of it.
            assert len(fetched) in (1, 2), [response.url for response in fetched]
            assert all(len(response.body()) < FIRST_BYTES for response in fetched)
            tab.rows.last.scroll_into_view_if_needed()
            expect(tab.rows).to_have_count(2 * FIRST_ROWS)
            tab.ask("say hello", "hello")
            expect(tab.rows.first).to_contain_text("say hello")
    finally:
        site.kill()
