"""Whatever strangers, tools and models write, the page shows it and does nothing else. In a real browser, sanitiser alone:
the content security policy, which would stop most of it a second time, is switched off where that is tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, expect
from tests.peers.web.vectors import VECTORS
from tests.peers.web.world import Site, Tab, Visit, running_site, visiting

from threadline import SessionStore
from threadline.model.client_sources import web_source
from threadline.testing import assistant, tool_call, tool_result, user

pytestmark = pytest.mark.peers

_NAME_CHARS = 60
_TITLE_CHARS = 200
# What nothing that strangers wrote may become, wherever it stands.
SCARS = """() => [...document.querySelectorAll('#page *')].flatMap((one) => {
    const found = [...one.attributes].filter(({name}) => name.startsWith('on') || name === 'style' && !one.matches('textarea'));
    const address = one.getAttribute('href') ?? one.getAttribute('src') ?? '';
    const isOurs = one.closest('svg.icon, .icon') || one.closest('svg')?.getAttribute('aria-hidden') === 'true';
    const tag = one.localName;
    const bad = ['script', 'iframe', 'object', 'embed', 'meta', 'base', 'link', 'style', 'math', 'video', 'audio', 'template',
                 'source', 'picture', 'marquee', 'foreignobject', 'use', 'animate'].includes(tag);
    const scheme = /^\\s*([a-z][a-z0-9+.-]*):/i.exec(address)?.[1].toLowerCase();
    const strange = scheme && !['http', 'https', 'mailto'].includes(scheme);
    const remote = tag === 'img' && !address.startsWith('/') ;
    return found.length || (bad && !isOurs) || strange || remote ? [one.outerHTML.slice(0, 200)] : [];
})"""


class Watched:
    """A page under attack: what it may not do is noted."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.dialogs: list[str] = []
        tab.page.on("dialog", self._note)

    def _note(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def expect_unharmed(self) -> None:
        """Nothing ran, nothing asked, nothing left, nothing is left in the page that could."""
        page = self.tab.page
        assert page.evaluate("window.__pwned") is None
        assert page.evaluate(SCARS) == []
        # Where something waits for a hand, there is one.
        for link in page.locator(".log a[href]").all()[:40]:
            link.dispatch_event("mouseover")
        assert page.evaluate("window.__pwned") is None
        assert self.dialogs == []
        assert self.tab.faults == []


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose store is full of what strangers wrote."""
    with running_site(tmp_path_factory.mktemp("attacked")) as site:
        with SessionStore.open(site.db) as store:
            for number, vector in enumerate(VECTORS):
                keep(store, number, vector)
        yield site


def keep(store: SessionStore, number: int, vector: str) -> None:
    """A conversation in which everything is that text; every second one is called so too."""
    session = store.get_or_create_session(web_source("owner", f"vector{number:05}", "Owner")).session_id
    call = tool_call(vector, {vector: vector}) | {"reasoning": vector}
    said = user(f"aardvark{number // 15} {vector}")
    for message in (said, call, tool_result(vector, name=vector), assistant(vector)):
        store.append_to_transcript(session, message)
    if number % 2:
        store.set_title(session, " ".join(vector.split()).replace("\0", "")[:_TITLE_CHARS])


@pytest.fixture
def open_minded(attacked: Site, browser: Browser) -> Iterator[Visit]:
    """A browser that does not keep to the policy which the site sends."""
    with visiting(attacked, browser, bypass_csp=True) as visit:
        yield visit


def test_the_corpus_is_large() -> None:
    assert len(VECTORS) == len(set(VECTORS)) >= 100


def test_stored_messages_tool_calls_and_thoughts_do_nothing(open_minded: Visit) -> None:
    tab = open_minded.enter()
    watched = Watched(tab)
    for number in range(len(VECTORS)):
        tab.page.evaluate("(place) => { location.hash = place; }", f"#/c/vector{number:05}")
        expect(tab.said.first).to_contain_text(f"aardvark{number // 15} ")
        expect(tab.answers).to_have_count(1)
        tab.page.locator("details.fold").evaluate_all("(all) => { for (const one of all) one.open = true; }")
        watched.expect_unharmed()


def test_an_answer_does_nothing_while_it_is_written(open_minded: Visit, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("\n\n".join(VECTORS).replace("\0", "") + "\n\nThe end of it all.")
    tab = open_minded.enter()
    watched = Watched(tab)
    tab.write(f"drip {words}")
    expect(tab.answers.first).to_contain_text("The end of it all.")
    tab.expect_quiet()
    watched.expect_unharmed()


def test_titles_snippets_and_labels_do_nothing(open_minded: Visit) -> None:
    tab = open_minded.enter()
    watched = Watched(tab)
    while tab.rows.count() < len(VECTORS):
        tab.rows.last.scroll_into_view_if_needed()
        tab.page.wait_for_function(
            "(count) => document.querySelectorAll('li.row').length > count", arg=tab.rows.count() - 1
        )
    watched.expect_unharmed()
    for group in range(len(VECTORS) // 15):
        tab.page.get_by_label("Search all conversations").fill(f"aardvark{group}")
        expect(tab.page.get_by_role("list", name="Found").locator("mark").first).to_have_text(f"aardvark{group}")
        watched.expect_unharmed()


def test_notices_names_questions_and_files_do_nothing(attacked: Site, browser: Browser) -> None:
    for vector in VECTORS[::12]:
        name = " ".join(vector.replace("\0", "").split())[:_NAME_CHARS]
        with visiting(attacked, browser, bypass_csp=True) as visit:
            tab = visit.enter(attacked.invite(name))
            watched = Watched(tab)
            tab.page.locator("#composer").evaluate(
                """(target, name) => {
                    const carried = new DataTransfer();
                    carried.items.add(new File(['x'], name, {type: 'image/svg+xml'}));
                    target.dispatchEvent(new ClipboardEvent('paste', {clipboardData: carried, bubbles: true, cancelable: true}));
                }""",
                vector,
            )
            tab.field.fill(f"ask {vector}")
            expect(tab.button("Send")).to_be_enabled()
            tab.field.press("Enter")
            expect(tab.page.get_by_role("heading", name="May I use open_window?")).to_be_visible()
            tab.write(f"/{name}")
            tab.write(f"/title {name}")
            tab.write(f"/timezone {name}")
            expect(tab.page.locator(".entry.notice").first).to_be_visible()
            watched.expect_unharmed()


def test_a_remote_picture_is_a_link_that_nobody_follows_by_looking(tab: Tab) -> None:
    answer = tab.ask(
        "say ![A cat](https://pictures.example/cat.png) and <img src=https://pictures.example/dog.png>", "A cat"
    )
    link = answer.get_by_role("link", name="A cat")
    expect(link).to_have_attribute("href", "https://pictures.example/cat.png")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(answer.locator("img")).to_have_count(0)
    expect(answer).to_contain_text("<img src=https://pictures.example/dog.png>")
    # The tab's own watch finds any request that left for another host.
    assert tab.faults == []
