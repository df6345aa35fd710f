"""Files beside a message: pasted, dropped, chosen, taken back, read by the agent and downloaded again."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import Route, expect
from tests.peers.web.agent import WORDS
from tests.peers.web.world import Tab

pytestmark = pytest.mark.peers

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# Makes an event of the browser with files in it, as hands would.
GIVE = """(target, [type, files]) => {
    const carried = new DataTransfer();
    for (const [name, mime, content] of files) {
        carried.items.add(new File([Uint8Array.from(atob(content), (one) => one.charCodeAt(0))], name, {type: mime}));
    }
    const event = type === 'paste'
        ? new ClipboardEvent('paste', {clipboardData: carried, bubbles: true, cancelable: true})
        : new DragEvent(type, {dataTransfer: carried, bubbles: true, cancelable: true});
    target.dispatchEvent(event);
}"""


def given(tab: Tab, selector: str, event: str, *files: tuple[str, str, bytes]) -> None:
    """Puts files before the page as if they came by hand."""
    packed = [(name, mime, base64.b64encode(content).decode()) for name, mime, content in files]
    tab.page.locator(selector).evaluate(GIVE, [event, packed])


def held_up(tab: Tab) -> Route:
    """A file of eighteen bytes that is on its way and gets no further until somebody lets it."""
    held: list[Route] = []
    tab.page.route("**/api/attachments*", lambda route: held.append(route))  # noqa: PLW0108 - it hangs a mark on what it is given
    given(tab, "#composer", "paste", ("notes.txt", "text/plain", b"remember the basil"))
    while not held:
        tab.page.wait_for_timeout(20)
    return held[0]


def expect_nothing_follows(tab: Tab, upload: Route, said: list[str]) -> None:
    """What is on its way arrives, and it was nobody's wish that something is sent with it."""
    with tab.page.expect_event("requestfinished", lambda request: "/api/attachments" in request.url):
        upload.continue_()
    tab.ask("say done", "done")
    assert [text for who, text in tab.sees() if who == "You"] == [*said, "say done"]


def test_a_picture_is_pasted_and_the_agent_gets_it(tab: Tab) -> None:
    given(tab, "#composer", "paste", ("pixel.png", "image/png", PIXEL))
    files = tab.page.get_by_role("list", name="Files to send").get_by_role("listitem")
    expect(files).to_contain_text("pixel.png")
    expect(files.locator("img")).to_be_visible()
    tab.ask("files", f"pixel.png with {len(PIXEL)} bytes")
    expect(files).to_have_count(0)
    shown = tab.said.first.get_by_role("link", name="pixel.png")
    expect(shown.locator("img")).to_have_js_property("naturalWidth", 1)
    with tab.page.expect_download() as download:
        shown.click()
    assert download.value.path().read_bytes() == PIXEL
    assert download.value.suggested_filename == "pixel.png"


def test_files_are_dropped_and_one_is_taken_back(tab: Tab) -> None:
    notes, list_ = ("notes.txt", "text/plain", b"remember the basil"), ("list.html", "text/html", b"<script>1</script>")
    given(tab, "main", "dragover", notes)
    expect(tab.page.get_by_text("Drop files to attach them")).to_be_visible()
    given(tab, "main", "drop", notes, list_)
    expect(tab.page.get_by_text("Drop files to attach them")).to_have_count(0)
    files = tab.page.get_by_role("list", name="Files to send").get_by_role("listitem")
    expect(files).to_have_count(2)
    tab.button("Remove list.html").click()
    expect(files).to_have_count(1)
    answer = tab.ask("files", "notes.txt with 18 bytes")
    expect(answer).not_to_contain_text("list.html")


def test_what_is_sent_before_its_file_has_arrived_waits_for_it(tab: Tab) -> None:
    upload = held_up(tab)
    tab.write("files")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    expect(tab.field).to_have_value("files")
    expect(tab.said).to_have_count(0)
    upload.continue_()
    expect(tab.answers.first).to_contain_text("notes.txt with 18 bytes")
    expect(tab.field).to_have_value("")
    expect(tab.said).to_have_count(1)


