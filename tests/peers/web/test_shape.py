"""How the page looks and how it is reached: on a phone, by keys alone, by a screen reader; and that it holds still."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.peers.web.agent import WORDS
from tests.peers.web.world import PHONE, ROOT, Site, Tab, Visit, visiting

pytestmark = pytest.mark.peers

AXE = ROOT / "build" / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Everything that can be wide.
WIDE = (
    "say # A heading\\n\\n"
    + "Averylongwordwithoutanyspace" * 12
    + " and `"
    + "inline_code_" * 20
    + "`\\n\\n| a | b | c | d |\\n|---|---|---|---|\\n| "
    + "cell" * 30
    + " | two | three | four |\\n\\n```python\\nprint('"
    + "wide " * 40
    + "')\\n```\\n\\nhttps://example.org/"
    + "path/" * 40
).replace("\\n", "\n")


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with the page as it is now."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}" for one in found["violations"] for node in one["nodes"]
    ]


def test_a_phone_shows_it_all_without_scrolling_sideways(site: Site, browser: Browser) -> None:
    with visiting(site, browser, PHONE, is_mobile=True, has_touch=True) as visit:
        tab = visit.enter()
        assert tab.width() <= PHONE[0]
        tab.field.fill(WIDE)
        tab.button("Send").tap()
        expect(tab.answers.first.locator("table")).to_be_visible()
        tab.expect_quiet()
        assert tab.width() <= PHONE[0]
        expect(tab.rows.first).not_to_be_in_viewport()
        tab.button("Show the conversations").tap()
        expect(tab.rows.first).to_be_in_viewport()
        assert tab.width() <= PHONE[0]
        tab.button("Close the list").tap()
        expect(tab.rows.first).not_to_be_in_viewport()
        tab.field.fill("tools " + "wide" * 200)
        tab.button("Send").tap()
        expect(tab.answers.nth(1)).to_contain_text(WORDS)
        tab.expect_quiet()
        for fold in tab.answers.nth(1).locator("summary").all():
            fold.tap()
        assert tab.width() <= PHONE[0]


def test_all_is_done_by_keys_from_the_first_message_to_a_fork(tab: Tab) -> None:
    press, page = tab.page.keyboard.press, tab.page
    expect(tab.field).to_be_focused()
    for words in ("one", "two"):
        page.keyboard.type(f"say {words}")
        press("Enter")
        expect(tab.answers.last).to_contain_text(words)
        tab.expect_quiet()
    first = tab.conversation
    fork = tab.answers.first.get_by_role("button", name="Fork the conversation from here")
    for _ in range(40):
        press("Shift+Tab")
        if fork.evaluate("(one) => one === document.activeElement"):
            break
    # What has the focus can be seen.
    expect(fork).to_be_focused()
    expect(fork).to_be_in_viewport()
    expect(tab.answers.first.locator(".entry-tools")).to_have_css("opacity", "1")
    press("Enter")
    expect(tab.answers).to_have_count(1)
    assert tab.conversation != first
    expect(tab.field).to_be_focused()
    press("Alt+ArrowDown")
    expect(tab.answers).to_have_count(2)
    assert tab.conversation == first
    expect(tab.field).to_be_focused()
    press("ArrowUp")
    expect(tab.field).to_have_value("say two")
    press("Escape")
    expect(tab.field).to_have_value("")


def test_the_answer_is_stopped_by_a_key(tab: Tab) -> None:
    tab.write("count 400 20")
    expect(tab.answers.first).to_contain_text("line number 3 of 400")
    tab.page.keyboard.press("Escape")
    tab.expect_quiet()
    expect(tab.answers.first).not_to_contain_text("line number 400 of 400")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", [(1200, 800), PHONE], ids=["desktop", "phone"])
def test_nobody_is_shut_out(
    site: Site, browser: Browser, tmp_path: Path, scheme: Literal["dark", "light"], size: tuple[int, int]
) -> None:
    gate = tmp_path / "gate"
    with visiting(site, browser, size, color_scheme=scheme) as visit:
        tab = visit.enter()
        assert violations(tab.page) == []
        tab.ask(WIDE, "A heading")
        tab.ask("tools It says: sun.", WORDS)
        for fold in tab.answers.nth(1).locator("summary").all():
            fold.click()
        assert violations(tab.page) == []
        tab.write(f"hold {gate} written while one looks")
        expect(tab.answers.nth(2)).to_contain_text("written")
        tab.write("say it waits")
        expect(tab.page.get_by_text("Waits for its turn")).to_be_visible()
        assert violations(tab.page) == []
        gate.touch()
        expect(tab.answers.nth(3)).to_contain_text("it waits")
        tab.write("ask the hall")
        expect(tab.page.get_by_role("heading", name="May I use open_window?")).to_be_visible()
        tab.field.fill("/")
        expect(tab.page.get_by_role("listbox", name="Commands")).to_be_visible()
        assert violations(tab.page) == []
        tab.field.fill("")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_nobody_is_shut_out_of_drawers_and_dialogs(
    site: Site, browser: Browser, scheme: Literal["dark", "light"]
) -> None:
    with visiting(site, browser, PHONE, color_scheme=scheme) as visit:
        tab = visit.enter()
        tab.ask("say hello", "hello")
        tab.button("Show the conversations").click()
        expect(tab.rows.first).to_be_in_viewport()
        assert violations(tab.page) == []
        tab.button("Keyboard shortcuts").click()
        dialog = tab.page.get_by_role("dialog", name="Keyboard")
        expect(dialog).to_be_visible()
        assert violations(tab.page) == []
        tab.page.keyboard.press("Escape")
        # Nothing outside takes letters until it is gone; then the focus is back where it was.
        expect(dialog).to_have_count(0)
        expect(tab.button("Keyboard shortcuts")).to_be_focused()
        tab.page.get_by_label("Search all conversations").fill("hello")
        expect(tab.page.get_by_role("list", name="Found")).to_be_visible()
        assert violations(tab.page) == []
        tab.page.context.clear_cookies()
        tab.page.goto("about:blank")
        tab.page.goto(site.address)
        expect(tab.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
        assert violations(tab.page) == []


def test_a_tab_that_gets_no_frames_is_drawn_all_the_same(visit: Visit) -> None:
    visit.context.add_init_script("window.requestAnimationFrame = () => 0")
    visit.enter().ask("say hello", "hello")


def test_a_reader_who_scrolled_up_is_not_moved_while_an_answer_grows(tab: Tab) -> None:
    tab.ask("say " + "\n\n".join(f"Paragraph {number} of an earlier answer." for number in range(60)), "Paragraph 59")
    tab.write("count 120 10")
    expect(tab.answers.nth(1)).to_contain_text("line number 2 of 120")
    middle = tab.answers.first.get_by_text("Paragraph 20 of an earlier answer.")
    middle.evaluate("(one) => one.scrollIntoView({block: 'start'})")
    expect(tab.page.get_by_role("button", name="To the newest")).to_be_visible()
    # Looked at in every frame from now on until the answer is whole.
    middle.evaluate("""(one) => {
        window.tops = new Set();
        const look = () => { window.tops.add(one.getBoundingClientRect().top); requestAnimationFrame(look); };
        look();
    }""")
    expect(tab.answers.nth(1)).to_contain_text("line number 120 of 120")
    tab.expect_quiet()
    tops = tab.page.evaluate("[...window.tops]")
    assert len(tops) == 1, tops
    tab.page.get_by_role("button", name="To the newest").click()
    expect(tab.answers.nth(1).get_by_text("line number 120 of 120")).to_be_in_viewport()


def test_a_reader_at_the_end_follows_and_nothing_jumps_when_the_answer_is_whole(tab: Tab) -> None:
    tab.ask("say " + "\n\n".join(f"Paragraph {number}." for number in range(40)), "Paragraph 39")
    tab.write("count 60 10")
    expect(tab.answers.nth(1)).to_contain_text("line number 2 of 60")
    tab.page.evaluate("""() => {
        window.backwards = 0;
        const log = document.querySelector('.log');
        let last = log.scrollTop;
        const look = () => {
            if (log.scrollTop < last - 1) window.backwards += 1;
            last = log.scrollTop;
            requestAnimationFrame(look);
        };
        look();
    }""")
    expect(tab.answers.nth(1)).to_contain_text("line number 60 of 60")
    tab.expect_quiet()
    assert tab.page.evaluate("window.backwards") == 0
    expect(tab.answers.nth(1).get_by_text("line number 60 of 60")).to_be_in_viewport()
