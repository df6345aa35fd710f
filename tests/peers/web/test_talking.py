"""The page as people use it: saying something, and taking it back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.peers.web.agent import WORDS
from tests.peers.web.world import Site, Tab, Visit

pytestmark = pytest.mark.peers

LATE_TIMERS = """(() => {
    const plan = window.setTimeout;
    window.setTimeout = (step, wait = 0, ...rest) => plan(step, wait + 5000, ...rest);
})()"""


def test_a_first_visit_ends_in_a_streamed_answer(site: Site, visit: Visit, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tab = visit.tab()
    tab.page.goto(site.link)
    expect(tab.field).to_be_focused()
    # The secret is out of the address before anything is written.
    assert tab.page.url == site.address
    assert "t=" not in str(tab.page.evaluate("JSON.stringify([location.href, history.state, document.cookie])"))
    tab.write(f"hold {gate} **Basil** likes the sun and dislikes the wind.")
    expect(tab.said).to_have_count(1)
    answer = tab.answers.first
    expect(answer).to_contain_text("Basil likes")
    expect(answer).not_to_contain_text("dislikes the wind")
    expect(tab.button("Stop the answer")).to_be_visible()
    gate.touch()
    expect(answer).to_contain_text("Basil likes the sun and dislikes the wind.")
    tab.expect_quiet()
    expect(answer.locator("strong")).to_have_text("Basil")
    assert tab.conversation
    tab.page.reload()
    expect(tab.answers).to_have_count(1)
    expect(tab.answers.first).to_contain_text("dislikes the wind.")


def test_without_a_link_the_page_shows_the_way_in_and_nothing_else(site: Site, visit: Visit) -> None:
    tab = visit.tab()
    tab.page.goto(site.address)
    expect(tab.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(tab.page.get_by_text("threadline web link")).to_be_visible()
    expect(tab.field).to_have_count(0)


def test_an_answer_that_comes_before_the_page_has_settled_is_shown(site: Site, visit: Visit) -> None:
    tab = visit.tab()
    # Frames come in time and timers late, as on a machine that has much else to do.
    tab.page.add_init_script(LATE_TIMERS)
    tab.page.goto(site.address)
    expect(tab.page.get_by_role("heading", name="You are not signed in")).to_be_visible()


def test_an_answer_is_stopped_and_what_was_said_stays(tab: Tab) -> None:
    tab.write("count 400 20")
    expect(tab.answers.first).to_contain_text("line number 5 of 400")
    tab.button("Stop the answer").click()
    tab.expect_quiet()
    expect(tab.answers.first).to_contain_text("line number 5 of 400")
    expect(tab.answers.first).not_to_contain_text("line number 400 of 400")
    expect(tab.said).to_have_count(1)


def test_an_answer_is_given_again(tab: Tab) -> None:
    first = tab.ask("tries", "Try number").inner_text()
    tab.answers.first.hover()
    tab.button("Answer again").click()
    expect(tab.answers.first).not_to_have_text(first)
    tab.expect_quiet()
    expect(tab.answers).to_have_count(1)
    expect(tab.said).to_have_count(1)


def test_an_exchange_is_undone_and_comes_back(tab: Tab) -> None:
    tab.ask("say first words", "first words")
    tab.ask("say second words", "second words")
    tab.button("Undo the last exchange").click()
    expect(tab.answers).to_have_count(1)
    expect(tab.said).to_have_count(1)
    tab.button("Redo").click()
    expect(tab.answers).to_have_count(2)
    expect(tab.answers.nth(1)).to_contain_text("second words")
    expect(tab.button("Redo")).to_be_disabled()


def test_a_conversation_is_forked_from_a_message_of_it(tab: Tab) -> None:
    for words in ("alpha", "beta", "gamma"):
        tab.ask(f"say {words}", words)
    before = tab.conversation
    answer = tab.answers.nth(1)
    answer.hover()
    answer.get_by_role("button", name="Fork the conversation from here").click()
    expect(tab.page).not_to_have_url(re.compile(before))
    expect(tab.answers).to_have_count(2)
    expect(tab.answers.last).to_contain_text("beta")
    tab.ask("say delta", "delta")
    tab.open(f"#/c/{before}")
    expect(tab.answers).to_have_count(3)
    expect(tab.answers.last).to_contain_text("gamma")


def test_a_message_is_edited_and_sent_again(tab: Tab) -> None:
    for words in ("one", "two", "three"):
        tab.ask(f"say {words}", words)
    said = tab.said.nth(1)
    said.hover()
    said.get_by_role("button", name="Edit this message and send it again").click()
    expect(tab.field).to_have_value("say two")
    expect(tab.field).to_be_focused()
    tab.field.fill("say another two")
    tab.field.press("Enter")
    expect(tab.answers.nth(1)).to_contain_text("another two")
    tab.expect_quiet()
    expect(tab.answers).to_have_count(2)
    expect(tab.said).to_have_count(2)
    tab.page.reload()
    expect(tab.answers).to_have_count(2)
    expect(tab.answers.last).to_contain_text("another two")


def test_nothing_is_edited_while_an_answer_is_written(tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tab.ask("say one", "one")
    tab.write(f"hold {gate} the second is slow")
    expect(tab.answers.last).to_contain_text("the sec")
    edit = tab.said.first.get_by_role("button", name="Edit this message and send it again")
    expect(edit).to_have_count(0)
    tab.field.press("ArrowUp")
    expect(tab.field).to_have_value("")
    gate.touch()
    tab.expect_quiet()
    expect(edit).to_have_count(1)


def test_what_is_said_while_an_answer_is_written_waits_and_can_be_dropped(tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tab.write(f"hold {gate} the first one is slow")
    expect(tab.answers.first).to_contain_text("the first")
    tab.write("say the second")
    expect(tab.page.get_by_text("Waits for its turn")).to_be_visible()
    tab.write("say the third")
    waits = tab.said.filter(has_text="say the third")
    expect(waits).to_contain_text("Waits as number 2")
    waits.get_by_role("button", name="Drop").click()
    expect(tab.said.filter(has_text="say the third")).to_have_count(0)
    gate.touch()
    expect(tab.answers.nth(1)).to_contain_text("the second")
    tab.expect_quiet()
    expect(tab.answers).to_have_count(2)


@pytest.mark.parametrize(
    ("word", "answer"), [("Allow", "The window is open."), ("Don't allow", "Then the window stays shut.")]
)
def test_a_question_is_answered_by_a_button(tab: Tab, word: str, answer: str) -> None:
    tab.write("ask the kitchen is warm")
    expect(tab.page.get_by_role("heading", name="May I use open_window?")).to_be_visible()
    expect(tab.page.locator(".ask")).to_contain_text("the kitchen is warm")
    tab.page.locator(".ask").get_by_role("button", name=word, exact=True).click()
    expect(tab.answers.last).to_contain_text(answer)
    expect(tab.page.locator(".ask")).to_have_count(0)
    tab.expect_quiet()


def test_thoughts_and_tools_are_folded_and_open_when_asked_for(tab: Tab) -> None:
    answer = tab.ask("tools Chapter 3 says: sun.", WORDS)
    expect(answer.get_by_text("Chapter 3 says: sun.")).to_be_hidden()
    expect(answer.get_by_text("They ask about plants")).to_be_hidden()
    answer.get_by_text("garden_book").click()
    expect(answer.get_by_text("Chapter 3 says: sun.")).to_be_visible()
    answer.get_by_text("Thoughts").click()
    expect(answer.get_by_text("They ask about plants")).to_be_visible()
    expect(tab.page.locator(".usage")).to_contain_text("1.2k tokens")
    expect(tab.page.locator(".usage")).to_contain_text("$0.0042")


def test_a_command_is_completed_and_its_answer_is_a_notice(tab: Tab) -> None:
    tab.ask("say hello", "hello")
    tab.field.press_sequentially("/ti")
    options = tab.page.get_by_role("listbox", name="Commands").get_by_role("option")
    expect(options.first).to_contain_text("/ti")
    expect(options.filter(has_text="/title")).to_be_visible()
    while "/title" not in options.and_(tab.page.locator("[aria-selected=true]")).inner_text():
        tab.field.press("ArrowDown")
    tab.field.press("Tab")
    expect(tab.field).to_have_value("/title ")
    tab.field.press_sequentially("A garden in May")
    tab.field.press("Enter")
    expect(tab.page.get_by_role("heading", name="A garden in May", level=1)).to_be_visible()
    expect(tab.rows.first).to_contain_text("A garden in May")
    expect(tab.said).to_have_count(1)