def test_what_is_written_on_is_not_sent_with_the_file_by_itself(tab: Tab) -> None:
    upload = held_up(tab)
    tab.write("files")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    tab.field.press_sequentially(" and more")
    expect(tab.page.get_by_text("The file is on its way")).to_be_visible()
    upload.continue_()
    expect(tab.page.get_by_role("list", name="Files to send").get_by_role("listitem")).to_have_class("file ready")
    expect(tab.field).to_have_value("files and more")
    expect(tab.said).to_have_count(0)


def test_an_edit_that_is_given_up_while_its_file_is_on_its_way_sends_nothing(tab: Tab) -> None:
    tab.ask("say one", "one")
    tab.field.fill("a draft")
    tab.said.first.hover()
    tab.said.first.get_by_role("button", name="Edit this message and send it again").click()
    expect(tab.field).to_have_value("say one")
    upload = held_up(tab)
    tab.field.press("Enter")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    tab.button("Cancel").click()
    expect(tab.field).to_have_value("a draft")
    expect_nothing_follows(tab, upload, ["say one"])


def test_who_takes_the_file_back_sends_nothing_yet(tab: Tab) -> None:
    upload = held_up(tab)
    tab.write("files")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    tab.button("Remove notes.txt").click()
    expect(tab.page.get_by_role("list", name="Files to send")).to_have_count(0)
    expect(tab.field).to_have_value("files")
    expect_nothing_follows(tab, upload, [])


def test_enter_once_more_sends_it_once(tab: Tab) -> None:
    upload = held_up(tab)
    tab.write("files")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    # In the very moment in which the page shows that it has arrived.
    tab.page.evaluate("""() => {
        const press = () => document.querySelector('#composer')
            .dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
        const seen = new MutationObserver(() => {
            if (document.querySelector('li.file.sending')) return;
            seen.disconnect();
            press();
        });
        seen.observe(document.querySelector('form.composer'), {subtree: true, attributes: true, childList: true});
    }""")
    upload.continue_()
    expect(tab.answers.first).to_contain_text("notes.txt with 18 bytes")
    tab.ask("say done", "done")
    assert [text for who, text in tab.sees() if who == "You"] == ["files", "say done"]


def test_what_waits_for_a_file_that_never_arrives_is_not_sent_without_it(tab: Tab) -> None:
    upload = held_up(tab)
    tab.write("files")
    expect(tab.page.get_by_text("Waits here for the file")).to_be_visible()
    upload.abort()
    expect(tab.page.get_by_role("list", name="Files to send").get_by_role("listitem")).to_have_class("file failed")
    expect(tab.page.get_by_text("Waits here for the file")).to_have_count(0)
    expect(tab.field).to_have_value("files")
    expect(tab.said).to_have_count(0)


def test_a_file_that_is_too_large_says_so_and_is_not_sent(tab: Tab) -> None:
    limit = int(
        tab.page.evaluate("fetch('/api/me').then((one) => one.json()).then((me) => me.limits.attachment_bytes)")
    )
    tab.page.locator("#composer").evaluate(
        """(target, size) => {
            const carried = new DataTransfer();
            carried.items.add(new File([new Uint8Array(size)], 'large.bin'));
            target.dispatchEvent(new ClipboardEvent('paste', {clipboardData: carried, bubbles: true, cancelable: true}));
        }""",
        limit + 1,
    )
    expect(tab.page.get_by_text("This file is larger than")).to_be_visible()
    expect(tab.button("Send")).to_be_disabled()


def test_a_file_of_an_answer_is_shown_and_downloaded(tab: Tab) -> None:
    answer = tab.ask("send basil.txt", "Here is basil.txt.")
    shown = answer.get_by_role("link", name="basil.txt")
    expect(shown).to_have_count(1)
    with tab.page.expect_download() as download:
        shown.click()
    assert download.value.path().read_bytes() == WORDS.encode()
    assert download.value.suggested_filename == "basil.txt"
    tab.page.reload()
    expect(tab.answers.last.get_by_role("link", name="basil.txt")).to_have_count(1)
