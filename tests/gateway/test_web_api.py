"""The API of the page, as programs and the page itself use it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import httpx
import pytest
from tests.gateway.pages import BASE, CONVERSATION, GUEST, Paged, Talker, paged
from tests.gateway.talk import echo, eventually
from tests.gateway.world import awaited

from threadline.errors import UnknownFile
from threadline.ports.agent import Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.web.endpoints import ENDPOINTS
from threadline.web.openapi import describe

PATH = f"/api/conversations/{CONVERSATION}"


async def said(here: Paged, client: httpx.AsyncClient, text: str, key: str, **more: Any) -> httpx.Response:
    answer = await client.post(f"{PATH}/messages", json={"id": key, "text": text, **more})
    await here.answered()
    return answer


def shown(snapshot: httpx.Response) -> list[str]:
    return [message["text"] for message in snapshot.json()["messages"]]


@awaited
async def test_a_message_is_let_in_once_however_often_it_is_sent(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        first = await said(here, client, "one", "m1")
        assert (first.status_code, first.json()) == (202, {"verdict": "accepted"})
        again = await said(here, client, "one", "m1")
        assert (again.status_code, again.json()) == (202, {"verdict": "duplicate"})
        snapshot = await client.get(PATH)
        assert shown(snapshot) == ["one", "you said: one"]
        assert snapshot.json()["notices"] == []


@awaited
async def test_the_same_id_with_another_text_or_file_is_a_conflict(location: str) -> None:
    agent = Talker()
    async with paged(location, agent) as here, here.client as client:
        file = await client.post("/api/attachments", json={"name": "a", "mime": "text/plain", "content": "YQ=="})
        agent.says("a1")
        assert (await client.post(f"{PATH}/messages", json={"id": "m1", "text": "one"})).status_code == 202
        # While it is being answered, and after that.
        for _ in range(2):
            for other in ({"text": "two"}, {"text": "one", "attachments": [file.json()["id"]]}):
                answer = await client.post(f"{PATH}/messages", json={"id": "m1", **other})
                assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
                assert "new id" in answer.json()["message"]
            again = await client.post(f"{PATH}/messages", json={"id": "m1", "text": "one"})
            assert (again.status_code, again.json()) == (202, {"verdict": "duplicate"})
            agent.says(None)
            await here.answered()
        # Nothing is taken back for a message that does not come in.
        ref = (await client.get(PATH)).json()["messages"][0]["ref"]
        edited = await client.post(f"{PATH}/messages", json={"id": "m1", "text": "two", "instead_of": ref})
        assert edited.status_code == 409
        assert shown(await client.get(PATH)) == ["one", "a1"]


@awaited
async def test_an_id_of_a_conversation_that_breaks_the_rule_is_answered_with_the_rule(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        for bad in ("short", "with space", "x" * 65, "dotted.name"):
            answer = await client.post(f"/api/conversations/{bad}/messages", json={"id": "m1", "text": "one"})
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid")
            assert "8 to 64 letters, digits, `-` and `_`" in answer.json()["message"]


@awaited
async def test_the_owner_logs_in_with_the_token_and_goes_on_with_a_cookie(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers={"Origin": BASE}) as browser:
            assert (await browser.get("/api/me")).status_code == 401
            assert (await browser.post("/api/login", json={"token": "wrong"})).status_code == 401
            me = await browser.post("/api/login", json={"token": here.token})
            assert (me.status_code, me.json()["role"]) == (200, "owner")
            assert "HttpOnly" in me.headers["set-cookie"]
            assert (await browser.get("/api/me")).json() == me.json()
            assert (await browser.post("/api/logout", json={})).status_code == 204
            assert (await browser.get("/api/me")).status_code == 401


@awaited
async def test_who_asks_is_told_what_they_can_do(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        me = (await client.get("/api/me")).json()
        assert (me["user_id"], me["agent"], me["is_echo"], me["card"]) == ("owner", "main", False, None)
        assert "undo" in [command["name"] for command in me["commands"]]


@awaited
async def test_where_only_the_echo_answers_a_card_says_what_to_do(location: str) -> None:
    from threadline.agents.echo import EchoAgent

    async with paged(location, EchoAgent()) as here, here.client as client:
        me = (await client.get("/api/me")).json()
        assert me["is_echo"]
        assert me["card"]["title"]
        assert me["card"]["steps"]


@awaited
async def test_a_conversation_is_renamed_and_deleted(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await said(here, client, "one", "m1")
        renamed = await client.patch(PATH, json={"title": "Plans"})
        assert (renamed.json()["title"], renamed.json()["label"]) == ("Plans", "Plans")
        unnamed = await client.patch(PATH, json={"title": None})
        assert (unnamed.json()["title"], unnamed.json()["label"]) == (None, "one")
        assert (await client.patch(PATH, json={"title": "\n"})).status_code == 400
        assert (await client.delete(PATH)).status_code == 204
        assert (await client.get(PATH)).status_code == 404
        assert (await client.delete(PATH)).status_code == 404
        assert (await client.get("/api/conversations")).json() == {"conversations": [], "next": None}


async def _runs(client: httpx.AsyncClient) -> bool:
    return bool((await client.get(PATH)).json()["live"])


@awaited
async def test_deleting_a_conversation_stops_what_runs_there(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent, lease_seconds=1.5) as here, here.client as client:
        await client.post(f"{PATH}/messages", json={"id": "m1", "text": "go"})
        agent.says("and on")
        await eventually(lambda: _runs(client))
        assert (await client.delete(PATH)).status_code == 204
        # Nobody says that the agent is done.
        await here.answered()


@awaited
async def test_an_edited_message_takes_the_place_of_all_from_there_on(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        for text in ("one", "two", "three"):
            await said(here, client, text, text)
        refs = [message["ref"] for message in (await client.get(PATH)).json()["messages"]]
        for _ in range(2):
            # The second time as a page does that has not heard the answer to the first.
            answer = await said(here, client, "zwei", "edited", instead_of=refs[2])
            assert answer.status_code == 202
            assert shown(await client.get(PATH)) == ["one", "you said: one", "zwei", "you said: zwei"]
        assert (await said(here, client, "x", "m9", instead_of=refs[2])).status_code == 404
        assert (await said(here, client, "x", "m9", instead_of=refs[1])).status_code == 400
        assert shown(await client.get(PATH)) == ["one", "you said: one", "zwei", "you said: zwei"]


@awaited
async def test_nothing_is_taken_back_while_something_is_being_answered(location: str) -> None:
    agent = Talker()
    async with paged(location, agent) as here, here.client as client:
        agent.says("a1", None)
        await said(here, client, "one", "m1")
        ref = (await client.get(PATH)).json()["messages"][0]["ref"]
        await client.post(f"{PATH}/messages", json={"id": "m2", "text": "two"})
        agent.says("a2")
        await eventually(lambda: _runs(client))
        edited = await client.post(f"{PATH}/messages", json={"id": "m3", "text": "ONE", "instead_of": ref})
        assert (edited.status_code, edited.json()["error"]) == (409, "busy")
        agent.says(None)
        await here.answered()
        assert shown(await client.get(PATH)) == ["one", "a1", "two", "a2"]
        agent.says("a3", None)
        assert (await said(here, client, "ONE", "m3", instead_of=ref)).status_code == 202
        assert shown(await client.get(PATH)) == ["ONE", "a3"]


@awaited
async def test_a_conversation_is_forked_at_a_message_once(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        for text in ("one", "two"):
            await said(here, client, text, text)
        ref = (await client.get(PATH)).json()["messages"][1]["ref"]
        made = await client.post(f"{PATH}/fork", json={"id": "conversation-2", "upto": ref})
        again = await client.post(f"{PATH}/fork", json={"id": "conversation-2", "upto": ref})
        assert made.status_code == again.status_code == 201
        assert made.json()["session_id"] == again.json()["session_id"]
        assert shown(await client.get("/api/conversations/conversation-2")) == ["one", "you said: one"]
        unknown = await client.post(f"{PATH}/fork", json={"id": "conversation-3", "upto": "nobody:1"})
        assert unknown.status_code == 404


@awaited
async def test_earlier_sessions_of_a_conversation_can_be_read(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await said(here, client, "one", "m1")
        await said(here, client, "/new", "m2")
        await said(here, client, "two", "m3")
        rows = (await client.get("/api/conversations")).json()["conversations"]
        assert [(row["id"], row["ended"], row["label"]) for row in rows] == [
            (CONVERSATION, False, "two"),
            (CONVERSATION, True, "one"),
        ]
        ended = rows[1]["session_id"]
        assert shown(await client.get(PATH, params={"session": ended})) == ["one", "you said: one"]
        assert (await client.delete(PATH, params={"session": ended})).status_code == 204
        assert (await client.get(PATH, params={"session": ended})).status_code == 404
        assert shown(await client.get(PATH)) == ["two", "you said: two"]


@awaited
async def test_a_search_finds_words_in_ones_own_conversations_alone(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await said(here, client, "a ripe plum", "m1")
        await here.say("my plum", key="m1", user=GUEST)
        await here.answered()
        hits = (await client.get("/api/search", params={"q": "plum"})).json()["hits"]
        assert {hit["conversation"] for hit in hits} == {CONVERSATION}
        assert len(hits) == 2
        assert {"text": "plum", "hit": True} in hits[0]["snippet"]
        assert (await client.get("/api/search")).json() == {"hits": []}


@awaited
async def test_earlier_messages_come_page_by_page(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        for number in range(3):
            await said(here, client, f"{number}", f"m{number}")
        page = await client.get(PATH, params={"limit": "2"})
        assert shown(page) == ["2", "you said: 2"]
        assert page.json()["has_earlier"]
        before = page.json()["messages"][0]["ref"]
        earlier = await client.get(PATH, params={"limit": "4", "before": before})
        assert shown(earlier) == ["0", "you said: 0", "1", "you said: 1"]
        assert not earlier.json()["has_earlier"]


@awaited
async def test_a_file_is_kept_comes_with_a_message_and_is_given_back_as_a_download(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        content = base64.b64encode(b"<script>").decode()
        kept = await client.post("/api/attachments", json={"name": "a\n.html", "mime": "text/html", "content": content})
        assert (kept.status_code, kept.json()["size"]) == (201, 8)
        file_id = kept.json()["id"]
        await said(here, client, "see", "m1", attachments=[file_id])
        message = (await client.get(PATH)).json()["messages"][0]
        assert message["attachments"] == [kept.json()]
        got = await client.get(f"/api/attachments/{file_id}")
        assert got.content == b"<script>"
        assert got.headers["content-disposition"].startswith("attachment;")
        assert got.headers["content-security-policy"] == "sandbox"
        assert got.headers["content-type"] == "application/octet-stream"
        assert (await client.get(f"/api/attachments/{'0' * 64}")).status_code == 404
        assert (await said(here, client, "x", "m2", attachments=["0" * 64])).status_code == 404


async def with_plan(turn: Turn) -> AsyncIterator[Event]:
    """Says something and sends a file."""
    yield Text("here it is")
    yield await turn.file(b"<script>", name="plan.html", mime="text/html")


@awaited
async def test_a_file_of_an_answer_is_shown_once_and_given_to_whom_it_was_sent_alone(location: str) -> None:
    async with paged(location, ScriptedAgent(with_plan)) as here, here.client as client:
        await said(here, client, "the plan?", "m1")
        await eventually(lambda: is_quiet(here))
        snapshot = (await client.get(PATH)).json()
        assert [(one["text"], len(one["attachments"])) for one in snapshot["messages"]] == [
            ("the plan?", 0),
            ("here it is", 1),
        ]
        assert snapshot["notices"] == []
        (file,) = snapshot["messages"][1]["attachments"]
        assert (file["name"], file["mime"], file["size"]) == ("plan.html", "text/html", 8)
        got = await client.get(f"/api/attachments/{file['id']}")
        assert (got.status_code, got.content) == (200, b"<script>")
        with pytest.raises(UnknownFile):
            await here.store.read_file(f"web:{GUEST}", file["id"])


async def is_quiet(here: Paged) -> bool:
    """Whether all that was said is delivered."""
    return not await here.store.outbox.has_pending_on("web")


BAD_BODIES = [
    b"",
    b"[]",
    b"null",
    b"{",
    b'{"id": 1, "text": "x"}',
    b'{"id": "m1"}',
    b'{"id": "", "text": "x"}',
    b'{"id": "m/1", "text": "x"}',
    b'{"id": "m1", "text": 1}',
    b'{"id": "m1", "text": "x", "attachments": {}}',
    b'{"id": "m1", "text": "x", "attachments": ["../x"]}',
    b'{"id": "m1", "text": "\\ud800"}',
    b'{"id": "m1", "text": "\xff"}',
    b'{"id":' + b"[" * 100_000,
    b'{"id": "m1", "text": "x", "instead_of": ""}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
@awaited
async def test_what_is_not_as_described_is_refused_with_a_sentence(body: bytes, location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        answer = await client.post(f"{PATH}/messages", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"] == "invalid"
        assert answer.json()["message"].endswith(".")
        assert (await client.get(PATH)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/conversations?limit=0", 400),
        ("GET", "/api/conversations?limit=x", 400),
        ("GET", "/api/conversations?cursor=x", 400),
        ("GET", "/api/conversations?cursor=%00", 400),
        ("GET", f"{PATH}?before=x", 404),
        ("GET", f"{PATH}?session=%00", 400),
        ("GET", "/api/conversations/short", 400),
        ("GET", "/api/conversations/with%20space", 400),
        ("GET", "/api/search?q=%00%ff&limit=5", 200),
        ("GET", "/api/search?q=%22%22%20-&limit=5", 200),
        ("GET", "/api/nothing", 404),
        ("PUT", "/api/me", 405),
        ("GET", "/api/attachments/..%2fx", 404),
        ("GET", "/api/events?conversation=conversation-9", 404),
        ("GET", "/api/events?conversation=x", 400),
    ],
)
@awaited
async def test_whatever_is_asked_the_answer_is_json_and_no_fault(
    method: str, path: str, status: int, location: str
) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        answer = await client.request(method, path)
        assert answer.status_code == status
        if status >= 400:
            assert set(answer.json()) == {"error", "message"}


@awaited
async def test_a_store_that_is_away_is_told_as_such(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await here.store.close()
        assert (await client.get("/api/conversations")).status_code == 503
        assert (await client.get("/healthz")).status_code == 503


@awaited
async def test_what_is_counted_is_the_owners(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        assert "threadline_" in (await client.get("/metrics")).text
        assert (await client.get("/metrics", headers={"Authorization": ""})).status_code == 401


async def poured(here: Paged, path: str, headers: dict[str, str], wanted: bytes) -> tuple[dict[str, str], bytes]:
    """Opens a stream as a server does, until it has told what is wanted; then its reader leaves."""
    told, has_left, started = b"", asyncio.Event(), {}

    async def receive() -> dict[str, Any]:
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal told
        if message["type"] == "http.response.start":
            started.update({name.decode(): value.decode() for name, value in message["headers"]})
        told += message.get("body", b"")
        if wanted in told:
            has_left.set()

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:8765"), *raw],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    await here.app(scope, receive, send)
    return started, told


@awaited
async def test_a_stream_begins_with_everything_and_its_reader_may_leave_at_any_time(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await said(here, client, "one", "m1")
        bearer = {"Authorization": f"Bearer {here.token}"}
        path = f"/api/events?conversation={CONVERSATION}"
        headers, told = await poured(here, path, bearer, b"you said: one")
        assert headers["content-type"].startswith("text/event-stream")
        assert headers["x-accel-buffering"] == "no"
        assert headers["cache-control"] == "no-store"
        assert told.startswith(b"retry: 1000\n\nid: ")
        last_id = told.split(b"id: ")[1].split(b"\n")[0].decode()
        _, more = await poured(here, path, {**bearer, "Last-Event-ID": last_id}, b"event: ")
        assert b"event: snapshot" not in more
        assert not here.hub._subscribers
        assert not here.hub._feeds


@awaited
async def test_a_reader_that_takes_nothing_is_cut_off(location: str) -> None:
    from threadline.web.sse import EventStream

    async with paged(location, ScriptedAgent(echo)) as here, here.client as client:
        await said(here, client, "one", "m1")
        tab = await here.open()

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def may_listen() -> bool:
            return True

        await EventStream(tab.reader, here.hub.unsubscribe, may_listen, write_seconds=0.05)({}, receive, send)
        assert not here.hub._subscribers


@awaited
async def test_the_page_itself_needs_no_token_and_is_asked_for_again(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as browser:
            icon = await browser.get("/static/icon.svg")
            assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")
            assert icon.headers["cache-control"] == "no-cache"
            assert "immutable" in (await browser.get("/static/icon.svg?v=1")).headers["cache-control"]
            known = await browser.get("/static/icon.svg", headers={"If-None-Match": icon.headers["etag"]})
            assert (known.status_code, known.content) == (304, b"")
            for name in ("nothing.js", "..%2fapp.py", "%2e%2e/app.py"):
                assert (await browser.get(f"/static/{name}")).status_code == 404


def test_every_route_is_described_and_every_shape_is_there() -> None:
    description = json.loads(json.dumps(describe()))
    described = {(method.upper(), path) for path, operations in description["paths"].items() for method in operations}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    text = json.dumps(description)
    for part in text.split('"$ref": "')[1:]:
        name = part.split('"')[0].rpartition("/")[2]
        assert name in description["components"]["schemas"], name
    for operations in description["paths"].values():
        for operation in operations.values():
            assert operation["summary"].endswith("."), operation


@awaited
async def test_what_answers_is_what_is_described(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers={"Origin": BASE}) as stranger:
            answer = await stranger.get("/api/openapi.json")
            assert answer.json() == json.loads(json.dumps(describe()))
            for endpoint in ENDPOINTS:
                path = endpoint.path.replace("{id}", CONVERSATION)
                status = (await stranger.request(endpoint.method, path)).status_code
                assert status == (400 if endpoint.work is None else 401), endpoint
