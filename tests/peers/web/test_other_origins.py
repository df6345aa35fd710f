"""Another page in the same browser, whose owner is logged in with us: it reaches nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect
from tests.peers.web.world import Site, Tab, Visit

pytestmark = pytest.mark.peers

POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
# What a page of somebody else's can try, each ending in what it learnt.
TRIES = """async (site) => {
    const learnt = {};
    const attempt = async (name, work) => {
        try { learnt[name] = await work(); } catch (error) { learnt[name] = `nothing: ${error.name}`; }
    };
    const read = (path, options) =>
        fetch(site + path, {credentials: 'include', signal: AbortSignal.timeout(5000), ...options}).then((one) => one.text());
    const json = {'Content-Type': 'application/json'};
    const forged = JSON.stringify({id: 'forged', text: 'say forged'});
    await attempt('read', () => read('api/me'));
    await attempt('read without an answer', () => read('api/me', {mode: 'no-cors'}));
    await attempt('list', () => read('api/conversations'));
    await attempt('stream', () => read('api/events', {method: 'POST', headers: json, body: '{}'}));
    await attempt('metrics', () => read('metrics'));
    await attempt('speak', () => read('api/conversations/conversation1/messages', {method: 'POST', mode: 'no-cors', body: forged}));
    await attempt('events', () => new Promise((resolve) => {
        const source = new EventSource(site + 'api/events', {withCredentials: true});
        source.onopen = () => resolve('opened');
        source.onerror = () => { source.close(); resolve('nothing: refused'); };
    }));
    await attempt('frame', () => new Promise((resolve) => {
        const frame = document.createElement('iframe');
        frame.src = site;
        frame.onload = () => {
            try { resolve(frame.contentDocument.body.innerText); } catch (error) { resolve(`nothing: ${error.name}`); }
        };
        document.body.append(frame);
    }));
    await attempt('script', () => new Promise((resolve) => {
        const script = document.createElement('script');
        script.src = site + 'api/me';
        script.onload = () => resolve('loaded');
        script.onerror = () => resolve('nothing: refused');
        document.body.append(script);
    }));
    return learnt;
}"""
_FORM = b"""<!doctype html><title>Elsewhere</title><body>
<form method=post enctype=text/plain><input name='{"id":"forged1","text":"say forged","x":"' value='"}'></form>"""


class _Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_FORM)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A site of somebody else's: on this machine too, so it shares our cookies' name, but not our origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def stranger(visit: Visit, tab: Tab, elsewhere: str) -> Page:
    """Their page, in the browser of somebody who is logged in with us."""
    page = visit.context.new_page()
    page.goto(elsewhere)
    return page


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_scripts_of_another_origin_learn_nothing(site: Site, stranger: Page, name: str) -> None:
    learnt: dict[str, str] = stranger.evaluate(TRIES, f"http://{name}:{site.port}/")
    told = {what: words for what, words in learnt.items() if not words.startswith("nothing: ") and words != ""}
    assert told == {}
    assert len(learnt) == 9


def test_a_form_of_another_origin_says_nothing_in_our_name(site: Site, tab: Tab, stranger: Page) -> None:
    tab.ask("say a beginning", "a beginning")
    place = f"{site.address}api/conversations/{tab.conversation}/messages"
    with stranger.expect_navigation() as navigation:
        stranger.evaluate("(place) => { document.forms[0].action = place; document.forms[0].submit(); }", place)
    answer: Response | None = navigation.value
    assert answer is not None
    assert answer.status == 403
    tab.ask("say an end", "an end")
    expect(tab.said).to_have_count(2)
    tab.page.reload()
    expect(tab.said).to_have_count(2)


def test_our_own_page_learns_what_they_do_not(site: Site, tab: Tab) -> None:
    """So that the refusals above are told apart from a site that answers nobody."""
    read = "(path) => fetch(path).then((one) => one.text())"
    assert '"owner"' in str(tab.page.evaluate(read, f"{site.address}api/me"))
    assert '"conversations"' in str(tab.page.evaluate(read, f"{site.address}api/conversations"))


def test_every_answer_carries_the_policy_and_our_own_page_keeps_to_it(site: Site, visit: Visit) -> None:
    answers: list[Response] = []
    tab = visit.tab()
    tab.page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - a bound method of ours is wanted, not of the list
    tab.page.goto(site.link)
    tab.ask("say # A heading\n\n```python\nprint(1)\n```\n\n| a | b |\n|--|--|\n| 1 | 2 |", "A heading")
    assert {answer.headers.get("content-security-policy") for answer in answers} == {POLICY}
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
    # A breach would be in the console, which is one of the tab's faults.
    assert tab.faults == []


def test_the_cookie_is_for_no_script_and_no_other_site(site: Site, visit: Visit, tab: Tab) -> None:
    (cookie,) = visit.context.cookies(site.address)
    assert cookie["name"] == "threadline"
    assert cookie["httpOnly"] is True
    assert cookie["sameSite"] == "Strict"
    assert tab.page.evaluate("document.cookie") == ""
