"""Several tabs, several people, and a gateway that dies in the middle of a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.peers.web.world import Site, Tab, Visit, visiting

pytestmark = pytest.mark.peers


def test_a_killed_gateway_comes_back_and_the_text_goes_on(own_site: Site, browser: Browser, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    words = " ".join(f"word{number}" for number in range(60))
    with visiting(own_site, browser) as visit:
        tab = visit.enter()
        tab.ask("say before the storm", "before the storm")
        tab.write(f"hold {gate} {words}")
        expect(tab.answers.nth(1)).to_contain_text("word28")
        own_site.kill()
        expect(tab.page.get_by_text("No connection to Threadline.")).to_be_visible()
        # What was read stays in sight.
        expect(tab.answers.nth(1)).to_contain_text("word28")
        own_site.start()
        expect(tab.page.get_by_text("No connection to Threadline.")).to_have_count(0)
        gate.touch()
        expect(tab.answers.nth(1)).to_contain_text("word59")
        tab.expect_quiet()
        whole = " ".join(tab.answers.nth(1).locator(".parts").inner_text().split())
        assert whole == words
        assert [who for who, _ in tab.sees()] == ["You", "Answer", "You", "Answer"]
        shown = tab.sees()
        tab.page.reload()
        expect(tab.answers).to_have_count(2)
        assert tab.sees() == shown


def test_a_message_written_without_a_connection_is_sent_once_there_is_one(own_site: Site, browser: Browser) -> None:
    with visiting(own_site, browser) as visit:
        tab = visit.enter()
        tab.ask("say one", "one")
        own_site.kill()
        expect(tab.page.get_by_text("No connection to Threadline.")).to_be_visible()
        tab.write("say two")
        expect(tab.page.get_by_text("No connection. It is sent as soon as there is one.")).to_be_visible()
        own_site.start()
        expect(tab.answers.nth(1)).to_contain_text("two")
        tab.expect_quiet()
        expect(tab.said).to_have_count(2)


def test_two_tabs_see_the_same_talk_as_it_happens(visit: Visit, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tab.ask("say a beginning", "a beginning")
    other = visit.tab().open(f"#/c/{tab.conversation}")
    expect(other.answers).to_have_count(1)
    other.write(f"hold {gate} seen by both of them at once")
    for one in (tab, other):
        expect(one.said).to_have_count(2)
        expect(one.answers.nth(1)).to_contain_text("seen by")
        expect(one.button("Stop the answer")).to_be_visible()
    gate.touch()
    for one in (tab, other):
        expect(one.answers.nth(1)).to_contain_text("seen by both of them at once")
        one.expect_quiet()
    tab.button("Undo the last exchange").click()
    for one in (tab, other):
        expect(one.answers).to_have_count(1)
        expect(one.page.locator(".entry.notice")).to_have_count(1)
    assert tab.sees() == other.sees()


def test_a_guest_sees_their_own_conversations_alone(site: Site, browser: Browser, tab: Tab) -> None:
    tab.ask("say for the owner's eyes", "for the owner's eyes")
    with visiting(site, browser) as visit:
        guest = visit.enter(site.invite("Grace"))
        assert guest.page.url == site.address
        expect(guest.page.get_by_text("Hello, Grace.")).to_be_visible()
        expect(guest.page.get_by_text("What you talk about will stand here.")).to_be_visible()
        guest.ask("say for Grace alone", "for Grace alone")
        expect(guest.rows).to_have_count(1)
        own = guest.conversation
        guest.page.get_by_label("Search all conversations").fill("owner's eyes")
        expect(guest.page.get_by_text("Nothing found.")).to_be_visible()
        guest.page.goto(f"{site.address}#/c/{tab.conversation}")
        expect(guest.page.get_by_text("This conversation is not here.")).to_be_visible()
        tab.page.goto(f"{site.address}#/c/{own}")
        expect(tab.page.get_by_text("This conversation is not here.")).to_be_visible()
        tab.page.get_by_label("Search all conversations").fill("Grace alone")
        expect(tab.page.get_by_text("Nothing found.")).to_be_visible()


def test_an_invitation_lets_one_browser_in(site: Site, browser: Browser) -> None:
    link = site.invite("Hedy")
    with visiting(site, browser) as first:
        first.enter(link)
    with visiting(site, browser) as second:
        tab = second.tab()
        tab.page.goto(link)
        expect(tab.page.get_by_text("This link is not valid, or not any more.")).to_be_visible()


def test_who_signs_out_is_out(tab: Tab) -> None:
    tab.ask("say goodbye", "goodbye")
    tab.button("Sign out").click()
    tab.page.get_by_role("dialog", name="Sign out?").get_by_role("button", name="Sign out").click()
    expect(tab.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    tab.page.go_back()
    expect(tab.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(tab.answers).to_have_count(0)
